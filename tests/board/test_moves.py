"""The six states, and who moves a task between them."""

from collections.abc import Callable

import pytest

from ringfence.board.model import MOVES, Status
from ringfence.kernel.auth.model import Role
from tests.board.conftest import STATES, Project, refused

DOCUMENTED = {
    "backlog": {"ready", "blocked"},
    "ready": {"in_progress", "blocked", "backlog"},
    "in_progress": {"in_review", "blocked", "ready"},
    "in_review": {"done", "in_progress"},
    "blocked": {"ready", "backlog"},
    "done": {"backlog"},
}


def test_the_table_of_moves_is_the_documented_one():
    assert {str(came): {str(to) for to in went} for came, went in MOVES.items()} == DOCUMENTED
    assert [str(status) for status in Status] == list(STATES)


@pytest.mark.parametrize("came", STATES)
def test_from_each_state_exactly_the_documented_moves_are_possible(
    came: str, project: Project, in_state: Callable[[str], str]
):
    for went in STATES:
        task = in_state(came)
        before = project.show(task)
        answer = project.move(task, went)
        if went in DOCUMENTED[came]:
            assert answer.status_code == 200, (came, went, answer.text)
            assert answer.json()["status"] == went
            line = answer.json()["transitions"][-1]
            assert (line["from"], line["to"], line["by"]) == (came, went, "admin")
        else:
            problem = refused(answer, 400, "invalid_transition")
            assert set(problem["allowed"]) == DOCUMENTED[came]
            assert f"Invalid transition: {came} → {went}" in problem["error"]
            assert project.show(task) == before
            told = project.events(subject=task)[-1]
            assert (told["kind"], told["data"]["code"]) == ("refused", "invalid_transition")
            assert told["actor"] == "operator:admin"


def test_a_status_that_is_none_is_refused_with_the_six_named(project: Project):
    task = project.task()
    problem = refused(project.move(task, "finished"), 400, "invalid_status")
    assert all(state in problem["error"] for state in STATES)
    refused(project.move(task, "Ready"), 400, "invalid_status")
    refused(project.move(task, ""), 400, "invalid_status")
    assert project.show(task)["status"] == "backlog"


