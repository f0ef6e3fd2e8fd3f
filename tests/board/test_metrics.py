"""Cycle times, throughput, rework and flow, on a clock that the tests move."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringfence.kernel.auth.model import Role
from tests.board.conftest import Agent, Project
from tests.harness import Ringfence, running

DAY = 86_400


@pytest.fixture
def project(tmp_path: Path, template: Path) -> Iterator[Project]:
    with running(tmp_path / "data", template, heartbeat_timeout=1e9, stale_after=1e9, token_days=400) as server:
        server.admin_token = server.token("admin", Role.ADMIN, lives=400 * DAY * 1_000_000)
        server.admin = server.client(server.admin_token)
        admin = Project(server)
        server.clock.advance(DAY - server.clock.now() / 1e6 % DAY + 60)  # a minute past midnight
        yield admin


def measured(project: Project, **params: Any) -> dict[str, Any]:
    found = project.admin.get(f"{project.path}/metrics", params=params)
    assert found.status_code == 200, found.text
    return dict(found.json())


def minutes(server: Ringfence, number: float) -> None:
    server.clock.advance(number * 60)


def worked(project: Project, agent: Agent, work: float, review: float) -> str:
    """A task that `agent` did."""
    task = project.claimed(project.task(), agent)
    project.moved(task, "in_progress")
    minutes(project.server, work)
    project.moved(task, "in_review")
    minutes(project.server, review)
    project.moved(task, "done")
    return task


def test_a_board_that_did_nothing_has_done_nothing(project: Project):
    found = measured(project)
    assert found["total_tasks"] == found["completed_count"] == found["completions"] == 0
    assert found["by_status"] == dict.fromkeys(("backlog", "ready", "in_progress", "in_review", "blocked", "done"), 0)
    assert found["avg_cycle_time_minutes"] == 0.0
    assert found["agent_throughput"] == {}
    unknown = project.admin.get("/projects/prj_none/metrics")
    assert unknown.status_code == 200
    assert unknown.json()["total_tasks"] == 0
    assert project.admin.get("/api/v1/projects/prj_none/metrics").status_code == 404


def test_cycle_time_runs_from_the_first_start_to_done(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    minutes(project.server, 100)  # claimed is not begun
    project.moved(task, "in_progress")
    minutes(project.server, 30)
    project.moved(task, "blocked")
    minutes(project.server, 5)
    project.moved(task, "ready", "in_progress", "in_review", "done")
    assert measured(project)["avg_cycle_time_minutes"] == 35.0


def test_rework_counts_into_the_cycle_and_is_told(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    project.moved(task, "in_progress")
    minutes(project.server, 10)
    project.moved(task, "in_review")
    minutes(project.server, 10)
    project.moved(task, "in_progress")
    assert project.show(task)["review_started_at"] is None
    minutes(project.server, 10)
    project.moved(task, "in_review", "done")
    worked(project, agent, 10, 0)
    found = measured(project)
    assert found["avg_cycle_time_minutes"] == 20.0
    assert sorted(round(cycle) for cycle in found["cycle_times_minutes"]) == [10, 30]
    assert (found["completions"], found["reworked"]) == (2, 1)


def test_a_reopened_task_starts_anew_and_its_earlier_rework_is_not_counted_again(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    project.moved(task, "in_progress", "in_review", "in_progress")
    minutes(project.server, 60)
    project.moved(task, "in_review", "done")
    minutes(project.server, 600)
    reopened = project.moved(task, "backlog")
    assert reopened["started_at"] is reopened["completed_at"] is reopened["review_started_at"] is None
    assert reopened["reviewers"] == []
    assert measured(project)["completed_count"] == 0
    minutes(project.server, 600)
    project.moved(task, "ready", "in_progress")
    minutes(project.server, 7)
    project.moved(task, "in_review", "done")
    found = measured(project)
    assert found["avg_cycle_time_minutes"] == 7.0  # of what is done now
    assert found["completed_count"] == 1
    assert (found["completions"], found["reworked"]) == (2, 1)
    assert sorted(round(cycle) for cycle in found["cycle_times_minutes"]) == [7, 60]


def test_throughput_is_told_by_agent_and_by_project(project: Project):
    quick, slow = project.agent(name="quick"), project.agent(name="slow")
    for work in (1, 2, 3):
        worked(project, quick, work, 0)
    worked(project, slow, 120, 60)
    found = measured(project)
    assert found["agent_throughput"] == {quick.name: 3, slow.name: 1}
    assert found["completed_count"] == found["by_status"]["done"] == 4
    agents = {each["agent"]: each for each in found["agents"]}
    assert (agents[quick.name]["completed"], agents[quick.name]["avg_cycle_time_minutes"]) == (3, 2.0)
    assert agents[quick.name]["median_cycle_time_minutes"] == 2.0
    assert agents[slow.name]["avg_cycle_time_minutes"] == 180.0
    assert round(found["median_cycle_time_minutes"]) == 2
    assert round(found["p85_cycle_time_minutes"]) == 180
    other = Project(project.server)
    assert measured(other)["total_tasks"] == 0


def test_throughput_and_flow_are_told_by_day(project: Project):
    agent = project.agent()
    worked(project, agent, 1, 1)
    idle = project.task()
    project.server.clock.advance(2 * DAY)
    worked(project, agent, 1, 1)
    project.moved(idle, "blocked")
    found = measured(project, days=4)
    assert [day["completed"] for day in found["throughput"]] == [0, 1, 0, 1]
    flow = found["flow"]
    assert [(day["done"], day["backlog"], day["blocked"]) for day in flow] == [
        (0, 0, 0), (1, 1, 0), (1, 1, 0), (2, 0, 1),
    ]  # fmt: skip
    assert [day["day"] for day in flow] == sorted(day["day"] for day in flow)
    project.admin.delete(f"{project.path}/tasks/{idle}")
    assert measured(project, days=4)["flow"][-1]["blocked"] == 0
    for days in (0, 367, "many"):
        assert project.admin.get(f"{project.path}/metrics", params={"days": days}).status_code == 400


def test_what_an_older_day_completed_leaves_the_window_but_not_the_count(project: Project):
    agent = project.agent()
    worked(project, agent, 1, 1)
    project.server.clock.advance(10 * DAY)
    found = measured(project, days=5)
    assert (found["completions"], found["completed_count"], found["agents"]) == (0, 1, [])


def test_what_one_agent_completed_is_told_apart(project: Project):
    quick, slow = project.agent(name="quick"), project.agent(name="slow")
    worked(project, quick, 5, 0)
    project.server.clock.advance(DAY)
    first = worked(project, slow, 50, 10)
    worked(project, quick, 7, 0)
    found = measured(project, days=3, agent=slow.name)
    assert (found["completions"], found["cycle_times_minutes"]) == (1, [60.0])
    assert [day["completed"] for day in found["throughput"]] == [0, 0, 1]
    assert [done["task_id"] for done in found["latest"]] == [first]
    assert found["flow"][-1]["done"] == 3  # the columns are of all
    assert {each["agent"]: each["daily"] for each in found["agents"]} == {quick.name: [0, 1, 1], slow.name: [0, 0, 1]}
    assert measured(project, days=3, agent="nobody")["completions"] == 0


def test_the_newest_completions_are_told_one_by_one(project_on_either: Project):
    project = project_on_either
    agent = project.agent()
    task = project.claimed(project.task("Parse dates"), agent)
    project.moved(task, "in_progress", "in_review", "in_progress")
    minutes(project.server, 5)
    project.moved(task, "in_review", "done")
    never_started = project.task("Never started")
    project.moved(never_started, "ready", "in_progress", "in_review", "done")
    found = measured(project)
    told = {done["task_id"]: done for done in found["latest"]}
    assert (told[task]["title"], told[task]["agent"], told[task]["reworked"]) == ("Parse dates", agent.name, True)
    assert round(told[task]["cycle_minutes"]) == 5
    assert not told[never_started]["reworked"]
    assert sum(day["completed"] for day in found["throughput"]) == found["completions"] == 2
    assert [(each["agent"], each["reworked"]) for each in found["agents"]] == [(None, 0), (agent.name, 1)]


# Work in progress -----------------------------------------------------------------------------------------------------


def limit(project: Project, status: str, number: int | None, **whose: str) -> None:
    found = project.admin.patch(f"{project.path}/wip", json={"status": status, "limit": number, **whose})
    assert found.status_code == 200, found.text


def test_the_most_in_work_is_told_for_each_day_with_the_limit_of_its_end(project_on_either: Project):
    project = project_on_either
    quick, slow = project.agent(name="quick"), project.agent(name="slow")
    first, second, third = (project.claimed(project.task(), agent) for agent in (quick, quick, slow))
    for task in (first, second, third):
        project.moved(task, "in_progress")
    project.moved(first, "in_review")
    limit(project, "in_progress", 4, scope="column")
    limit(project, "in_progress", 7, agent=slow.name)
    found = measured(project, days=2)
    today = found["wip"][-1]
    assert (today["in_progress"], today["in_progress_limit"]) == (3, 4)
    assert (today["in_review"], today["in_review_limit"]) == (1, None)
    assert found["wip"][0]["in_progress"] == 0
    loads = {load["agent"]: load for load in found["loads"]}
    assert (loads[quick.name]["in_progress"], loads[quick.name]["in_progress_most"]) == (1, 2)
    assert (loads[quick.name]["in_progress_limit"], loads[slow.name]["in_progress_limit"]) == (3, 7)
    assert (loads[quick.name]["in_review"], loads[slow.name]["in_review_most"]) == (1, 0)
    of_slow = measured(project, days=2, agent=slow.name)["wip"][-1]
    assert (of_slow["in_progress"], of_slow["in_progress_limit"], of_slow["in_review_limit"]) == (1, 7, 5)
    assert measured(project, days=2, agent="nobody")["wip"][-1]["in_progress"] == 0


def test_work_that_goes_on_counts_for_each_of_its_days_and_limits_hold_from_when_they_were_set(project: Project):
    agent = project.agent()
    task = project.claimed(project.task(), agent)
    project.moved(task, "in_progress")
    project.server.clock.advance(DAY)
    limit(project, "in_progress", 2, scope="column")
    project.server.clock.advance(DAY)
    project.moved(task, "in_review", "done")
    limit(project, "in_progress", None, scope="column")
    limit(project, "in_progress", 1, agent=agent.name)
    project.server.clock.advance(DAY)
    days = measured(project, days=5)["wip"]
    assert [day["in_progress"] for day in days] == [0, 1, 1, 1, 0]
    assert [day["in_progress_limit"] for day in days] == [None, None, 2, None, None]
    assert [day["in_review"] for day in days] == [0, 0, 0, 1, 0]
    mine = measured(project, days=5, agent=agent.name)["wip"]
    assert [day["in_progress_limit"] for day in mine] == [3, 3, 3, 1, 1]
    limit(project, "in_progress", None, agent=agent.name)
    assert measured(project, days=1, agent=agent.name)["wip"][0]["in_progress_limit"] == 3
    [load] = measured(project, days=5)["loads"]
    assert (load["agent"], load["in_progress"], load["in_progress_most"]) == (agent.name, 0, 1)
    assert measured(project, days=1)["loads"] == []


def test_columns_that_a_task_only_passed_through_were_never_full(project: Project):
    task = project.claimed(project.task(), agent := project.agent())
    project.moved(task, "in_progress")
    project.admin.post(f"{project.path}/tasks/{task}/assign", json={"agent": agent.name})  # back to ready, at once
    project.admin.patch(f"{project.path}/tasks/{task}", json={"status": "in_progress"})
    assert [day["in_progress"] for day in measured(project, days=1)["wip"]] == [1]


def test_the_slowest_twentieth_is_told(project: Project):
    agent = project.agent()
    for work in range(1, 21):
        worked(project, agent, work, 0)
    found = measured(project)
    assert [round(found[f"{name}_cycle_time_minutes"]) for name in ("median", "p85", "p95")] == [10, 17, 19]
