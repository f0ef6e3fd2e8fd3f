"""Tasks that wait for tasks, and tasks within tasks."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import httpx
import pytest

from ringfence.board.tasks import Edit
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from tests.board.conftest import Project, refused


def depend(project: Project, task: str, other: str, by: Any = None) -> httpx.Response:
    return project.act(task, "dependencies", by, depends_on=other)


def undo(project: Project, task: str, other: str) -> httpx.Response:
    return project.admin.delete(f"/api/v1{project.path}/tasks/{task}/dependencies/{other}")


def line(project: Project, length: int) -> list[str]:
    """Tasks of which each waits for the one before."""
    tasks: list[str] = []
    for number in range(length):
        tasks.append(project.task(f"number {number}", depends_on=tasks[-1:]))
    return tasks


def test_a_task_waits_until_all_its_predecessors_are_done(project: Project):
    agent = project.agent()
    first, second = project.task(), project.task()
    task = project.task(depends_on=[first, second, first])
    assert project.show(task)["waiting_for"] == [first, second]
    assert project.ready() == [first, second]
    problem = refused(project.claim(task, agent), 400, "waiting")
    assert problem["waiting_for"] == [first, second]
    project.moved(task, "ready")
    refused(project.move(task, "in_progress", agent), 400, "waiting")
    refused(project.move(task, "in_progress"), 400, "waiting")
    project.moved(first, "ready", "in_progress", "in_review", "done")
    refused(project.claim(task, agent), 400, "waiting")
    project.moved(second, "ready", "in_progress", "in_review", "done")
    assert project.show(task)["waiting_for"] == []
    assert project.claim(task, agent).status_code == 200


def test_a_reopened_predecessor_is_waited_for_again(project: Project):
    first = project.task()
    task = project.task(depends_on=[first])
    project.moved(first, "ready", "in_progress", "in_review", "done", "backlog")
    refused(project.claim(task, project.agent()), 400, "waiting")


def test_a_failed_predecessor_blocks_the_whole_line_with_its_reason_and_frees_it(project: Project):
    tasks = line(project, 5)
    project.moved(tasks[2], "ready")
    project.moved(tasks[0], "blocked", blocked_reason="no licence")
    for before, task in pairwise(tasks):
        blocked = project.show(task)
        assert blocked["status"] == "blocked"
        assert blocked["blocked_by"] == before
        assert blocked["blocked_reason"] == f"waits for “number 0” ({tasks[0]}), which is blocked: no licence"
    project.moved(tasks[0], "ready")
    assert [project.show(task)["status"] for task in tasks[1:]] == ["backlog", "ready", "backlog", "backlog"]
    assert [project.show(task)["blocked_reason"] for task in tasks] == [None] * 5
    movers = {move["by"] for move in project.show(tasks[3])["transitions"]}
    assert movers == {"system"}


def test_a_task_with_two_blocked_predecessors_stays_blocked_until_both_pass(project: Project):
    first, second = project.task("first"), project.task("second")
    task = project.task(depends_on=[first, second])
    after = project.task(depends_on=[task])
    project.moved(first, "blocked", blocked_reason="one")
    project.moved(second, "blocked", blocked_reason="two")
    project.moved(first, "ready")
    still = project.show(task)
    assert (still["status"], still["blocked_by"]) == ("blocked", second)
    assert "two" in still["blocked_reason"]
    assert project.show(after)["status"] == "blocked"
    project.moved(second, "backlog")
    assert [project.show(each)["status"] for each in (task, after)] == ["backlog", "backlog"]


def test_a_deleted_predecessor_blocks_until_a_person_looks(project: Project):
    tasks = line(project, 3)
    assert project.admin.delete(f"{project.path}/tasks/{tasks[0]}").status_code == 200
    blocked = project.show(tasks[1])
    assert (blocked["status"], blocked["blocked_by"], blocked["waiting_for"]) == ("blocked", None, [])
    assert blocked["blocked_reason"] == f"waited for “number 0” ({tasks[0]}), which was deleted"
    assert project.show(tasks[2])["blocked_by"] == tasks[1]
    assert "number 0" in project.show(tasks[2])["blocked_reason"]
    project.moved(tasks[1], "ready")
    assert project.show(tasks[2])["status"] == "backlog"
    assert project.claim(tasks[1], project.agent()).status_code == 200


def test_deleting_a_blocked_predecessor_says_so_along_the_line(project: Project):
    tasks = line(project, 3)
    project.moved(tasks[0], "blocked", blocked_reason="broken")
    project.admin.delete(f"{project.path}/tasks/{tasks[0]}")
    assert "deleted" in project.show(tasks[1])["blocked_reason"]
    assert "deleted" in project.show(tasks[2])["blocked_reason"]
    assert "broken" not in project.show(tasks[2])["blocked_reason"]
    project.moved(tasks[1], "backlog")
    assert project.show(tasks[2])["status"] == "backlog"


def test_deleting_what_two_wait_for_of_which_one_waits_for_the_other_blocks_each_once(project: Project):
    first = project.task("first")
    second = project.task("second", depends_on=[first])
    third = project.task("third", depends_on=[first, second])
    project.admin.delete(f"{project.path}/tasks/{first}")
    for task in (second, third):
        assert project.show(task)["blocked_reason"] == f"waited for “first” ({first}), which was deleted"
        steps = [(step["from"], step["to"]) for step in project.show(task)["transitions"]]
        assert steps[-1:] == [("backlog", "blocked")]
        assert len(project.events(kind="task_transition", subject=task)) == 1
    project.moved(second, "ready")
    assert project.show(third)["status"] == "blocked"


def test_what_a_person_let_go_on_goes_on_when_the_reason_changes(project: Project):
    """A task whose predecessor is blocked was assigned all the same; the predecessor then loses one of its own."""
    first, cause = project.task("first"), project.task("cause")
    task = project.task(depends_on=[cause])
    project.moved(cause, "blocked", blocked_reason="broken")
    project.assign(task, project.agent())
    project.admin.post(f"/api/v1{project.path}/tasks/{cause}/dependencies", json={"depends_on": first})
    project.admin.delete(f"{project.path}/tasks/{first}")
    assert "deleted" in project.show(cause)["blocked_reason"]
    assert project.show(task)["status"] == "ready"


def test_deleting_what_is_done_blocks_nobody(project: Project):
    first = project.task()
    task = project.task(depends_on=[first])
    project.moved(first, "ready", "in_progress", "in_review", "done")
    project.admin.delete(f"{project.path}/tasks/{first}")
    assert project.show(task)["status"] == "backlog"
    assert project.claim(task, project.agent()).status_code == 200


def test_deleting_what_blocks_a_task_tells_it(project: Project):
    cause, task = project.task("cause"), project.task()
    project.moved(task, "blocked", blocked_by=cause)
    project.admin.delete(f"{project.path}/tasks/{cause}")
    assert "deleted" in project.show(task)["blocked_reason"]
    assert project.show(task)["blocked_by"] is None


@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_a_circle_of_any_length_is_refused(length: int, project: Project):
    tasks = line(project, length)
    before = project.show(tasks[0])
    problem = refused(depend(project, tasks[0], tasks[-1]), 400, "dependency_cycle")
    assert tasks[-1] in problem["error"]
    assert project.show(tasks[0]) == before


def test_a_dependency_is_on_a_task_of_the_same_project(project: Project):
    task, elsewhere = project.task(), Project(project.server).task()
    for other in (elsewhere, "tsk_none", ""):
        assert depend(project, task, other).status_code == 400
        made = project.admin.post(f"{project.path}/tasks", json={"title": "x", "depends_on": [other]})
        assert made.status_code == 400
    assert len(project.admin.get(f"{project.path}/tasks").json()) == 1  # what was refused left nothing behind


def test_dependencies_are_listed_added_twice_and_removed(project: Project):
    first, task = project.task(), project.task()
    assert depend(project, task, first).status_code == 201
    events = len(project.events())
    assert depend(project, task, first).status_code == 201
    assert len(project.events()) == events
    listed = project.admin.get(f"/api/v1{project.path}/tasks/{task}/dependencies").json()
    assert [each["id"] for each in listed["depends_on"]] == [first]
    listed = project.admin.get(f"/api/v1{project.path}/tasks/{first}/dependencies").json()
    assert [each["id"] for each in listed["needed_by"]] == [task]
    project.moved(first, "blocked")
    assert project.show(task)["status"] == "blocked"
    assert undo(project, task, first).json()["status"] == "backlog"
    assert undo(project, task, first).status_code == 404
    kinds = [event["kind"] for event in project.events(subject=task)]
    assert kinds.count("task_dependency_added") == kinds.count("task_dependency_removed") == 1


def test_a_task_tied_to_a_blocked_one_is_blocked_at_once(project: Project):
    first, task = project.task(), project.task()
    project.moved(first, "blocked", blocked_reason="why")
    assert depend(project, task, first).json()["status"] == "blocked"
    assert project.show(project.task(depends_on=[first]))["status"] == "blocked"


def test_a_claimed_task_given_back_is_blocked_by_what_failed_meanwhile(project: Project):
    agent = project.agent()
    first, task = project.task(), project.task()
    project.claimed(task, agent)
    depend(project, task, first)
    project.moved(first, "blocked", blocked_reason="why")
    assert project.show(task)["status"] == "ready"  # a claim is not taken away
    refused(project.move(task, "in_progress", agent), 400, "waiting")
    assert project.act(task, "release", agent).json()["status"] == "blocked"


def test_an_agent_ties_only_what_it_wrote(project: Project):
    writer, other = project.agent(), project.agent()
    first = project.task()
    mine = writer.client.post(f"{project.path}/tasks", json={"title": "x"}).json()["id"]
    refused(depend(project, mine, first, other), 403, "not_yours")
    refused(depend(project, first, mine, writer), 403, "not_yours")
    assert depend(project, mine, first, writer).status_code == 201


def test_a_line_of_two_thousand_is_blocked_and_freed_in_a_second_of_work(project: Project):
    made: list[str] = []

    def build(tx: Any) -> None:
        admin = Principal(TokenKind.API, "admin", Role.ADMIN)
        for number in range(2000):
            edit = Edit(title=f"number {number}")
            found = project.server.house.board.tasks.create(tx, admin, project.id, None, edit, depends_on=made[-1:])
            made.append(found.id)

    project.server.write(build)
    took = [
        timed(lambda: project.moved(made[0], "blocked", blocked_reason="why")),
        timed(lambda: project.moved(made[0], "backlog")),
        timed(lambda: refused(depend(project, made[0], made[-1]), 400, "dependency_cycle")),
    ]
    blocked = project.admin.get(f"{project.path}/tasks", params={"status": "blocked"}).json()
    assert blocked == []
    history = project.admin.get(f"/api/v1{project.path}/tasks/{made[-1]}/history").json()["items"]
    assert [move["to"] for move in history] == ["backlog", "blocked", "backlog"]
    assert history[1]["note"] == f"waits for “number 0” ({made[0]}), which is blocked: why"
    assert max(took) < 1, took


def timed(do: Callable[[], object]) -> float:
    """Seconds of this process's CPUs: the server runs in it, and others run beside it."""
    start = time.process_time()
    do()
    return time.process_time() - start


