"""Requests a second on the board: ping, create, claim, messages, ready queue; with the server's CPU time for each."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bench.subjects import Subject
from bench.wrk import Load, run

AGENTS = 8


def register(subject: Subject) -> None:
    for agent in range(AGENTS):
        subject.client.post("/agents/register", json={"name": f"agent-{agent}", "type": "bench"}).raise_for_status()


def project(subject: Subject) -> str:
    found = subject.client.post("/projects", json={"name": "bench", "creator": "bench"}).raise_for_status()
    project = str(found.json()["id"])
    if subject.token is not None:  # the hub's own limit never counts claims; ours would stop each agent at three
        subject.client.patch(
            f"/projects/{project}/wip", json={"status": "in_progress", "limit": None}
        ).raise_for_status()
    return project


def tasks(subject: Subject, project: str, count: int) -> list[str]:
    def create(number: int) -> str:
        answer = subject.client.post(f"/projects/{project}/tasks", json={"title": f"task {number}"})
        return str(answer.raise_for_status().json()["id"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(create, range(count)))


def messages() -> list[dict[str, str]]:
    """From each agent to each other one."""
    pairs = itertools.permutations(range(AGENTS), 2)
    return [{"from": f"agent-{a}", "to": f"agent-{b}", "content": "the tests pass"} for a, b in pairs]


def _ping(subject: Subject, seconds: float) -> Load:
    return run(subject, "GET", [("/ping", None)], seconds)


def _create(subject: Subject, seconds: float) -> Load:
    return run(subject, "POST", [(f"/projects/{project(subject)}/tasks", {"title": "a task"})], seconds)


def _claim(subject: Subject, seconds: float) -> Load:
    """Each claim of ours is of a task nobody has; the hub lets a task be claimed again and again: there it is 500."""
    home = project(subject)
    waiting = tasks(subject, home, int(seconds * 6000) if subject.token else 500)
    agents = itertools.cycle(f"agent-{n}" for n in range(AGENTS))
    claims: list[tuple[str, object]] = [
        (f"/projects/{home}/tasks/{task}/claim", {"agent": next(agents)}) for task in waiting
    ]
    return run(subject, "POST", claims, seconds)


def _send(subject: Subject, seconds: float) -> Load:
    return run(subject, "POST", [("/messages/send", body) for body in messages()], seconds)


def _heartbeat(subject: Subject, seconds: float) -> Load:
    return run(subject, "POST", [(f"/agents/agent-{n}/heartbeat", {}) for n in range(AGENTS)], seconds)


def _ready_queue(subject: Subject, seconds: float) -> Load:
    """As many tasks as one answer of ours holds: the hub's holds all there are."""
    home = project(subject)
    tasks(subject, home, 1000)
    return run(subject, "GET", [(f"/projects/{home}/tasks/ready", None)], seconds)


CASES: dict[str, Callable[[Subject, float], Load]] = {
    "GET /ping": _ping,
    "create a task": _create,
    "claim a task": _claim,
    "send a message": _send,
    "heartbeat": _heartbeat,
    "ready queue of 1,000": _ready_queue,
}
