"""Projects: who sees them, who belongs to them, what deleting one leaves behind."""

import threading
from typing import Any

import httpx
import pytest

from ringfence.kernel.auth.model import Role, TokenKind
from tests.board.conftest import Agent, Project, refused
from tests.harness import Ringfence


def pages(client: httpx.Client, url: str, limit: int, **params: Any) -> list[Any]:
    """All items of a list under /api/v1, and that no page but the last is short."""
    found: list[Any] = []
    cursor = None
    while True:
        page = client.get(url, params={**params, "limit": limit, **({"cursor": cursor} if cursor else {})}).json()
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found
        assert len(page["items"]) == limit


def test_a_project_is_made_listed_and_shown_as_documented(project: Project):
    made = project.admin.post("/projects", json={"name": "zeus", "creator": "admin"})
    assert made.status_code == 201
    assert {"id", "name", "created_at"} <= set(made.json())
    project_id = made.json()["id"]
    shown = project.admin.get(f"/projects/{project_id}").json()
    assert shown["members"] == ["admin"]
    assert shown["files"] == {}
    assert shown["wip_limits"] == {"in_progress": 3, "in_review": 5}
    listed = {each["id"]: each for each in project.admin.get("/projects").json()}
    assert listed[project_id]["name"] == "zeus"
    assert project.admin.get("/projects/prj_none").status_code == 404
    assert "project not found" in project.admin.get("/projects/prj_none").json()["error"]
    for body in ({}, {"name": "x"}, {"creator": "admin"}, {"name": "", "creator": "admin"}):
        assert project.admin.post("/projects", json=body).status_code == 400
    assert "name and creator required" in project.admin.post("/projects", json={}).json()["error"]


def test_agents_join_once_and_leave(project: Project):
    agent = project.agent()
    url = f"{project.path}/join"
    for _ in range(2):
        assert agent.client.post(url, json={"agent": agent.name}).json() == {"status": "ok"}
    assert project.admin.get(project.path).json()["members"] == ["admin", agent.name]
    mine = agent.client.get("/projects", params={"agent": agent.name}).json()
    assert [each["id"] for each in mine] == [project.id]
    assert project.admin.post(url, json={}).status_code == 400
    assert "agent required" in project.admin.post(url, json={}).json()["error"]
    assert agent.client.post(f"/api/v1{project.path}/leave", json={"agent": agent.name}).status_code == 200
    assert project.admin.get(project.path).json()["members"] == ["admin"]
    kinds = [event["kind"] for event in project.events()]
    assert kinds == ["project_created", "agent_joined_project", "agent_left_project"]


def test_a_project_is_renamed_and_its_visibility_changed_by_people(project: Project):
    url = f"/api/v1{project.path}"
    assert project.admin.patch(url, json={"name": "new"}).json()["name"] == "new"
    assert project.admin.patch(url, json={"visibility": "members"}).json()["visibility"] == "members"
    assert project.admin.get(project.path).json()["name"] == "new"
    assert project.admin.patch(url, json={"visibility": "nobody"}).status_code == 400


# Who sees what --------------------------------------------------------------------------------------------------------


def sees_nothing(client: httpx.Client, project: Project, task: str, name: str) -> None:
    """Whoever holds `client` cannot tell that the project exists."""
    v1 = f"/api/v1{project.path}"
    gone: list[tuple[str, str, dict[str, Any] | None]] = [
        ("GET", project.path, None),
        ("GET", f"{project.path}/tasks/ready", None),
        ("GET", f"{v1}/tasks", None),
        ("GET", f"{v1}/tasks/{task}", None),
        ("GET", f"/api/v1/tasks/{task}", None),
        ("GET", f"{v1}/board", None),
        ("GET", f"{v1}/wip", None),
        ("GET", f"{v1}/metrics", None),
        ("GET", f"{v1}/files", None),
        ("GET", f"{project.path}/files/secret.txt", None),
        ("GET", f"{v1}/tasks/{task}/comments", None),
        ("GET", f"{v1}/tasks/{task}/history", None),
        ("GET", f"{v1}/tasks/{task}/dependencies", None),
        ("GET", f"{v1}/tasks/{task}/attachments", None),
        ("POST", f"{project.path}/join", {"agent": name}),
        ("POST", f"{project.path}/tasks", {"title": "x"}),
        ("PATCH", f"{project.path}/tasks/{task}", {"status": "ready"}),
        ("POST", f"{v1}/tasks/{task}/claim", {}),
        ("POST", f"{v1}/claim-next", {}),
        ("POST", f"{v1}/tasks/{task}/comments", {"body": "x"}),
        ("POST", f"{v1}/tasks/{task}/dependencies", {"depends_on": task}),
        ("POST", f"{project.path}/tasks/{task}/reviewers/{name}", None),
        ("DELETE", project.path, None),
        ("DELETE", f"{project.path}/tasks/{task}", None),
    ]
    for method, path, body in gone:
        hidden = client.request(method, path, json=body)
        assert hidden.status_code == 404, (method, path, hidden.text)
        unknown = client.request(method, path.replace(project.id, "prj_none").replace(task, "tsk_none"), json=body)
        assert unknown.status_code == 404
        assert "secret" not in hidden.text
    assert project.claim(task, client, agent=name).status_code == 400
    assert client.get(f"{project.path}/tasks").json() == []
    assert client.get(f"{project.path}/metrics").json()["total_tasks"] == 0
    for path, params in (
        ("/projects", {}),
        ("/tasks", {"status": "backlog"}),
        ("/tasks", {"project_id": project.id}),
        ("/api/v1/tasks", {"q": "secret"}),
        ("/api/v1/tasks", {"q": task}),
        ("/api/v1/projects", {}),
    ):
        text = client.get(path, params=params).text
        assert project.id not in text
        assert task not in text
    elsewhere = Project(project.server)
    other = elsewhere.task()
    if elsewhere.admin.get(elsewhere.path).status_code == 200:
        refer = client.post(f"/api/v1{elsewhere.path}/tasks", json={"title": "x", "depends_on": [task]})
        assert refer.status_code in (400, 404)
        assert other


