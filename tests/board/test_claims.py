"""Claiming: who may, in which order it is refused, what holding a task means, WIP limits, modes, capabilities."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ringfence.kernel.auth.model import TokenKind
from tests.board.conftest import Agent, Project, refused
from tests.harness import Ringfence

# What a claim is, and the order in which it is refused ---------------------------------------------------------------


def test_a_claim_answers_as_documented_and_holds_the_task(project: Project):
    agent, other = project.agent(), project.agent()
    task = project.task()
    assert project.claim(task, agent).json() == {"ok": True, "task_id": task}
    held = project.show(task)
    assert (held["status"], held["claimed_by"], held["assigned_to"]) == ("ready", agent.name, agent.name)
    assert task not in project.ready(other.name)
    assert task not in project.ready(agent.name)
    assert task not in project.ready()
    agents = {each["name"]: each for each in project.admin.get("/agents").json()}
    assert agents[agent.name]["current_task_id"] == task


def test_the_loser_is_told_who_won(project: Project):
    agent, other = project.agent(), project.agent()
    task = project.claimed(project.task(), agent)
    problem = refused(project.claim(task, other), 409, "already_claimed")
    assert problem["claimed_by"] == agent.name
    assert agent.name in problem["error"]
    assert project.show(task)["claimed_by"] == agent.name
    project.move(task, "in_progress", agent)
    assert refused(project.claim(task, other), 400, "not_claimable")["claimed_by"] == agent.name


def test_claiming_again_is_harmless_and_records_nothing(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    before, events = project.show(task), len(project.events(subject=task))
    assert project.claim(task, agent).json() == {"ok": True, "task_id": task}
    assert project.show(task) == before
    assert len(project.events(subject=task)) == events


def test_a_claim_is_refused_in_the_documented_order(project: Project):
    """Task, status, capabilities, WIP."""
    project.limit("in_progress", 0)
    agent = project.agent("python")
    missing = project.claim("tsk_none", agent)
    assert missing.status_code == 400
    assert "Task not found" in missing.json()["error"]
    assert agent.client.post(f"/api/v1{project.path}/tasks/tsk_none/claim").status_code == 404
    assert project.claim(Project(project.server).task(), agent).status_code == 400
    blocked = project.task(required_capabilities=["rust"])
    project.moved(blocked, "blocked")
    assert (
        "Cannot claim task in blocked status" in refused(project.claim(blocked, agent), 400, "not_claimable")["error"]
    )
    hard = project.task(required_capabilities=["rust"])
    problem = refused(project.claim(hard, agent), 400, "capabilities_insufficient")
    assert problem["error"].startswith("Capabilities insufficient. Required: rust, have: python")
    assert problem["missing"] == ["rust"]
    easy = project.task()
    problem = refused(project.claim(easy, agent), 400, "wip_limit")
    assert problem["error"].startswith(f"WIP limit reached for {agent.name}")
    assert "(limit: 0)" in problem["error"]
    assert project.admin.post(f"{project.path}/tasks/{easy}/claim", json={}).status_code == 400
    assert "agent required" in project.admin.post(f"{project.path}/tasks/{easy}/claim", json={}).json()["error"]


def test_claims_from_the_backlog_and_from_ready_leave_the_task_ready(project: Project):
    agent = project.agent()
    for status in ("backlog", "ready"):
        assert project.show(project.claimed(project.task(status=status), agent))["status"] == "ready"


def test_a_task_assigned_to_one_agent_is_not_claimed_by_another(project: Project):
    agent, other = project.agent(), project.agent()
    task = project.task(assigned_to=agent.name)
    refused(project.claim(task, other), 409, "assigned_to_another")
    assert task in project.ready(agent.name)
    assert task not in project.ready(other.name)
    assert project.claim(task, agent).status_code == 200


# The ready queue -----------------------------------------------------------------------------------------------------


def test_the_ready_queue_is_by_priority_then_age(project: Project):
    tasks = {name: project.task(name, priority=name[:2]) for name in ("P2a", "P0a", "p1a", "P3a", "P0b", "P2b")}
    assert project.ready() == [tasks[name] for name in ("P0a", "P0b", "p1a", "P2a", "P2b", "P3a")]
    item = project.admin.get(f"{project.path}/tasks/ready").json()[0]
    assert item == {"id": tasks["P0a"], "title": "P0a", "priority": "P0", "required_capabilities": []}


def test_the_ready_queue_shows_an_agent_what_it_is_capable_of_whatever_it_says_of_itself(project: Project):
    agent, none = project.agent("Code", "review"), project.agent()
    easy, code, rust = (
        project.task(),
        project.task(required_capabilities=["code"]),
        project.task(required_capabilities=["rust"]),
    )
    assert project.ready(agent.name) == [easy, code]
    assert project.ready(none.name) == [easy]
    url = f"{project.path}/tasks/ready"

    def asked(**params: Any) -> list[str]:
        return [task["id"] for task in project.admin.get(url, params=params).json()]

    assert asked(agent=agent.name, capabilities=["rust", "code"]) == [easy, code]
    assert asked(agent=none.name, capabilities=["rust", "code"]) == [easy]
    assert asked(agent=agent.name, capabilities="review") == [easy]
    assert asked(agent="nobody-we-know", capabilities="rust") == [easy, rust]
    assert asked() == [easy, code, rust]
    assert [task["id"] for task in agent.client.get(url).json()] == [easy, code]


# Claim next ----------------------------------------------------------------------------------------------------------


def next_for(project: Project, agent: Agent, **body: Any) -> Any:
    answer = agent.client.post(f"/api/v1{project.path}/claim-next", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["task"] and answer.json()["task"]["id"]


def test_claim_next_takes_the_most_urgent_task_the_agent_can(project: Project):
    agent = project.agent("code")
    project.task(priority="P0", required_capabilities=["rust"])
    low, high = project.task(priority="P3"), project.task(priority="P1", required_capabilities=["code"])
    project.task(priority="P0", assigned_to=project.agent().name)
    assert next_for(project, agent, capabilities=["rust", "code"]) == high
    assert next_for(project, agent) == low
    assert next_for(project, agent) is None


def test_claim_next_lets_an_agent_narrow_what_it_wants(project: Project):
    agent = project.agent("code", "docs")
    project.task(priority="P0", required_capabilities=["code"])
    docs = project.task(priority="P3", required_capabilities=["docs"])
    assert next_for(project, agent, capabilities=["docs"]) == docs


def test_claim_next_for_an_unregistered_name_takes_only_what_needs_no_capability(project: Project):
    project.task(priority="P0", required_capabilities=["code"])
    easy = project.task()
    body = {"agent": "nobody-we-know-2", "capabilities": ["code"]}
    assert project.admin.post(f"/api/v1{project.path}/claim-next", json=body).json()["task"]["id"] == easy
    assert project.admin.post(f"/api/v1{project.path}/claim-next", json=body).json()["task"] is None


def test_claim_next_gives_a_manual_agent_only_what_was_assigned_to_it(project: Project):
    agent = project.agent(autonomy_mode="manual")
    project.task(priority="P0")
    assert next_for(project, agent) is None
    mine = project.task(priority="P3", assigned_to=agent.name)
    assert next_for(project, agent) == mine


# WIP limits ----------------------------------------------------------------------------------------------------------


def test_no_agent_hoards(project: Project):
    agent = project.agent()
    tasks = [project.task() for _ in range(6)]
    answers = [project.claim(task, agent).status_code for task in tasks]
    assert answers == [200, 200, 200, 400, 400, 400]
    project.move(tasks[0], "in_progress", agent)
    refused(project.claim(tasks[3], agent), 400, "wip_limit")
    project.move(tasks[0], "in_review", agent)
    assert project.claim(tasks[3], agent).status_code == 200


def test_the_documented_curl_changes_a_limit_at_once(project: Project):
    agent = project.agent()
    tasks = [project.task() for _ in range(6)]
    for task in tasks[:3]:
        project.claimed(task, agent)
    refused(project.claim(tasks[3], agent), 400, "wip_limit")
    url = f"{project.path}/wip"
    assert project.admin.patch(url, content=b'{"status":"in_progress","limit":5}').json() == {"status": "ok"}
    assert project.admin.get(project.path).json()["wip_limits"]["in_progress"] == 5
    assert [project.claim(task, agent).status_code for task in tasks[3:]] == [200, 200, 400]
    assert project.admin.patch(url, json={"status": "in_progress", "limit": None}).status_code == 200
    assert project.claim(tasks[5], agent).status_code == 200
    told = [event for event in project.events() if event["kind"] == "wip_limit_changed"]
    assert [event["data"]["limit"] for event in told] == [5, None]


@pytest.mark.parametrize(
    "body",
    [
        {"status": "in_progress"},
        {"limit": 5},
        {"status": "in_progress", "limit": "many"},
        {"status": "in_progress", "limit": -1},
        {"status": "in_progress", "limit": 10**30},
        {"status": "in_progress", "limit": 1.5},
        {"status": "TaskStatus.IN_PROGRESS", "limit": 5},
        {"status": "in_progress", "limit": 5, "scope": "column", "agent": "x"},
        {"status": "in_progress", "limit": 5, "agent": "*"},
        {"status": ["in_progress"], "limit": 5},
        [],
    ],
)
def test_a_limit_that_is_none_is_refused_and_changes_nothing(body: Any, project: Project):
    answer = project.admin.patch(f"{project.path}/wip", json=body)
    assert answer.status_code == 400, answer.text
    assert project.admin.get(f"/api/v1{project.path}/wip").json() == {
        "agent": {"in_progress": 3, "in_review": 5}, "agents": {}, "columns": {},
    }  # fmt: skip


def test_one_agents_own_limit_counts_instead_of_the_one_for_each(project: Project):
    quick, slow, other = project.agent(), project.agent(), project.agent()
    project.limit("in_progress", 5, agent=quick.name)
    project.limit("in_progress", 1, agent=slow.name)
    for agent, most in ((quick, 5), (slow, 1), (other, 3)):
        answers = [project.claim(project.task(), agent).status_code for _ in range(6)]
        assert answers.count(200) == most
    project.limit("in_progress", None, agent=slow.name)
    assert project.claim(project.task(), slow).status_code == 200


def test_a_columns_limit_counts_everybody_and_what_nobody_has(project: Project):
    project.limit("in_progress", 3, scope="column")
    one, two = project.agent(), project.agent()
    project.claimed(project.task(), one)
    project.claimed(project.task(), two)
    nobodys = project.task()
    project.moved(nobodys, "ready", "in_progress")
    refused(project.claim(project.task(), one), 400, "wip_limit")
    ready = project.task(status="ready")
    refused(project.move(ready, "in_progress"), 400, "wip_limit")
    refused(project.move(ready, "in_progress", two), 400, "wip_limit")
    project.moved(nobodys, "in_review")
    assert project.move(ready, "in_progress").status_code == 200


def busy(project: Project, agent: Agent) -> list[str]:
    """The agent's three tasks in progress."""
    tasks = [project.claimed(project.task(), agent) for _ in range(3)]
    for task in tasks:
        assert project.move(task, "in_progress", agent).status_code == 200
    return tasks


