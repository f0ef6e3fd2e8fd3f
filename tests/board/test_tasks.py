"""Tasks as they are written, edited, found and deleted; and input that was meant to hurt."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from ringfence.board import model, store
from ringfence.board.model import Priority, Status, Task
from ringfence.kernel.database import Query, Transaction
from ringfence.kernel.ids import new
from tests.board.conftest import Project, refused
from tests.board.test_projects import pages


def find(project: Project, **params: Any) -> list[str]:
    answer = project.admin.get(f"{project.path}/tasks", params=params)
    assert answer.status_code == 200, answer.text
    return [task["id"] for task in answer.json()]


def test_a_task_is_created_and_shown_with_the_documented_fields(project: Project):
    body = {"title": "Title", "description": "Text", "priority": "p1", "required_capabilities": ["Code", "code "],
            "required_reviewers": 2, "labels": ["ui", "bug 7"]}  # fmt: skip
    made = project.admin.post(f"{project.path}/tasks", json=body)
    assert made.status_code == 201
    task = made.json()
    documented = {"id", "title", "description", "status", "priority", "assigned_to", "claimed_by",
                  "required_capabilities", "blocked_reason", "blocked_by", "subtasks", "parent_task_id", "created_at",
                  "updated_at", "started_at", "completed_at", "reviewers", "required_reviewers",
                  "transitions"}  # fmt: skip
    assert documented <= set(task)
    assert (task["status"], task["priority"], task["required_capabilities"]) == ("backlog", "P1", ["code"])
    assert (task["labels"], task["created_by"]) == (["ui", "bug 7"], "admin")
    assert project.show(task["id"]) == task == project.admin.get(f"{project.path}/tasks").json()[0]
    told = [event for event in project.events() if event["kind"] == "task_created"][-1]["data"]
    assert told["task"] == {"id": task["id"], "title": "Title", "status": "backlog", "priority": 1,
                            "assigned_to": None, "required_capabilities": ["code"]}  # fmt: skip


@pytest.mark.parametrize("priority", ["P0", "P1", "P2", "P3", "p0", " p3 "])
def test_every_priority_is_kept_as_given(priority: str, project: Project):
    assert project.show(project.task(priority=priority))["priority"] == priority.strip().upper()


def test_a_task_is_edited_and_what_changed_is_told(project: Project):
    task = project.task("old", labels=["a"])
    change = {"title": "new", "description": "d" * 1000, "priority": "P0", "labels": ["b", "c"],
              "required_capabilities": ["x"], "required_reviewers": 3}  # fmt: skip
    answer = project.admin.patch(f"{project.path}/tasks/{task}", json=change)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in change} == change
    told = project.events(subject=task)[-1]
    assert told["kind"] == "task_changed"
    assert told["data"]["changed"] == sorted(change)
    assert told["data"]["to"] == {**change, "description": "d" * 200}
    assert project.admin.patch(f"{project.path}/tasks/{task}", json={"title": ""}).status_code == 400
    assert project.admin.patch(f"{project.path}/tasks/{task}", json={"owner": "me"}).status_code == 400
    assert "owner" in project.admin.patch(f"{project.path}/tasks/{task}", json={"owner": "me"}).json()["error"]


def test_an_edit_and_a_move_in_one_request_happen_together_or_not_at_all(project: Project):
    task = project.task("old")
    url = f"{project.path}/tasks/{task}"
    refused(project.admin.patch(url, json={"title": "new", "status": "done"}), 400, "invalid_transition")
    assert project.show(task)["title"] == "old"
    both = project.admin.patch(url, json={"title": "new", "status": "ready"}).json()
    assert (both["title"], both["status"]) == ("new", "ready")


def test_an_agent_edits_and_deletes_only_what_it_wrote_and_nobody_has(project: Project):
    writer, other = project.agent(), project.agent()
    url = f"{project.path}/tasks"
    mine = writer.client.post(url, json={"title": "mine"}).json()["id"]
    theirs = project.task()
    for client, task in ((other.client, mine), (writer.client, theirs)):
        refused(client.patch(f"{url}/{task}", json={"title": "x"}), 403, "not_yours")
        refused(client.delete(f"{url}/{task}"), 403, "not_yours")
    assert writer.client.patch(f"{url}/{mine}", json={"title": "better"}).status_code == 200
    project.claimed(mine, other)
    refused(writer.client.patch(f"{url}/{mine}", json={"required_capabilities": []}), 403, "not_yours")
    refused(writer.client.delete(f"{url}/{mine}"), 403, "not_yours")
    project.act(mine, "release", other)
    assert writer.client.delete(f"{url}/{mine}").status_code == 200
    assert writer.client.delete(f"{url}/{mine}").status_code == 404


def test_a_task_that_is_deleted_while_it_is_held_leaves_its_holder_free(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    project.admin.delete(f"{project.path}/tasks/{task}")
    agents = {each["name"]: each for each in project.admin.get("/agents").json()}
    assert agents[agent.name]["current_task_id"] is None
    assert project.claim(task, agent).status_code == 400


def test_a_repeated_create_with_its_key_happens_once(project: Project):
    headers = {"idempotency-key": "task-1"}
    first, again = (
        project.admin.post(f"{project.path}/tasks", json={"title": "x"}, headers=headers).json() for _ in range(2)
    )
    assert first == again
    assert len(find(project)) == 1


# Finding --------------------------------------------------------------------------------------------------------------


def test_the_documented_filters_narrow_the_list(project: Project):
    agent = project.agent()
    claimed, assigned = project.task(labels=["ui"]), project.task(assigned_to=agent.name, priority="P0")
    blocked = project.task()
    project.claimed(claimed, agent)
    project.moved(blocked, "blocked")
    assert find(project, agent=agent.name) == [assigned, claimed]
    assert find(project, assigned_to=agent.name) == [assigned, claimed]
    assert find(project, status="ready") == [claimed]
    assert find(project, status="blocked") == [blocked]
    assert find(project, include_blocked="false") == [assigned, claimed]
    assert find(project, label="ui") == [claimed]
    assert find(project, priority="p0") == [assigned]
    assert find(project, status="ready", label="ui", agent=agent.name, q="task") == [claimed]
    assert find(project) == [assigned, claimed, blocked]
    assert project.admin.get(f"{project.path}/tasks", params={"status": "odd"}).status_code == 400
    assert project.admin.get("/projects/prj_none/tasks").json() == []
    assert project.admin.get("/api/v1/projects/prj_none/tasks").status_code == 404
    assert project.admin.get("/tasks").json() == []
    items = project.admin.get("/tasks", params={"agent": agent.name, "project_id": project.id}).json()
    assert items[0] == {"id": assigned, "project_id": project.id, "title": "a task", "status": "backlog",
                        "priority": "P0", "assigned_to": agent.name}  # fmt: skip


ODD = ["100%", "under_score", "back\\slash", "quote'\"", "ÜBER Größe", "İstanbul ıI", "日本語", "\U0001f980 crab",
       "a\u0301", "ẞß", "\u202eevil", "tab\there", "--; drop table tasks", "%", "_", "\\", "Ω≈ç"]  # fmt: skip


def test_search_finds_exactly_what_holds_the_text(project_on_either: Project):
    project = project_on_either
    tasks = {text: project.task(f"<{text}>") for text in ODD}
    described = project.task("other", description="In The Description: 50%_off\\now")
    for text, task in tasks.items():
        found = find(project, q=text)
        assert task in found, text
        expected = {each for other, each in tasks.items() if text.lower() in f"<{other}>".lower()}
        assert set(found) - {described} <= expected | {task}, text
    assert find(project, q="the description") == [described]
    assert find(project, q="50%_OFF\\") == [described]
    assert find(project, q="50x_off") == []
    assert find(project, q=described) == [described]
    assert find(project, q="under score") == []


def test_labels_match_whole_and_alike_on_both_databases(project_on_either: Project):
    project = project_on_either
    bug = project.task(labels=["Bug", "größe", "a_b"])
    longer = project.task(labels=["bugfix", "axb"])
    assert find(project, label="Bug") == find(project, label="bug") == [bug]
    assert find(project, label="größe") == [bug]
    assert find(project, label="a_b") == [bug]
    assert find(project, label="bugfix") == [longer]
    assert find(project, label="bug,größe") == find(project, label='bug"') == find(project, label="%") == []
    for label in ("", " ", 'a"b', "a,b", "a%b", "a\\b", "x" * 41, "a\nb"):
        answer = project.admin.post(f"{project.path}/tasks", json={"title": "x", "labels": [label]})
        assert answer.status_code == 400, label


def test_pages_cover_every_task_once_while_tasks_are_added(project: Project):
    made = [project.task(str(number), priority=f"P{number % 4}") for number in range(23)]
    found: list[str] = []
    cursor = None
    while True:
        page = project.admin.get(
            f"/api/v1{project.path}/tasks", params={"limit": 4, **({"cursor": cursor} if cursor else {})}
        ).json()
        found += [task["id"] for task in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
        for number in range(4):
            project.task("later", priority=f"P{number}") if len(found) < 12 else None
    assert len(found) == len(set(found))
    assert set(made) <= set(found)


def test_lists_at_the_root_link_to_their_next_page(project: Project):
    made = [project.task() for _ in range(5)]
    found: list[str] = []
    url: str | None = f"{project.path}/tasks?limit=2"
    while url:
        answer = project.admin.get(url)
        found += [task["id"] for task in answer.json()]
        url = answer.links.get("next", {}).get("url")
    assert found == made


@pytest.mark.parametrize(
    "cursor", ["x", "-", "1", "1-x", "9-9", "٣-٣-x", "1-" + "9" * 80 + "-x", "1-1-\u202e", "a" * 201]
)
def test_a_cursor_that_is_none_of_ours_is_refused_or_leads_nowhere(cursor: str, project_on_either: Project):
    project = project_on_either
    project.task()
    answer = project.admin.get(f"{project.path}/tasks", params={"cursor": cursor})
    assert answer.status_code in (200, 400), answer.text
    for path in (f"{project.path}/files", "/projects", f"{project.path}/tasks/{project.task()}/history"):
        answer = project.admin.get(f"/api/v1{path}", params={"cursor": cursor})
        assert answer.status_code in (200, 400), answer.text


def test_the_board_is_cut_into_lanes(project: Project):
    agent = project.agent()
    mine = project.claimed(project.task(priority="P0", labels=["ui", "api"]), agent)
    free = project.task()
    url = f"/api/v1{project.path}/board"

    def lanes(by: str) -> dict[str | None, list[str]]:
        found = project.admin.get(url, params={"lanes": by}).json()
        assert found["wip_limits"]["agent"] == {"in_progress": 3, "in_review": 5}
        return {
            lane["lane"]: [task["id"] for column in lane["columns"].values() for task in column]
            for lane in found["lanes"]
        }

    assert lanes("none") == {None: [free, mine]}
    assert lanes("agent") == {agent.name: [mine], None: [free]}
    assert lanes("priority") == {"P0": [mine], "P2": [free]}
    assert lanes("label") == {"api": [mine], "ui": [mine], None: [free]}
    empty = Project(project.server)
    shown = empty.admin.get(f"/api/v1{empty.path}/board").json()["lanes"]
    assert list(shown[0]["columns"]) == ["backlog", "ready", "in_progress", "in_review", "blocked", "done"]


# Many tasks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def crowded(project: Project) -> Project:
    """A project of 5,000 tasks, most of them done."""

    def fill(tx: Transaction) -> None:
        rows = []
        for number in range(5000):
            status = Status.DONE if number % 10 else list(Status)[number // 10 % 5]
            task = Task(
                new("tsk"), project.id, f"task {number}", "", status, Priority(number % 4), None, None, (), 1, (),
                "admin", None, (), None, None, None, (), number, number, None, None, None,
            )  # fmt: skip
            rows.append(store.columns(task))
        tx.run_many(store.ADD_TASK, rows)

    project.server.write(fill)
    return project


def test_five_thousand_tasks_are_listed_and_queued_in_order(crowded: Project):
    listed = pages(crowded.admin, f"/api/v1{crowded.path}/tasks", 1000)
    assert len({task["id"] for task in listed}) == 5000
    assert [task["priority"] for task in listed] == sorted(task["priority"] for task in listed)
    ready = crowded.ready()
    assert len(ready) == 200
    assert crowded.claim(ready[0], crowded.agent()).status_code == 200


def plans(within: Project, query: Query, **params: Any) -> list[str]:
    """How SQLite will run the statement."""
    text, literals = query.on(within.server.house.database.backend)
    with contextlib.closing(sqlite3.connect(within.server.settings.data / "ringfence.db")) as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", {**literals, **params})]


def test_the_hot_statements_use_their_indexes(crowded: Project):
    where = {"project": crowded.id}
    hot: dict[str, list[str]] = {
        "task": plans(crowded, store.TASK, id="x"),
        "ready": plans(
            crowded, store.READY_QUEUE, **where, agent="a", anybody=0, priority=-1, created_at=-1, id="", limit=100
        ),
        "listing": plans(
            crowded, store.listing(frozenset({"project"})), **where,
            after_priority=-1, after_created=-1, after_id="", limit=100,
        ),
        "holds": plans(crowded, store.HOLDS_WORK, agent="a"),
        "worked on": plans(crowded, store.WORKED_ON_BY, agent="a"),
        "successors": plans(crowded, store.SUCCESSORS, task="t"),
        "blocked by": plans(crowded, store.BLOCKED_BY, task="t"),
        "unfinished": plans(crowded, store.UNFINISHED, task="t"),
        **{
            f"count {progress} {agent}": plans(
                crowded, query, **where, besides="t",
                **({} if progress else {"status": "ready"}), **({"agent": "a"} if agent else {}),
            )
            for (progress, agent), query in store.COUNTS.items()
        },
    }  # fmt: skip
    for name, plan in hot.items():
        assert not [step for step in plan if step.startswith("SCAN") and "tasks" in step], (name, plan)
    assert not [step for step in hot["listing"] if "TEMP B-TREE" in step], hot["listing"]
    columns = [step for step in hot["ready"] if "tasks_in_order (project_id=? AND status=?" in step]
    assert len(columns) == 2, hot["ready"]  # what is done is not walked past


# What is meant to hurt ------------------------------------------------------------------------------------------------

POISON: list[Any] = [
    None, True, 0, -1, 1.5, 10**40, "", " ", "\0", "\x1b[2J", "x" * 300_000, "../../etc", "'; drop table tasks; --",
    "<img src=x onerror=alert(1)>", "\u202e\u2066", "\U0001f980" * 600, [], [1], [None], [[]], [["x"]], {}, {"x": 1},
    ["x" * 100], ["\0"], ["x"] * 101,
]  # fmt: skip
FIELDS = ["title", "description", "assigned_to", "priority", "required_capabilities", "required_reviewers",
          "created_by", "parent_task_id", "labels", "depends_on", "status", "unknown"]  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_no_poison_in_a_task_is_a_server_error_or_stays(field: str, project_on_either: Project):
    project = project_on_either
    task = project.task("victim")
    for value in POISON:
        body = {"title": "x", field: value}
        made = project.admin.post(f"{project.path}/tasks", json=body)
        assert made.status_code < 500, (field, value, made.text)
        changed = project.admin.patch(f"{project.path}/tasks/{task}", json={field: value})
        assert changed.status_code < 500, (field, value, changed.text)
        if made.status_code != 201:
            assert made.headers["content-type"] == "application/problem+json"
    for path in ("tasks", "tasks/ready", "metrics"):
        assert project.admin.get(f"{project.path}/{path}").status_code == 200
    assert project.admin.get(f"{project.path}/tasks/ready?agent=a&capabilities=x").status_code == 200
    assert project.admin.get(f"/api/v1{project.path}/board?lanes=label").status_code == 200
    assert project.admin.get(f"/api/v1{project.path}/tasks?q=x").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "fields"),
    [
        ("PATCH", "tasks/{task}", ["status", "agent", "blocked_reason", "blocked_by", "note"]),
        ("POST", "tasks/{task}/claim", ["agent"]),
        ("POST", "tasks/{task}/assign", ["agent", "assigned_by"]),
        ("POST", "tasks/{task}/comments", ["body"]),
        ("POST", "tasks/{task}/dependencies", ["depends_on"]),
        ("POST", "tasks/{task}/release", ["agent"]),
        ("POST", "claim-next", ["agent", "capabilities"]),
        ("POST", "join", ["agent"]),
        ("PATCH", "wip", ["status", "limit", "agent", "scope"]),
        ("PATCH", "", ["name", "visibility"]),
    ],
)
def test_no_poison_in_a_body_is_a_server_error(method: str, path: str, fields: list[str], project_on_either: Project):
    project = project_on_either
    task = project.task()
    url = f"/api/v1{project.path}/{path.format(task=task)}".rstrip("/")
    valid: dict[str, dict[str, Any]] = {
        "wip": {"status": "ready", "limit": 1},
        "tasks/{task}": {"status": "blocked"},
    }
    good = valid.get(path, {})
    for field in fields:
        for value in POISON:
            answer = project.admin.request(method, url, json={**good, field: value})
            assert answer.status_code < 500, (field, value, answer.text)
    for raw in (b"[]", b'"x"', b"null", b"1", b"{", b"\xff", b'{"a":NaN}', b'{"agent":"\\ud800"}', b"[" * 5000,
                b'{"title":"\\u0000"}', json.dumps({"x": "y" * (1 << 20)}).encode()):  # fmt: skip
        answer = project.admin.request(method, url, content=raw)
        assert 400 <= answer.status_code < 500, (raw[:20], answer.text)
    assert project.admin.get(f"/api/v1{project.path}/board").status_code == 200
    assert project.admin.get(f"/api/v1{project.path}/tasks").status_code == 200


PATHS = ["tsk_none", "..", "%00", "%ff", "%F0%9F%A6%80", "x" * 2000, "'%20or%201=1", "tsk_%0a"]


@pytest.mark.parametrize("task", PATHS)
def test_no_odd_path_is_a_server_error(task: str, project_on_either: Project):
    project = project_on_either
    for path in (f"{project.path}/tasks/{task}", f"/projects/{task}", f"/projects/{task}/tasks",
                 f"/api/v1/tasks/{task}", f"/api/v1{project.path}/tasks/{task}/comments"):  # fmt: skip
        assert project.admin.get(path, follow_redirects=True).status_code in (200, 404, 405), path
    for what in ("claim", "unassign", "reviewers/x"):
        answer = project.admin.post(
            f"{project.path}/tasks/{task}/{what}", json={"agent": "x"} if what == "claim" else {}
        )
        assert answer.status_code in (400, 404, 405), answer.text
    for query in ("limit=0", "limit=-1", "limit=9999", "limit=x", "status=%00", "q=%ff", "q=%00", "label=%F0", "odd=1",
                  "priority=9", "include_blocked=perhaps"):  # fmt: skip
        assert project.admin.get(f"{project.path}/tasks?{query}").status_code in (200, 400), query


# Pure rules -----------------------------------------------------------------------------------------------------------


def test_steps_keep_the_times_of_a_task_right():
    now = iter(range(100, 200))
    task = Task(
        "tsk", "prj", "", "", Status.BACKLOG, Priority.P2, None, None, (), 1, (), "a", None, (), None, None, None, (),
        1, 1, None, None, None,
    )  # fmt: skip

    def walk(task: Task, *states: Status) -> Iterator[Task]:
        for state in states:
            task = model.stepped(task, state, next(now))
            yield task

    S = Status
    states = (
        S.READY,
        S.IN_PROGRESS,
        S.IN_REVIEW,
        S.IN_PROGRESS,
        S.BLOCKED,
        S.READY,
        S.IN_PROGRESS,
        S.IN_REVIEW,
        S.DONE,
    )
    history = list(walk(task, *states))
    started = history[1].started_at
    assert all(each.started_at == started for each in history[1:])
    assert history[3].review_started_at is None
    assert history[-1].completed_at == history[-1].updated_at
    reopened = next(walk(history[-1], S.BACKLOG))
    assert (reopened.started_at, reopened.review_started_at, reopened.completed_at) == (None, None, None)
