"""Comments and history."""

from typing import Any

from tests.board.conftest import Project, refused


def test_comments_are_told_oldest_first_in_pages(project: Project):
    agent = project.agent()
    task = project.task()
    url = f"/api/v1{project.path}/tasks/{task}/comments"
    made = [project.act(task, "comments", by, body=f"{number} “ünï” \U0001f980").json()
            for number, by in enumerate([None, agent] * 4)]  # fmt: skip
    assert [comment["author"] for comment in made[:2]] == ["admin", agent.name]
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = project.admin.get(url, params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == made
    told = [event for event in project.events(subject=task) if event["kind"] == "task_commented"]
    assert [event["data"]["author"] for event in told] == [comment["author"] for comment in made]


def test_a_comment_is_deleted_by_its_author_or_an_operator_only(project: Project):
    author, other = project.agent(), project.agent()
    task = project.task()
    first, second = (project.act(task, "comments", author, body="x").json()["id"] for _ in range(2))
    url = f"/api/v1{project.path}/tasks/{task}/comments"
    refused(other.client.delete(f"{url}/{first}"), 403, "forbidden")
    assert author.client.delete(f"{url}/{first}").status_code == 200
    assert author.client.delete(f"{url}/{first}").status_code == 404
    assert project.admin.delete(f"{url}/{second}").status_code == 200
    elsewhere = project.act(project.task(), "comments", author, body="x").json()["id"]
    assert author.client.delete(f"{url}/{elsewhere}").status_code == 404
    assert project.admin.get(url).json()["items"] == []


def test_an_agent_puts_no_links_into_comments_titles_and_descriptions(project: Project):
    agent = project.agent()
    task = project.task()
    refused(project.act(task, "comments", agent, body="look at https://evil.com/?q=secret"), 400, "external_link")
    url = f"{project.path}/tasks"
    refused(agent.client.post(url, json={"title": "see http://evil.com"}), 400, "external_link")
    refused(agent.client.post(url, json={"title": "x", "description": "see //evil.com"}), 400, "external_link")
    refused(agent.client.post(url, json={"title": "x", "labels": ["http://evil.com"]}), 400, "external_link")
    needs = {"title": "x", "required_capabilities": ["http://evil.com"]}
    refused(agent.client.post(url, json=needs), 400, "external_link")
    refused(agent.client.post("/projects", json={"name": "evil.com/x", "creator": agent.name}), 400, "external_link")
    mine = agent.client.post(url, json={"title": "mine"}).json()["id"]
    for edit in ({"title": "evil.com/x"}, {"description": "evil.com/x"}, {"labels": ["evil.com/x"]}):
        refused(agent.client.patch(f"{url}/{mine}", json=edit), 400, "external_link")
    told = project.admin.get("/api/v1/audit", params={"kind": "refused", "agent": agent.name}).json()["items"]
    assert {event["data"]["code"] for event in told} == {"external_link"}
    assert project.act(task, "comments", body="https://example.com/people/may").status_code == 201


def test_an_empty_or_endless_comment_is_refused(project: Project):
    task = project.task()
    assert project.act(task, "comments", body="").status_code == 400
    assert project.act(task, "comments", body="x" * 100_001).status_code == 400
    assert project.act(task, "comments").status_code == 400
    assert project.act("tsk_none", "comments", body="x").status_code == 404


def test_history_keeps_every_move_with_its_note_while_a_task_shows_the_last_five(project: Project):
    task = project.task()
    for number in range(4):
        project.moved(task, "ready", note=f"up {number}")
        project.moved(task, "backlog", note=f"down {number}")
    shown = project.show(task)["transitions"]
    assert len(shown) == 5
    url = f"/api/v1{project.path}/tasks/{task}/history"
    first = project.admin.get(url, params={"limit": 5}).json()
    rest = project.admin.get(url, params={"cursor": first["next"]}).json()["items"]
    history = first["items"] + rest
    assert [move["note"] for move in history] == ["created"] + [
        f"{way} {number}" for number in range(4) for way in ("up", "down")
    ]
    assert history[0]["from"] is None
    assert [(move["from"], move["to"], move["at"], move["by"]) for move in history[-5:]] == [
        (move["from"], move["to"], move["at"], move["by"]) for move in shown
    ]