def test_the_limit_holds_on_every_way_in(project: Project):
    agent = project.agent("x")
    in_review = project.claimed(project.task(), agent)
    project.move(in_review, "in_review", agent)
    reopened = project.claimed(project.task(), agent)
    project.move(reopened, "in_review", agent)
    project.moved(reopened, "done", "backlog")
    blocked = project.claimed(project.task(), agent)
    project.move(blocked, "blocked", agent)
    assigned = project.task(assigned_to=agent.name, status="ready")
    busy(project, agent)
    free = project.task(status="ready")
    attempts = {
        "claim": project.claim(free, agent),
        "claim for": project.claim(free, agent=agent.name),
        "claim next": agent.client.post(f"/api/v1{project.path}/claim-next", json={}),
        "move": project.move(free, "in_progress", agent),
        "move for": project.move(free, "in_progress", agent=agent.name),
        "assigned, claimed": project.claim(assigned, agent),
        "assigned, moved": project.move(assigned, "in_progress", agent),
        "assigned, moved by a person": project.move(assigned, "in_progress"),
        "assign": project.assign(free, agent),
        "rework": project.move(in_review, "in_progress"),
        "reopened": project.claim(reopened, agent),
    }
    for way, answer in attempts.items():
        assert answer.status_code == 400, (way, answer.text)
        assert answer.json()["code"] == "wip_limit", way
    # What was blocked and comes back has no room: it returns to the queue, and is not held beyond the limit.
    assert project.moved(blocked, "ready")["claimed_by"] is None
    mine = project.admin.get("/tasks", params={"agent": agent.name, "project_id": project.id}).json()
    holding = [project.show(task["id"]) for task in mine]
    assert sum(t["status"] == "in_progress" or (t["status"] == "ready" and bool(t["claimed_by"])) for t in holding) == 3


