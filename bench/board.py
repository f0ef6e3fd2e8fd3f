"""Requests a second on the board: ping, create, claim, messages, ready queue; with the server's CPU time for each."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.subjects import Subject
from bench.wrk import Load, run

AGENTS = 8


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    load: Load


def cases(subject: Subject, seconds: float) -> list[Case]:
    for agent in range(AGENTS):
        subject.client.post("/agents/register", json={"name": f"agent-{agent}", "type": "bench"}).raise_for_status()
    return [
        Case("GET /ping", run(subject, "GET", [("/ping", None)], seconds)),
        Case("create a task", _create(subject, seconds)),
        Case("claim a task", _claim(subject, seconds)),
        Case("send a message", _send(subject, seconds)),
        Case("heartbeat", run(subject, "POST", [(f"/agents/agent-{n}/heartbeat", {}) for n in range(AGENTS)], seconds)),
        Case("ready queue of 2,200", _ready_queue(subject, seconds)),
    ]


def _project(subject: Subject) -> str:
    project = (
        subject.client.post("/projects", json={"name": "bench", "creator": "bench"}).raise_for_status().json()["id"]
    )
    if subject.token is not None:  # the hub's own limit never counts claims; ours would stop each agent at three
        subject.client.patch(
            f"/projects/{project}/wip", json={"status": "in_progress", "limit": None}
        ).raise_for_status()
    return str(project)


def _tasks(subject: Subject, project: str, count: int) -> list[str]:
    def create(number: int) -> str:
        answer = subject.client.post(f"/projects/{project}/tasks", json={"title": f"task {number}"})
        return str(answer.raise_for_status().json()["id"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(create, range(count)))


def _create(subject: Subject, seconds: float) -> Load:
    project = _project(subject)
    return run(subject, "POST", [(f"/projects/{project}/tasks", {"title": "a task"})], seconds)


def _claim(subject: Subject, seconds: float) -> Load:
    """Each claim of ours is of a task nobody has; the hub lets a task be claimed again and again: there it is 500."""
    project = _project(subject)
    tasks = _tasks(subject, project, int(seconds * 6000) if subject.token else 500)
    agents = itertools.cycle(f"agent-{n}" for n in range(AGENTS))
    path = f"/projects/{project}/tasks"
    return run(subject, "POST", [(f"{path}/{task}/claim", {"agent": next(agents)}) for task in tasks], seconds)


def _send(subject: Subject, seconds: float) -> Load:
    pairs = itertools.permutations(range(AGENTS), 2)
    bodies = [{"from": f"agent-{a}", "to": f"agent-{b}", "content": "the tests pass"} for a, b in pairs]
    return run(subject, "POST", [("/messages/send", body) for body in bodies], seconds)


def _ready_queue(subject: Subject, seconds: float) -> Load:
    project = _project(subject)
    _tasks(subject, project, 2200)
    return run(subject, "GET", [(f"/projects/{project}/tasks/ready", None)], seconds)