def test_a_claimant_goes_straight_to_review_and_both_steps_are_recorded(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    answer = project.move(task, "in_review", agent)
    assert answer.status_code == 200
    steps = [(line["from"], line["to"]) for line in answer.json()["transitions"]]
    assert steps == [("backlog", "ready"), ("ready", "in_progress"), ("in_progress", "in_review")]
    told = [(event["data"]["old_status"], event["data"]["new_status"]) for event in project.events(subject=task)
            if event["kind"] == "task_transition"]  # fmt: skip
    assert told == steps
    assert answer.json()["started_at"] == answer.json()["review_started_at"] is not None


def test_a_held_task_tells_that_it_may_go_to_review_too(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    problem = refused(project.move(task, "done", agent), 400, "invalid_transition")
    assert set(problem["allowed"]) == {"in_progress", "blocked", "backlog", "in_review"}


def test_a_ready_task_that_nobody_claimed_does_not_go_straight_to_review(project: Project):
    agent = project.agent()
    task = project.task(status="ready")
    refused(project.move(task, "in_review", agent), 400, "invalid_transition")
    assert project.assign(task, agent).status_code == 200
    refused(project.move(task, "in_review", agent), 400, "invalid_transition")


def test_a_patch_without_status_reads_and_one_with_a_documented_curl_moves(project: Project):
    task = project.task()
    url = f"{project.path}/tasks/{task}"
    assert project.admin.patch(url, content=b"").json() == project.show(task)
    answer = project.admin.patch(url, content=b'{"status":"ready"}')  # no content type, as curl -d would not say JSON
    assert answer.status_code == 200
    assert answer.json()["status"] == "ready"


# Ownership --------------------------------------------------------------------------------------------------------


def test_an_agent_does_not_move_what_it_does_not_have(project: Project):
    owner, other = project.agent(), project.agent()
    task = project.claimed(project.task(), owner)
    for status in ("in_progress", "blocked", "backlog", "in_review"):
        answer = project.move(task, status, other)
        assert answer.status_code in (403, 409), answer.text
        assert owner.name in answer.json()["error"]
    project.move(task, "in_review", owner)
    refused(project.move(task, "in_progress", other), 403, "not_yours")
    refused(project.move(task, "done", other), 403, "not_yours")
    assert project.show(task)["status"] == "in_review"


def test_an_agent_does_not_move_what_nobody_gave_it(project: Project):
    agent = project.agent()
    task = project.task()
    for status in ("ready", "blocked"):
        refused(project.move(task, status, agent), 403, "not_yours")
    blocked = project.task()
    project.moved(blocked, "blocked")
    refused(project.move(blocked, "ready", agent), 403, "not_yours")


def test_an_agent_grooms_what_it_wrote_until_somebody_has_it(project: Project):
    writer, other = project.agent(), project.agent()
    made = writer.client.post(f"{project.path}/tasks", json={"title": "mine"}).json()["id"]
    assert project.move(made, "ready", writer).status_code == 200
    project.claimed(made, other)
    refused(project.move(made, "blocked", writer), 403, "not_yours")


def test_moving_a_ready_task_to_in_progress_takes_it(project: Project):
    agent, other = project.agent(), project.agent()
    task = project.task(status="ready")
    answer = project.move(task, "in_progress", agent)
    assert answer.status_code == 200
    assert answer.json()["claimed_by"] == answer.json()["assigned_to"] == agent.name
    held = project.claimed(project.task(), agent)
    problem = refused(project.move(held, "in_progress", other), 403, "not_yours")
    assert agent.name in problem["error"]


@pytest.mark.parametrize("field", ["agent", "created_by"])
def test_an_agent_that_names_another_in_a_body_is_refused_and_recorded(field: str, project: Project):
    agent, victim = project.agent(), project.agent()
    task = project.claimed(project.task(), victim)
    if field == "agent":
        attempts = [
            project.move(task, "in_progress", agent, agent=victim.name),
            project.claim(project.task(), agent, agent=victim.name),
            project.act(task, "release", agent, agent=victim.name),
            agent.client.post(f"/api/v1{project.path}/claim-next", json={"agent": victim.name}),
            agent.client.patch(f"{project.path}/tasks/{task}", json={"title": "x", "agent": victim.name}),
            agent.client.post(f"{project.path}/join", json={"agent": victim.name}),
            agent.client.post(f"/api/v1{project.path}/leave", json={"agent": victim.name}),
            agent.client.get(f"{project.path}/tasks/ready", params={"agent": victim.name}),
            agent.client.post(f"{project.path}/tasks/{task}/reviewers/{victim.name}"),
            agent.client.post("/projects", json={"name": "x", "creator": victim.name}),
            project.assign(task, agent, agent, assigned_by=victim.name),
            project.assign(task, agent, agent, assigned_by="human"),
            project.move(task, "in_progress", agent, agent="human"),
            agent.client.post(f"{project.path}/files", files={"file": ("a.txt", b"x")}, data={"uploader": victim.name}),
        ]
    else:
        attempts = [agent.client.post(f"{project.path}/tasks", json={"title": "x", "created_by": victim.name})]
    for attempt in attempts:
        refused(attempt, 403, "not_yourself")
    told = project.admin.get("/api/v1/audit", params={"kind": "refused", "actor": f"agent:{agent.name}"}).json()
    assert any(event["data"]["code"] == "not_yourself" for event in told["items"])
    assert project.show(task)["claimed_by"] == victim.name
    assert project.show(task)["status"] == "ready"


def test_an_operator_acting_for_an_agent_is_recorded_with_both_names(project: Project):
    agent = project.agent()
    task = project.task()
    assert project.claim(task, agent=agent.name).status_code == 200
    told = [event for event in project.events(subject=task) if event["kind"] == "task_claimed"][-1]
    assert (told["actor"], told["via"]) == (f"agent:{agent.name}", "operator:admin")


def test_human_controls_are_refused_to_agents(project: Project):
    agent, other = project.agent(), project.agent()
    task = project.task()
    refused(project.assign(task, agent, agent), 403, "forbidden")
    refused(project.assign(task, other, agent), 403, "forbidden")
    v1 = f"/api/v1{project.path}"
    refused(agent.client.patch(v1, json={"visibility": "members"}), 403, "role")
    refused(agent.client.patch(f"{project.path}/wip", json={"status": "in_progress", "limit": 99}), 403, "role")
    refused(agent.client.put(f"{v1}/wip", json={"status": "in_progress", "limit": 99}), 403, "role")
    refused(agent.client.delete(project.path), 403, "forbidden")
    assert agent.client.post(f"{project.path}/tasks", json={"title": "x", "assigned_to": other.name}).status_code == 403
    assert agent.client.post(f"{project.path}/tasks/{task}/unassign").status_code == 403
    assert project.show(task)["assigned_to"] is None
    assert project.admin.get(f"{v1}/wip").json()["agent"]["in_progress"] == 3


def test_a_coordinator_assigns_and_unassigns_others(project: Project):
    lead, worker = project.agent(scopes=["coordinator"]), project.agent()
    task = project.task()
    assert project.assign(task, worker, lead).status_code == 200
    assert project.show(task)["assigned_to"] == worker.name
    told = [event for event in project.events(subject=task) if event["kind"] == "task_assigned"][-1]
    assert (told["actor"], told["data"]["by"], told["data"]["agent"]) == (f"agent:{lead.name}", lead.name, worker.name)
    assert lead.client.post(f"{project.path}/tasks/{task}/unassign").status_code == 200
    assert project.show(task)["assigned_to"] is None
    made = lead.client.post(f"{project.path}/tasks", json={"title": "x", "assigned_to": worker.name})
    assert made.json()["assigned_to"] == worker.name


def test_a_viewer_reads_and_changes_nothing(project: Project):
    viewer = project.server.client(project.server.token("viewer-of-boards", Role.VIEWER))
    task = project.task()
    assert viewer.get(f"{project.path}/tasks").status_code == 200
    assert project.move(task, "ready", viewer).status_code == 403
    assert project.claim(task, viewer, agent="viewer-of-boards").status_code == 403
    assert viewer.post(f"{project.path}/tasks", json={"title": "x"}).status_code == 403
    assert viewer.post(f"{project.path}/files", files={"file": ("a", b"x")}).status_code == 403
    assert project.show(task)["status"] == "backlog"


# Assign, unassign, give back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("came", STATES)
def test_assign_makes_a_task_ready_for_its_agent_but_not_from_done(
    came: str, project: Project, in_state: Callable[[str], str]
):
    agent = project.agent()
    task = in_state(came)
    before = project.show(task)
    answer = project.admin.post(f"{project.path}/tasks/{task}/assign", json={"agent": agent.name})
    if came == "done":
        refused(answer, 400, "done")
        assert project.show(task) == before
        return
    assert answer.json() == {"ok": True}
    after = project.show(task)
    assert (after["status"], after["assigned_to"], after["claimed_by"]) == ("ready", agent.name, None)
    assert task in project.ready(agent.name)
    assert task not in project.ready(project.agent().name)


@pytest.mark.parametrize("came", STATES)
def test_unassign_takes_a_task_back_to_the_backlog_from_everywhere(
    came: str, project: Project, in_state: Callable[[str], str]
):
    task = in_state(came)
    answer = project.admin.post(f"{project.path}/tasks/{task}/unassign")
    assert answer.json() == {"ok": True}
    after = project.show(task)
    assert (after["status"], after["assigned_to"], after["claimed_by"]) == ("backlog", None, None)
    assert after["started_at"] is after["completed_at"] is None


def test_assigning_to_another_takes_a_claim_away(project: Project):
    first, second = project.agent(), project.agent()
    task = project.claimed(project.task(), first)
    assert project.admin.get("/agents").status_code == 200
    project.assign(task, second)
    after = project.show(task)
    assert (after["assigned_to"], after["claimed_by"]) == (second.name, None)
    assert refused(project.claim(task, first), 409, "assigned_to_another")["assigned_to"] == second.name
    agents = {agent["name"]: agent for agent in project.admin.get("/agents").json()}
    assert agents[first.name]["current_task_id"] is None


def test_only_a_held_task_or_one_in_progress_is_given_back(project: Project):
    agent, other = project.agent(), project.agent()
    task = project.claimed(project.task(), agent)
    refused(project.act(task, "release", other), 403, "not_yours")
    assert project.act(task, "release", agent).json()["assigned_to"] is None
    assert project.show(task)["status"] == "ready"
    refused(project.act(task, "release"), 400, "not_held")
    project.claimed(task, agent)
    project.move(task, "in_progress", agent)
    assert project.act(task, "release", agent).json()["status"] == "ready"
    assert task in project.ready(other.name)
    project.claimed(task, agent)
    project.move(task, "in_review", agent)
    refused(project.act(task, "release", agent), 400, "not_held")
    kinds = [event["kind"] for event in project.events(subject=task)]
    assert kinds.count("task_released") == 2


# Reviews --------------------------------------------------------------------------------------------------------------


def test_done_waits_for_the_reviewers_it_requires(project: Project):
    agent, one, two = project.agent(), project.agent(), project.agent()
    task = project.claimed(project.task(required_reviewers=2), agent)
    project.move(task, "in_review", agent)
    assert refused(project.move(task, "done", agent), 400, "review_missing")["required_reviewers"] == 2
    assert project.sign(task, one).json() == {"status": "ok"}
    assert project.sign(task, one).json() == {"status": "ok"}
    assert project.show(task)["reviewers"] == [one.name]
    refused(project.move(task, "done", agent), 400, "review_missing")
    project.sign(task, two)
    assert project.move(task, "done", agent).json()["status"] == "done"


def test_nobody_reviews_their_own_work_however_they_go_about_it(project: Project):
    agent, other = project.agent(), project.agent()
    early = project.task()
    assert project.sign(early, agent).status_code == 200  # before it took the task
    project.claimed(early, agent)
    refused(project.sign(early, agent), 400, "own_work")
    project.move(early, "in_review", agent)
    refused(project.sign(early, agent), 400, "own_work")
    refused(project.move(early, "done", agent), 400, "review_missing")
    refused(project.admin.post(f"{project.path}/tasks/{early}/reviewers/{agent.name}"), 400, "own_work")
    refused(project.move(early, "done", agent=agent.name), 400, "review_missing")
    project.sign(early, other)
    assert project.move(early, "done", agent).status_code == 200


def test_a_persons_move_to_done_is_a_review_and_is_recorded_as_one(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    project.move(task, "in_review", agent)
    done = project.moved(task, "done")
    assert done["reviewers"] == ["admin"]
    kinds = [event["kind"] for event in project.events(subject=task)]
    assert "task_reviewer_added" in kinds


def test_a_person_counts_once_and_two_are_two(project: Project):
    agent, second = project.agent(), project.operator()
    task = project.claimed(project.task(required_reviewers=2), agent)
    project.move(task, "in_review", agent)
    refused(project.move(task, "done"), 400, "review_missing")
    project.admin.post(f"{project.path}/tasks/{task}/reviewers/admin")
    refused(project.move(task, "done"), 400, "review_missing")
    assert project.move(task, "done", second).status_code == 200


def test_rework_needs_new_reviews(project: Project):
    agent, reviewer = project.agent(), project.agent()
    task = project.claimed(project.task(), agent)
    project.move(task, "in_review", agent)
    project.sign(task, reviewer)
    assert project.move(task, "in_progress", reviewer).status_code == 200  # who reviews sends it back
    again = project.show(task)
    assert again["reviewers"] == []
    assert again["review_started_at"] is None
    assert again["claimed_by"] == agent.name
    project.move(task, "in_review", agent)
    refused(project.move(task, "done", agent), 400, "review_missing")


def test_a_review_can_be_taken_back_by_its_author_and_by_people_only(project: Project):
    agent, reviewer, other = project.agent(), project.agent(), project.agent()
    task = project.claimed(project.task(), agent)
    project.move(task, "in_review", agent)
    project.sign(task, reviewer)
    url = f"/api/v1{project.path}/tasks/{task}/reviewers/{reviewer.name}"
    refused(other.client.delete(url), 403, "not_yourself")
    assert reviewer.client.delete(url).status_code == 200
    assert project.show(task)["reviewers"] == []
    assert project.admin.delete(url).status_code == 404


def test_an_agent_writes_no_task_that_nobody_reviews(project: Project):
    agent = project.agent()
    url = f"{project.path}/tasks"
    refused(agent.client.post(url, json={"title": "x", "required_reviewers": 0}), 400, "review_missing")
    made = agent.client.post(url, json={"title": "x", "required_reviewers": 2}).json()["id"]
    refused(agent.client.patch(f"{url}/{made}", json={"required_reviewers": 0}), 400, "review_missing")
    unreviewed = project.task(required_reviewers=0)  # a person may
    project.claimed(unreviewed, agent)
    project.move(unreviewed, "in_review", agent)
    assert project.move(unreviewed, "done", agent).status_code == 200


# Blocking -------------------------------------------------------------------------------------------------------------


def test_a_reason_stands_while_a_task_is_blocked_and_not_longer(project: Project):
    task = project.task()
    blocked = project.moved(task, "blocked", blocked_reason="no key")
    assert blocked["blocked_reason"] == "no key"
    ready = project.moved(task, "ready")
    assert ready["blocked_reason"] is ready["blocked_by"] is None


def test_blocked_by_names_another_unfinished_task_of_the_project(project: Project, in_state: Callable[[str], str]):
    task, elsewhere = project.task(), Project(project.server).task()
    for other in (elsewhere, "tsk_none", task, in_state("done"), "x'; drop table tasks; --"):
        answer = project.move(task, "blocked", blocked_by=other)
        assert answer.status_code == 400, answer.text
    assert project.show(task)["status"] == "backlog"


def test_a_task_blocked_by_another_is_freed_when_that_is_done(project: Project):
    task, other = project.task(), project.task()
    assert project.moved(task, "blocked", blocked_by=other)["blocked_by"] == other
    project.moved(other, "ready", "in_progress", "in_review")
    assert project.show(task)["status"] == "blocked"
    project.moved(other, "done")
    assert project.show(task)["status"] == "ready"
    assert project.show(task)["blocked_by"] is None


def test_an_agent_writes_no_links_into_reasons_and_notes(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    refused(project.move(task, "blocked", agent, blocked_reason="see http://evil.com/x"), 400, "external_link")
    refused(project.move(task, "in_progress", agent, note="https://evil.com"), 400, "external_link")
    assert project.move(task, "in_progress", note="https://evil.com").status_code == 200