# Parents -------------------------------------------------------------------------------------------------------------


def test_subtasks_are_listed_with_their_parent(project: Project):
    parent = project.task()
    children = [project.task(parent_task_id=parent) for _ in range(2)]
    assert project.show(parent)["subtasks"] == children
    listed = {task["id"]: task for task in project.admin.get(f"{project.path}/tasks").json()}
    assert listed[parent]["subtasks"] == children
    assert listed[children[0]]["parent_task_id"] == parent
    found = project.admin.get(f"{project.path}/tasks", params={"parent": parent}).json()
    assert [task["id"] for task in found] == children
    project.admin.patch(f"{project.path}/tasks/{children[0]}", json={"parent_task_id": ""})
    assert project.show(parent)["subtasks"] == children[1:]
    project.admin.delete(f"{project.path}/tasks/{parent}")
    assert project.show(children[1])["parent_task_id"] is None


def test_no_task_is_its_own_ancestor(project: Project):
    tasks = [project.task()]
    for _ in range(5):
        tasks.append(project.task(parent_task_id=tasks[-1]))
    for child in tasks:
        answer = project.admin.patch(f"{project.path}/tasks/{tasks[0]}", json={"parent_task_id": child})
        refused(answer, 400, "parent_cycle")
    assert project.show(tasks[0])["parent_task_id"] is None


def test_a_parent_is_a_task_of_the_same_project(project: Project):
    elsewhere = Project(project.server).task()
    for parent in (elsewhere, "tsk_none"):
        made = project.admin.post(f"{project.path}/tasks", json={"title": "x", "parent_task_id": parent})
        refused(made, 400, "unknown_task")
