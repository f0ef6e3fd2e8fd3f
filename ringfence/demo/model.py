"""The demo as a fact, and what one of its agents does next.

    start ──► lives, a step every two seconds ──15 minutes──► rests ──start──► lives …
                        │ remove                                │ remove
                        └──► nothing is left but the events ◄───┘

A step is one believable thing that one agent does: `choose` weighs all that could be done as things stand, so that
work gets on, whatever people meanwhile do to the board and its agents.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from random import Random

from ringfence.board.model import WAITING, Status, Task
from ringfence.crew.model import Mode
from ringfence.kernel.clock import MINUTE, SECOND

LIFE = 15 * MINUTE
PACE = 2 * SECOND
PULSE = 10 * SECOND  # between two heartbeats of an agent
IN_HAND = 2  # tasks that an agent takes on at once
STOCK = 4  # fewer tasks that wait, and somebody writes another
PROPOSED = 2  # by one agent at once


@dataclass(frozen=True, slots=True)
class Demo:
    project: str
    agents: tuple[str, ...]
    started_at: int
    started_by: str
    lives_until: int
    next_at: int
    steps: int


class Deed(Enum):
    CLAIM = auto()
    START = auto()
    CHECKPOINT = auto()
    COMMENT = auto()
    HAND_IN = auto()
    REWORK = auto()
    REVIEW = auto()
    FINISH = auto()
    BLOCK = auto()
    UNBLOCK = auto()
    WRITE = auto()
    REOPEN = auto()
    TELL = auto()
    ANSWER = auto()
    ACKNOWLEDGE_REVOCATION = auto()


@dataclass(frozen=True, slots=True)
class Act:
    agent: str
    deed: Deed
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """An agent of the demo as it stands."""

    name: str
    mode: Mode
    paused: bool
    halted_for: int | None  # since it was revoked
    proposed: int
    unread: bool
    queue: bool  # whether there is a task it could claim
    due: bool  # a checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    now: int
    workers: tuple[Worker, ...]
    tasks: tuple[Task, ...]
    more_to_write: bool

    def of(self, name: str, *statuses: Status) -> list[Task]:
        return [task for task in self.tasks if task.status in statuses and task.holder == name]

    def since(self, task: Task) -> int:
        return self.now - task.updated_at

    @property
    def waiting(self) -> int:
        return sum(task.status in WAITING and task.holder is None for task in self.tasks)


Weighed = Iterator[tuple[float, Act]]


def choose(scene: Scene, chance: Random) -> Act | None:
    """What happens next; None: nobody can do anything."""
    possible = [found for worker in scene.workers for found in _possible(scene, worker)]
    if not possible:
        return None
    return chance.choices([act for _, act in possible], [weight for weight, _ in possible])[0]


def _possible(scene: Scene, worker: Worker) -> Weighed:
    if worker.halted_for is not None:
        if worker.halted_for > 6 * SECOND:
            yield 6, Act(worker.name, Deed.ACKNOWLEDGE_REVOCATION)
        return
    if worker.paused:
        return
    yield from _talk(worker)
    if worker.mode is Mode.ADVISORY and worker.proposed >= PROPOSED:
        yield from _words(scene, worker)
        return
    yield from _own_work(scene, worker)
    yield from _reviews(scene, worker)
    yield from _supply(scene, worker)


def _talk(worker: Worker) -> Weighed:
    yield 0.15, Act(worker.name, Deed.TELL)
    if worker.unread:
        yield 1.5, Act(worker.name, Deed.ANSWER)


def _words(scene: Scene, worker: Worker) -> Weighed:
    for task in scene.of(worker.name, Status.IN_PROGRESS, Status.READY):
        yield 6 if worker.due else 0.9, Act(worker.name, Deed.CHECKPOINT, task.id)
        yield 0.2, Act(worker.name, Deed.COMMENT, task.id)


def _own_work(scene: Scene, worker: Worker) -> Weighed:
    yield from _words(scene, worker)
    for task in scene.of(worker.name, Status.IN_PROGRESS):
        since = scene.since(task)
        if since > 12 * SECOND:
            yield min(since / (12 * SECOND), 6), Act(worker.name, Deed.HAND_IN, task.id)
        if since > 8 * SECOND and sum(one.status is Status.BLOCKED for one in scene.tasks) < 3:
            yield 0.15, Act(worker.name, Deed.BLOCK, task.id)
    ready = scene.of(worker.name, Status.READY)
    for task in ready:
        yield 4, Act(worker.name, Deed.START, task.id)
    for task in scene.of(worker.name, Status.BLOCKED):
        if task.blocked_from is None and task.blocked_by is None and scene.since(task) > 45 * SECOND:
            yield 1, Act(worker.name, Deed.UNBLOCK, task.id)
    if worker.queue and len(ready) + len(scene.of(worker.name, Status.IN_PROGRESS)) < IN_HAND:
        yield 2.5, Act(worker.name, Deed.CLAIM)


def _reviews(scene: Scene, worker: Worker) -> Weighed:
    for task in scene.tasks:
        if task.status is not Status.IN_REVIEW or scene.since(task) < 5 * SECOND:
            continue
        mine = worker.name in (task.claimed_by, task.assigned_to)
        if mine and len(task.reviewers) >= task.required_reviewers:
            yield 5, Act(worker.name, Deed.FINISH, task.id)
        elif mine and not task.reviewers and scene.since(task) > 12 * SECOND:
            yield 0.4, Act(worker.name, Deed.REWORK, task.id)
        elif not mine and worker.name not in task.reviewers and len(task.reviewers) < task.required_reviewers:
            yield 0.8, Act(worker.name, Deed.REVIEW, task.id)


def _supply(scene: Scene, worker: Worker) -> Weighed:
    if scene.waiting >= STOCK:
        return
    if scene.more_to_write:
        yield 1, Act(worker.name, Deed.WRITE)
        return
    done = scene.of(worker.name, Status.DONE)
    for task in oldest(done)[:1]:
        yield 1, Act(worker.name, Deed.REOPEN, task.id)


def oldest(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: task.updated_at)