def closed(server: Ringfence) -> tuple[Project, str]:
    project = Project(server, visibility="members", name="secret")
    project.admin.post(f"{project.path}/files", files={"file": ("secret.txt", b"x")})
    return project, project.task("secret task")


def test_a_project_for_members_is_invisible_to_other_agents(server: Ringfence):
    project, task = closed(server)
    member, other = project.agent(), project.agent()
    project.admin.post(f"{project.path}/join", json={"agent": member.name})
    assert member.client.get(f"/api/v1{project.path}/tasks/{task}").status_code == 200
    assert project.claim(task, member).status_code == 200
    sees_nothing(other.client, project, task, other.name)
    assert project.admin.get(project.path).json()["members"] == ["admin", member.name]
    project.admin.post(f"/api/v1{project.path}/leave", json={"agent": member.name})
    sees_nothing(member.client, project, task, member.name)


def test_nobody_is_given_work_that_they_cannot_see(server: Ringfence):
    project, task = closed(server)
    other = project.agent()
    refused(project.assign(task, other), 400, "not_a_member")
    refused(project.claim(task, agent=other.name), 400, "not_a_member")
    made = project.admin.post(f"{project.path}/tasks", json={"title": "x", "assigned_to": other.name})
    refused(made, 400, "not_a_member")
    project.admin.post(f"{project.path}/join", json={"agent": other.name})
    assert project.assign(task, other).status_code == 200


def test_a_project_that_is_closed_disappears_for_agents_at_once(server: Ringfence):
    project = Project(server)
    task = project.task("secret task")
    other = project.agent()
    assert other.client.get(project.path).status_code == 200
    project.admin.patch(f"/api/v1{project.path}", json={"visibility": "members"})
    assert other.client.get(project.path).status_code == 404
    assert task not in other.client.get("/tasks", params={"status": "backlog"}).text


def test_people_and_tokens_limited_to_other_projects_see_nothing(server: Ringfence):
    project = Project(server, name="secret")
    project.admin.post(f"{project.path}/files", files={"file": ("secret.txt", b"x")})
    task = project.task("secret task")
    mine = Project(server)
    person = server.client(server.token("limited", Role.OPERATOR, projects=frozenset({mine.id})))
    agent = project.agent()
    token = server.client(server.token(agent.name, kind=TokenKind.AGENT, projects=frozenset({mine.id})))
    for client, name in ((person, "limited"), (token, agent.name)):
        assert client.get(mine.path).status_code == 200
        assert [each["id"] for each in client.get("/projects").json()] == [mine.id]
        refused(client.post("/projects", json={"name": "x", "creator": name}), 403, "forbidden")
        sees_nothing(client, project, task, name)
    assert person.patch(f"/api/v1{project.path}", json={"name": "x"}).status_code == 404
    assert person.patch(f"{project.path}/wip", json={"status": "ready", "limit": 1}).status_code == 404
    audit = person.get("/api/v1/audit", params={"limit": 1000}).text
    assert project.id not in audit
    assert task not in audit


def test_events_of_a_hidden_project_reach_members_only(server: Ringfence):
    project, task = closed(server)
    member, other = project.agent(), project.agent()
    project.admin.post(f"{project.path}/join", json={"agent": member.name})
    project.move(task, "ready")
    opened = Project(server)
    marker = opened.task("the last one")
    for agent, sees in ((member, True), (other, False)):
        text = until(agent, marker)
        assert (task in text) is sees
        assert (project.id in text) is sees