def test_a_blocked_task_comes_back_to_its_claimant_while_there_is_room(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    project.move(task, "blocked", agent, blocked_reason="waits")
    assert project.moved(task, "ready")["claimed_by"] == agent.name


def test_a_freed_task_never_exceeds_its_claimants_limit(project: Project):
    agent = project.agent()
    cause, task = project.task(), project.claimed(project.task(), agent)
    project.move(task, "blocked", agent, blocked_by=cause)
    busy(project, agent)
    project.moved(cause, "ready", "in_progress", "in_review", "done")
    freed = project.show(task)
    assert (freed["status"], freed["claimed_by"], freed["assigned_to"]) == ("ready", None, None)
    assert "task_released" in [event["kind"] for event in project.events(subject=task)]


def test_limits_of_the_other_columns_hold(project: Project):
    agent = project.agent()
    project.limit("in_review", 1)
    first, second = (project.claimed(project.task(), agent) for _ in range(2))
    assert project.move(first, "in_review", agent).status_code == 200
    refused(project.move(second, "in_review", agent), 400, "wip_limit")
    project.limit("ready", 1, scope="column")
    assert project.move(project.task(), "ready").status_code == 200
    refused(project.move(project.task(), "ready"), 400, "wip_limit")
    created = project.admin.post(f"{project.path}/tasks", json={"title": "x", "status": "ready"})
    refused(created, 400, "wip_limit")
    refused(project.assign(project.task(), project.agent()), 400, "wip_limit")
    project.limit("backlog", 0, scope="column")
    refused(project.admin.post(f"{project.path}/tasks", json={"title": "x"}), 400, "wip_limit")
    project.moved(first, "done")
    refused(project.move(first, "backlog"), 400, "wip_limit")


# Capabilities --------------------------------------------------------------------------------------------------------


def test_the_capability_gate_has_no_way_round(project: Project):
    unable, bare = project.agent("docs"), project.agent()
    task = project.task(required_capabilities=["Code "], status="ready")
    assert project.show(task)["required_capabilities"] == ["code"]
    ghost, upper = "ghost-of-nobody", unable.name.upper()
    attempts = [
        project.claim(task, unable),
        project.claim(task, bare),
        project.claim(task, agent=unable.name),
        project.claim(task, agent=ghost),
        project.claim(task, agent=upper),
        project.move(task, "in_progress", unable),
        project.move(task, "in_progress", agent=unable.name),
        project.move(task, "in_progress", agent=ghost),
        project.assign(task, unable),
        project.act(task, "assign", agent=ghost),
        project.act(task, "claim"),  # a person for themself, who has no capabilities
        project.admin.post(
            f"{project.path}/tasks",
            json={"title": "x", "required_capabilities": ["code"], "assigned_to": unable.name},
        ),
    ]
    for number, answer in enumerate(attempts):
        assert answer.status_code == 400, (number, answer.text)
        assert answer.json()["code"] == "capabilities_insufficient", number
    assert next_for(project, unable) is None
    after = project.show(task)
    assert (after["status"], after["assigned_to"], after["claimed_by"]) == ("ready", None, None)


def test_capabilities_count_whatever_their_case(project: Project):
    agent = project.agent(" CODE", "Review")
    assert project.claim(project.task(required_capabilities=["code", "REVIEW "]), agent).status_code == 200


def test_an_agent_that_lost_a_capability_does_not_begin_what_it_was_assigned(project: Project):
    agent = project.agent("code")
    assigned = project.task(required_capabilities=["code"], assigned_to=agent.name, status="ready")
    held = project.claimed(project.task(required_capabilities=["code"]), agent)
    project.admin.post(f"/agents/{agent.name}/capabilities", json={"tags": ["docs"]})
    refused(project.claim(assigned, agent), 400, "capabilities_insufficient")
    refused(project.move(assigned, "in_progress", agent), 400, "capabilities_insufficient")
    refused(project.move(held, "in_progress", agent), 400, "capabilities_insufficient")
    refused(project.move(held, "in_review", agent), 400, "capabilities_insufficient")
    refused(project.move(held, "in_progress"), 400, "capabilities_insufficient")  # a person starts it for the agent
    assert project.act(held, "release", agent).status_code == 200


def test_a_requirement_added_later_counts(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    project.admin.patch(f"{project.path}/tasks/{task}", json={"required_capabilities": ["code"]})
    refused(project.move(task, "in_progress", agent), 400, "capabilities_insufficient")


# Modes ---------------------------------------------------------------------------------------------------------------


def proposals(project: Project, agent: Agent) -> list[dict[str, Any]]:
    params = {"agent": agent.name, "state": "pending"}
    return list(project.admin.get("/api/v1/proposals", params=params).json()["items"])


def decide(project: Project, proposal: dict[str, Any], what: str = "approve") -> Any:
    return project.admin.post(f"/api/v1/proposals/{proposal['id']}/{what}", json={})


def test_an_advisory_agent_proposes_and_nothing_changes_until_a_person_approves(project: Project):
    agent = project.agent(autonomy_mode="advisory")
    task = project.task(status="ready")
    mine = project.task("written by it", created_by=project.agent().name)
    held = project.task(assigned_to=agent.name, status="ready")
    url = f"{project.path}/tasks"
    before = [project.show(each) for each in (task, mine, held)]
    attempts: dict[str, Callable[[], httpx.Response]] = {
        "claim": lambda: project.claim(task, agent),
        "transition": lambda: project.move(held, "in_progress", agent, note="begin"),
        "create_task": lambda: agent.client.post(url, json={"title": "new", "priority": "P0", "labels": ["a"]}),
        "review": lambda: project.sign(mine, agent),
        "unassign": lambda: agent.client.post(f"{url}/{held}/unassign"),
    }
    for action, attempt in attempts.items():
        answer = attempt()
        assert answer.status_code == 202, (action, answer.text)
        assert answer.json()["ok"] is False
        assert answer.json()["proposal"]["action"] == action
        assert attempt().json()["proposal"]["id"] == answer.json()["proposal"]["id"]  # the same one waits
    assert [project.show(each) for each in (task, mine, held)] == before
    assert len(project.admin.get(url).json()) == 3
    waiting = {proposal["action"]: proposal for proposal in proposals(project, agent)}
    assert set(waiting) == set(attempts)
    assert decide(project, waiting["unassign"], "deny").status_code == 200
    assert project.show(held) == before[2]
    for action in ("claim", "transition", "create_task", "review"):
        assert decide(project, waiting[action]).status_code == 200, action
    assert project.show(task)["claimed_by"] == agent.name
    assert project.show(held)["status"] == "in_progress"
    assert project.show(mine)["reviewers"] == [agent.name]
    new = project.admin.get(url, params={"q": "new"}).json()
    assert [(each["title"], each["priority"], each["labels"], each["created_by"]) for each in new] == [
        ("new", "P0", ["a"], agent.name)
    ]
    actors = {(event["actor"], event["via"]) for event in project.events()
              if event["kind"] in ("task_claimed", "task_created", "task_reviewer_added", "task_transition")
              and event["actor"] == f"agent:{agent.name}"}  # fmt: skip
    assert actors == {(f"agent:{agent.name}", "operator:admin")}
    assert decide(project, waiting["claim"]).status_code == 409


def test_an_advisory_agent_proposes_to_edit_delete_and_tie_what_it_wrote(project: Project):
    agent = project.agent()
    url = f"{project.path}/tasks"
    one, two, three = (agent.client.post(url, json={"title": title}).json()["id"] for title in ("one", "two", "three"))
    agent.client.post(f"/api/v1{url}/{three}/dependencies", json={"depends_on": one})
    project.admin.post(f"/agents/{agent.name}/autonomy", json={"mode": "advisory"})
    answers = {
        "edit_task": agent.client.patch(f"{url}/{one}", json={"title": "uno", "labels": ["x"]}),
        "delete_task": agent.client.delete(f"{url}/{two}"),
        "depend": agent.client.post(f"/api/v1{url}/{one}/dependencies", json={"depends_on": two}),
        "independ": agent.client.delete(f"/api/v1{url}/{three}/dependencies/{one}"),
    }
    assert {action: answer.status_code for action, answer in answers.items()} == dict.fromkeys(answers, 202)
    assert project.show(one)["title"] == "one"
    assert project.show(three)["waiting_for"] == [one]
    for action in ("edit_task", "depend", "independ", "delete_task"):
        assert decide(project, answers[action].json()["proposal"]).status_code == 200, action
    assert project.show(one)["title"] == "uno"
    assert project.show(three)["waiting_for"] == []
    assert project.admin.get(f"{url}/{two}").status_code == 404
    assert project.show(one)["status"] == "blocked"


def test_an_approval_is_refused_by_what_has_changed_since(project: Project):
    agent, quick = project.agent(autonomy_mode="advisory"), project.agent()
    task, other, third = project.task(), project.task(), project.task()
    asked = [project.claim(each, agent).json()["proposal"] for each in (task, other, third)]
    project.claimed(task, quick)
    refused(decide(project, asked[0]), 409, "proposal_failed")
    assert project.show(task)["claimed_by"] == quick.name
    project.limit("in_progress", 0, agent=agent.name)
    answer = refused(decide(project, asked[1]), 409, "proposal_failed")
    assert "WIP limit" in answer["error"]
    assert project.show(other)["claimed_by"] is None
    project.admin.delete(f"{project.path}/tasks/{third}")
    refused(decide(project, asked[2]), 409, "proposal_failed")


def test_an_advisory_coordinators_assignment_is_made_in_its_name(project: Project):
    lead, worker = project.agent(autonomy_mode="advisory", scopes=["coordinator"]), project.agent()
    task = project.task()
    answer = project.assign(task, worker, lead)
    assert answer.status_code == 202
    assert project.show(task)["assigned_to"] is None
    assert decide(project, answer.json()["proposal"]).status_code == 200
    assert project.show(task)["assigned_to"] == worker.name
    told = [event for event in project.events(subject=task) if event["kind"] == "task_assigned"][-1]
    assert (told["actor"], told["via"]) == (f"agent:{lead.name}", "operator:admin")


def test_an_operator_acting_for_an_advisory_agent_makes_a_proposal_too(project: Project):
    agent = project.agent(autonomy_mode="advisory")
    task = project.task(status="ready")
    assert project.claim(task, agent=agent.name).status_code == 202
    assert project.move(task, "in_progress", agent=agent.name).status_code == 202
    assert project.show(task)["status"] == "ready"


def test_a_manual_agent_claims_nothing_itself_but_works_on_what_it_was_given(project: Project):
    agent = project.agent(autonomy_mode="manual")
    free, given = project.task(status="ready"), project.task()
    refused(project.claim(free, agent), 403, "autonomy_manual")
    refused(project.move(free, "in_progress", agent), 403, "autonomy_manual")
    refused(project.claim(free, agent=agent.name), 403, "autonomy_manual")
    refused(project.move(free, "in_progress", agent=agent.name), 403, "autonomy_manual")
    project.assign(given, agent)
    assert project.claim(given, agent).status_code == 200
    assert project.move(given, "in_progress", agent).status_code == 200
    assert project.move(given, "in_review", agent).status_code == 200


def test_a_manual_coordinator_does_not_give_itself_work(project: Project):
    lead = project.agent(autonomy_mode="manual", scopes=["coordinator"])
    task = project.task()
    refused(project.assign(task, lead, lead), 403, "autonomy_manual")
    made = lead.client.post(f"{project.path}/tasks", json={"title": "x", "assigned_to": lead.name})
    refused(made, 403, "autonomy_manual")
    assert project.assign(task, project.agent(), lead).status_code == 200


def test_a_change_of_mode_applies_at_once(project: Project):
    agent = project.agent()
    tasks = [project.task() for _ in range(3)]
    assert project.claim(tasks[0], agent).status_code == 200
    for mode, status in (("advisory", 202), ("manual", 403), ("fully_autonomous", 200)):
        project.admin.post(f"/agents/{agent.name}/autonomy", json={"mode": mode})
        assert project.claim(tasks[1], agent).status_code == status


def test_the_mode_for_all_counts_for_names_that_nobody_registered(fresh: Ringfence):
    project = Project(fresh)
    task = project.task()
    fresh.admin.post("/autonomy/set-mode", json={"mode": "manual"})
    refused(project.claim(task, agent="nobody-yet"), 403, "autonomy_manual")
    fresh.admin.post("/autonomy/set-mode", json={"mode": "advisory"})
    assert project.claim(task, agent="nobody-yet").status_code == 202
    assert project.show(task)["claimed_by"] is None


def test_an_agent_paused_without_a_freeze_ends_what_it_began_and_begins_nothing(project_on_either: Project):
    project = project_on_either
    agent = project.agent()
    begun, held = project.claimed(project.task(), agent), project.claimed(project.task(), agent)
    assert project.move(begun, "in_progress", agent).status_code == 200
    given = project.task()
    assert project.assign(given, agent).status_code == 200
    free = project.task(status="ready")
    project.admin.post(f"/agents/{agent.name}/pause", json={"reason": "lunch", "freeze": False})
    for attempt in (
        project.claim(free, agent),
        project.claim(free, agent=agent.name),
        project.claim(given, agent),
        project.move(given, "in_progress", agent),
        project.move(free, "in_progress", agent=agent.name),
        agent.client.post(f"/api/v1{project.path}/claim-next", json={}),
    ):
        assert "lunch" in refused(attempt, 403, "agent_paused")["error"]
    assert project.claim(held, agent).status_code == 200  # which it has
    assert project.act(begun, "comments", agent, body="nearly").status_code == 201
    for task, status in ((begun, "in_review"), (held, "in_progress"), (held, "in_review")):
        assert project.move(task, status, agent).json()["status"] == status
    message = agent.client.post("/messages/send", json={"to": "admin", "content": "done"})
    assert message.status_code == 200, message.text
    project.admin.post(f"/agents/{agent.name}/autonomy", json={"mode": "advisory"})
    wish = project.move(held, "in_progress", agent).json()["proposal"]["id"]
    assert project.admin.post(f"/api/v1/proposals/{wish}/approve", json={}).status_code == 200
    project.admin.post(f"/agents/{agent.name}/autonomy", json={"mode": "fully_autonomous"})
    project.admin.post(f"/agents/{agent.name}/pause")  # and now with one
    refused(project.move(held, "in_review", agent), 403, "agent_paused")
    project.admin.post(f"/agents/{agent.name}/resume")
    assert project.claim(given, agent).status_code == 200


def test_what_a_paused_agent_wanted_to_claim_waits_until_it_is_resumed(project: Project):
    agent = project.agent()
    project.admin.post(f"/agents/{agent.name}/autonomy", json={"mode": "advisory"})
    wish = project.claim(project.task(), agent).json()["proposal"]["id"]
    project.admin.post(f"/agents/{agent.name}/pause", json={"freeze": False})
    refused(project.admin.post(f"/api/v1/proposals/{wish}/approve", json={}), 409, "agent_paused")
    project.admin.post(f"/agents/{agent.name}/resume")
    assert project.admin.post(f"/api/v1/proposals/{wish}/approve", json={}).json()["state"] == "approved"


@pytest.mark.parametrize("how", ["pause", "revoke"])
def test_a_halted_agent_does_nothing_on_the_board_itself_or_through_an_operator(how: str, project: Project):
    agent = project.agent()
    url = f"{project.path}/tasks"
    mine = project.claimed(project.task(), agent)
    written = agent.client.post(url, json={"title": "mine"}).json()["id"]
    said = project.act(written, "comments", agent, body="hello").json()["id"]
    agent.client.post(f"{project.path}/files", files={"file": ("mine.txt", b"x")})
    free = project.task(status="ready")
    halted = project.admin.post(f"/agents/{agent.name}/{how}", json={"reason": "look", **(
        {"flush_required": False} if how == "revoke" else {})})  # fmt: skip
    assert halted.status_code == 200
    events = len(project.events())
    v1 = f"/api/v1{project.path}"
    attempts = [
        project.claim(free, agent),
        project.claim(free, agent=agent.name),
        agent.client.post(f"{v1}/claim-next", json={}),
        project.admin.post(f"{v1}/claim-next", json={"agent": agent.name}),
        project.move(mine, "in_progress", agent),
        project.move(mine, "in_progress", agent=agent.name),
        project.move(free, "in_progress", agent=agent.name),
        project.act(written, "comments", agent, body="x"),
        agent.client.delete(f"{v1}/tasks/{written}/comments/{said}"),
        agent.client.post(url, json={"title": "x"}),
        project.admin.post(url, json={"title": "x", "created_by": agent.name}),
        agent.client.patch(f"{url}/{written}", json={"title": "x"}),
        project.admin.patch(f"{url}/{written}", json={"title": "x", "agent": agent.name}),
        agent.client.delete(f"{url}/{written}"),
        project.sign(free, agent),
        agent.client.post(f"{v1}/tasks/{written}/dependencies", json={"depends_on": free}),
        agent.client.post(f"{url}/{mine}/unassign"),
        agent.client.post(f"{project.path}/files", files={"file": ("a.txt", b"x")}),
        project.admin.post(f"{project.path}/files", files={"file": ("a.txt", b"x")}, data={"uploader": agent.name}),
        agent.client.delete(f"{project.path}/files/mine.txt"),
        agent.client.post("/projects", json={"name": "x", "creator": agent.name}),
        agent.client.post(f"{project.path}/join", json={"agent": agent.name}),
        project.admin.post(f"{url}/{free}/assign", json={"agent": project.agent().name, "assigned_by": agent.name}),
    ]
    code = {"pause": "agent_paused", "revoke": "agent_revoked"}[how]
    for number, answer in enumerate(attempts):
        assert answer.status_code == 403, (number, answer.text)
        assert answer.json()["code"] == code, number
    assert all(event["kind"] == "refused" for event in project.events()[events:])
    assert project.show(mine)["claimed_by"] == agent.name
    assert project.act(mine, "release", agent).status_code == 200  # giving back is always possible


def test_a_revoked_agents_claims_return_with_a_flush(project: Project):
    agent, other = project.agent(), project.agent()
    held, begun, reviewed = (project.claimed(project.task(), agent) for _ in range(3))
    project.move(begun, "in_progress", agent)
    project.move(reviewed, "in_review", agent)
    project.admin.post(f"/agents/{agent.name}/revoke", json={"reason": "x"})
    assert {held, begun} <= set(project.ready(other.name))
    assert project.show(reviewed)["status"] == "in_review"
    assert project.claim(begun, other).status_code == 200


# Silence -------------------------------------------------------------------------------------------------------------


def sweep(server: Ringfence) -> None:
    server.write(server.house.liveness.sweep)


def silent(server: Ringfence, seconds: float) -> None:
    """Time passes with the server listening and no agent speaking."""
    sweep(server)
    while seconds > 0:
        server.clock.advance(min(seconds, 10))
        seconds -= 10
        sweep(server)


def test_the_claims_of_an_agent_that_went_silent_return(fresh: Ringfence):
    project = Project(fresh)
    agent, other = project.agent(), project.agent()
    held, begun = (project.claimed(project.task(), agent) for _ in range(2))
    project.move(begun, "in_progress", agent)
    silent(fresh, 60)
    assert project.show(held)["claimed_by"] == agent.name
    silent(fresh, 60)
    for task in (held, begun):
        after = project.show(task)
        assert (after["status"], after["claimed_by"], after["assigned_to"]) == ("ready", None, None)
    assert set(project.ready(other.name)) == {held, begun}
    told = [event for event in project.events() if event["kind"] == "task_released"]
    assert [(event["actor"], event["data"]["reason"]) for event in told] == [("system", "offline")] * 2
    refused(project.move(begun, "in_review", agent), 400, "invalid_transition")  # it is back, its claim is not


def test_a_restart_gives_every_agent_its_time_again(fresh: Ringfence):
    project = Project(fresh)
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    fresh.clock.advance(3600)
    ahead = fresh.clock
    fresh.restart()
    assert fresh.clock is ahead
    silent(fresh, 60)
    assert fresh.client(fresh.admin_token).get(f"/api/v1{project.path}/tasks/{task}").json()["claimed_by"] == agent.name
    silent(fresh, 60)
    assert fresh.client(fresh.admin_token).get(f"/api/v1{project.path}/tasks/{task}").json()["claimed_by"] is None


def test_an_unregistered_agents_claims_return(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    assert agent.client.delete(f"/agents/{agent.name}").status_code == 200
    assert project.show(task)["claimed_by"] is None


def test_a_token_for_one_project_claims_in_no_other(project: Project):
    other = Project(project.server)
    agent = project.agent()
    limited = project.server.client(
        project.server.token(agent.name, kind=TokenKind.AGENT, projects=frozenset({other.id}))
    )
    task = project.task()
    assert project.claim(task, limited).status_code == 400
    assert limited.get(f"/api/v1{project.path}/tasks/{task}").status_code == 404
    assert project.show(task)["claimed_by"] is None
    assert other.claim(other.task(), limited).status_code == 200
