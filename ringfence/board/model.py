"""Projects and tasks, and the rules by which a task moves.

    backlog ──► ready ──► in_progress ──► in_review ──► done ──► backlog
       │          │            │              │
       └──────────┴────────────┴─► blocked    └─► in_progress (rework)
                                      │
                                      └─► ready, backlog

A claimed task stays `ready`, held by its claimant, and counts as in progress for WIP limits.
"""

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from ringfence.kernel.errors import Invalid, RuleBroken


class Status(StrEnum):
    BACKLOG = "backlog"
    READY = "ready"
    IN_PROGRESS = "in_progress"
    IN_REVIEW = "in_review"
    BLOCKED = "blocked"
    DONE = "done"


class Priority(IntEnum):
    P0 = 0  # critical
    P1 = 1
    P2 = 2
    P3 = 3  # low


MOVES: dict[Status, tuple[Status, ...]] = {
    Status.BACKLOG: (Status.READY, Status.BLOCKED),
    Status.READY: (Status.IN_PROGRESS, Status.BLOCKED, Status.BACKLOG),
    Status.IN_PROGRESS: (Status.IN_REVIEW, Status.BLOCKED, Status.READY),
    Status.IN_REVIEW: (Status.DONE, Status.IN_PROGRESS),
    Status.BLOCKED: (Status.READY, Status.BACKLOG),
    Status.DONE: (Status.BACKLOG,),
}
WAITING = (Status.BACKLOG, Status.READY)  # where a task can be claimed
RECENT = 5  # moves that a task carries with it; the rest are in its history

_LABEL = re.compile(r"[^\s\"\\%,][^\"\\%,\x00-\x1f]{0,39}")
_CAPABILITY = re.compile(r"[^\s,\x00-\x1f](?:[^,\x00-\x1f]{0,62}[^\s,\x00-\x1f])?")


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    creator: str
    visibility: str  # open: every agent may find it and work in it; members: only its members
    created_at: int


@dataclass(frozen=True, slots=True)
class Move:
    came: str
    went: str
    at: str
    by: str

    def as_json(self) -> dict[str, str]:
        return {"from": self.came, "to": self.went, "at": self.at, "by": self.by}


class Task(NamedTuple):
    """A tuple, because every claim reads one and changes it a few times: a frozen dataclass takes six times as long."""

    id: str
    project_id: str
    title: str
    description: str
    status: Status
    priority: Priority
    assigned_to: str | None
    claimed_by: str | None
    required_capabilities: tuple[str, ...]
    required_reviewers: int
    reviewers: tuple[str, ...]
    created_by: str
    parent_task_id: str | None
    labels: tuple[str, ...]
    blocked_reason: str | None
    blocked_by: str | None
    blocked_from: Status | None  # set where the board itself blocked it: where it returns to
    recent: tuple[dict[str, str], ...]
    created_at: int
    updated_at: int
    started_at: int | None
    review_started_at: int | None
    completed_at: int | None

    @property
    def held(self) -> bool:
        """Claimed, and not yet begun."""
        return self.status is Status.READY and self.claimed_by is not None

    @property
    def holder(self) -> str | None:
        return self.claimed_by or self.assigned_to

    def released(self) -> "Task":
        """Nobody's claim any more; what a person assigned stays assigned."""
        assigned = None if self.claimed_by == self.assigned_to else self.assigned_to
        return self._replace(claimed_by=None, assigned_to=assigned)


class Card(NamedTuple):
    """What the board shows of a task."""

    id: str
    title: str
    status: Status
    priority: Priority
    assigned_to: str | None
    claimed_by: str | None
    required_capabilities: tuple[str, ...]
    required_reviewers: int
    reviewers: tuple[str, ...]
    labels: tuple[str, ...]
    parent_task_id: str | None
    blocked_reason: str | None
    created_at: int
    updated_at: int
    started_at: int | None
    completed_at: int | None


class Waiting(NamedTuple):
    """What the ready queue tells of a task."""

    id: str
    title: str
    priority: Priority
    required_capabilities: tuple[str, ...]
    assigned_to: str | None
    created_at: int


def allowed(status: Status, *, held: bool) -> list[Status]:
    """Where a task may go from here; a claimant may also report work already done."""
    return [*MOVES[status], *([Status.IN_REVIEW] if held else [])]


def path_of(task: Task, to: Status) -> tuple[Status, ...]:
    """The steps to `to`: one, or two for a claimant who reports work already done. Refused, naming what is allowed."""
    if task.held and to is Status.IN_REVIEW:
        return (Status.IN_PROGRESS, Status.IN_REVIEW)
    if to not in MOVES[task.status]:
        possible = allowed(task.status, held=task.held)
        raise RuleBroken(
            f"Invalid transition: {task.status} → {to}; from {task.status} a task may go to {', '.join(possible)}",
            code="invalid_transition",
            project=task.project_id,
            subject=task.id,
            allowed=list(possible),
        )
    return (to,)


def stepped(task: Task, to: Status, now: int) -> Task:
    """The task after one step, with its times right.

    Rework keeps the start, so a cycle counts it; returning to the backlog ends the attempt, and a new one starts anew.
    """
    changed = task._replace(status=to, updated_at=now, blocked_reason=None, blocked_by=None, blocked_from=None)
    match to:
        case Status.IN_PROGRESS:
            rework = task.status is Status.IN_REVIEW
            reviewers = () if rework else task.reviewers
            return changed._replace(started_at=task.started_at or now, review_started_at=None, reviewers=reviewers)
        case Status.IN_REVIEW:
            return changed._replace(review_started_at=now)
        case Status.DONE:
            return changed._replace(completed_at=now, claimed_by=None)
        case Status.BACKLOG:
            return changed.released()._replace(started_at=None, review_started_at=None, completed_at=None, reviewers=())
        case Status.READY:
            return changed if task.status is Status.BLOCKED else changed.released()
        case _:
            return changed


def priority(given: str) -> Priority:
    try:
        return Priority[given.strip().upper()]
    except KeyError:
        raise Invalid(f"Invalid priority: {given!r:.80}; possible are P0 (critical), P1, P2, P3 (low)") from None


def status(given: str) -> Status:
    try:
        return Status(given)
    except ValueError:
        raise Invalid(
            f"Invalid status: {given!r:.80}; possible are {', '.join(Status)}", code="invalid_status"
        ) from None


def labels(given: list[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(label.strip() for label in given))
    for label in found:
        if not _LABEL.fullmatch(label):
            raise Invalid(f'label {label!r:.80} is not possible: 1 to 40 characters, none of " \\ % and comma')
    return found


def capabilities(given: list[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(tag.strip().lower() for tag in given))
    for tag in found:
        if not _CAPABILITY.fullmatch(tag):
            raise Invalid(f"capability {tag!r:.80} is not possible: 1 to 64 characters, no comma")
    return found


_FILE_NAME = re.compile(r"[A-Za-z0-9_./-]{1,255}")


def file_name(given: str) -> str:
    """A relative path of plain names; the hub's rule without its holes."""
    parts = given.split("/")
    if not _FILE_NAME.fullmatch(given) or ".." in given or any(part in ("", ".") for part in parts):
        raise Invalid(
            f"Invalid filename: {given!r:.120}; use letters, digits, - _ . and / between names, no .. and no leading /",
            code="invalid_filename",
        )
    return given