def until(agent: Agent, marker: str, after: int = 0) -> str:
    """What the agent's event stream replays, up to an event that tells of `marker`."""
    text = ""
    with agent.client.stream("GET", "/events", headers={"last-event-id": str(after)}) as stream:
        for chunk in stream.iter_text():
            text += chunk
            if marker in text:
                return text
    raise AssertionError("the stream ended")


def test_after_a_restart_events_of_a_deleted_project_are_still_hidden(fresh: Ringfence):
    project, task = closed(fresh)
    member, other = project.agent(), project.agent()
    project.admin.post(f"{project.path}/join", json={"agent": member.name})
    assert project.admin.delete(project.path).status_code == 200
    fresh.restart()
    marker = Project(fresh).task("the last one")
    text = until(other, marker)
    assert task not in text
    assert project.id not in text


def test_a_page_is_full_though_some_of_what_it_passes_is_hidden(server: Ringfence):
    agent = Project(server).agent()
    visible: list[str] = []
    tasks: list[str] = []
    for number in range(12):
        hidden = number % 3 != 0
        each = Project(server, visibility="members" if hidden else "open")
        made = [each.task(created_by="admin") for _ in range(2)]
        if not hidden:
            visible.append(each.id)
            tasks += made
    found = [each["id"] for each in pages(agent.client, "/api/v1/projects", 2)]
    assert len(found) == len(set(found))
    assert [each for each in found if each in visible] == visible
    listed = [each["id"] for each in pages(agent.client, "/api/v1/tasks", 3)]
    assert len(listed) == len(set(listed))
    assert [each for each in listed if each in tasks] == tasks


# Deleting -------------------------------------------------------------------------------------------------------------


def test_deleting_a_project_takes_everything_with_it(project: Project):
    agent = project.agent()
    task, other = project.task(), project.task()
    project.claimed(task, agent)
    project.act(task, "comments", body="x")
    project.admin.post(f"{project.path}/files", files={"file": ("a", b"x")})
    assert project.admin.delete(project.path).json() == {"status": "ok"}
    assert project.admin.delete(project.path).status_code == 404
    for each in (task, other):
        assert project.claim(each, agent).status_code == 400
        assert project.admin.get(f"/api/v1/tasks/{each}").status_code == 404
        assert project.move(each, "ready").status_code == 404
    assert project.admin.get("/tasks", params={"project_id": project.id}).json() == []
    assert project.admin.get("/tasks", params={"agent": agent.name}).json() == []
    assert project.admin.get(f"{project.path}/files/a").status_code == 404
    assert project.admin.post(f"{project.path}/tasks", json={"title": "x"}).status_code == 404
    agents = {each["name"]: each for each in project.admin.get("/agents").json()}
    assert agents[agent.name]["current_task_id"] is None
    assert "project_deleted" in [event["kind"] for event in project.events()]


def test_an_agent_deletes_only_the_project_it_created(project: Project):
    agent, other = project.agent(), project.agent()
    made = agent.client.post("/projects", json={"name": "own", "creator": agent.name}).json()["id"]
    refused(other.client.delete(f"/projects/{made}"), 403, "forbidden")
    refused(agent.client.delete(project.path), 403, "forbidden")
    assert agent.client.delete(f"/projects/{made}").status_code == 200


def test_claims_race_a_deletion_and_leave_nothing(project_on_either: Project):
    project = project_on_either
    agents = [project.agent() for _ in range(4)]
    tasks = [project.task() for _ in range(12)]
    answers: list[httpx.Response] = []
    start = threading.Barrier(5)

    def claims(agent: Agent) -> None:
        start.wait()
        for task in tasks:
            answers.append(project.claim(task, agent))

    threads = [threading.Thread(target=claims, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    start.wait()
    assert project.admin.delete(project.path).status_code == 200
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {200, 400, 409}
    for agent in agents:
        assert project.admin.get("/tasks", params={"agent": agent.name}).json() == []
    current = {each["name"]: each["current_task_id"] for each in project.admin.get("/agents").json()}
    assert [current[agent.name] for agent in agents] == [None] * 4


@pytest.mark.parametrize("name", ["human", "system", "a b", "a/b", "../x", "", "é", "x" * 65, "a\nb", "*"])
def test_a_name_that_cannot_be_is_refused_as_creator_and_member(name: str, project: Project):
    assert project.admin.post("/projects", json={"name": "x", "creator": name}).status_code == 400
    assert project.admin.post(f"{project.path}/join", json={"agent": name}).status_code == 400
    assert project.admin.get(project.path).json()["members"] == ["admin"]
