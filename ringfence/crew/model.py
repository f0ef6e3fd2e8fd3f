"""Agents as plain facts, and the rules about them that need nothing else."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ringfence.kernel.auth.model import check_name
from ringfence.kernel.errors import Invalid, TooLarge

TAGS = 100
TAG_LENGTH = 64
METADATA_BYTES = 16 * 1024
# No character that moves, hides or turns what stands around it.
SHOWN = r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
_LINE = re.compile(f"{SHOWN}*")
# Words that stand where an agent's name could stand in our paths.
_RESERVED = {"autonomy", "pause", "resume"}


class Mode(StrEnum):
    """How far an agent goes alone; in order."""

    MANUAL = "manual"  # works on what people assign
    ADVISORY = "advisory"  # proposes, and people approve
    FULLY_AUTONOMOUS = "fully_autonomous"  # claims by itself

    def exceeds(self, ceiling: "Mode") -> bool:
        order = list(Mode)
        return order.index(self) > order.index(ceiling)


class Status(StrEnum):
    """What is shown of an agent; the first that holds."""

    REVOKED = "revoked"  # an operator halted it, and it has not acknowledged
    BUSY = "busy"  # paused: the hub's word
    OFFLINE = "offline"  # silent for so long that its tasks were returned
    STALE = "stale"  # silent
    STALLED = "stalled"  # holds work, and submits no checkpoints
    ONLINE = "online"


@dataclass(frozen=True, slots=True)
class Policy:
    """How far agents may go that nobody decided about one by one."""

    mode: Mode = Mode.FULLY_AUTONOMOUS
    ceiling: Mode = Mode.FULLY_AUTONOMOUS


@dataclass(frozen=True, slots=True)
class Standing:
    """What the other rooms must know before an agent may do something."""

    name: str
    registered: bool
    type: str
    mode: Mode
    capabilities: frozenset[str]
    paused_at: int | None = None
    pause_reason: str = ""
    frozen: bool = False  # paused in the middle of what it does; else it may end that
    revoked: str | None = None  # the directive that waits to be acknowledged
    liveness: Status = Status.OFFLINE  # offline, stale, stalled or online


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    type: str
    metadata: dict[str, Any]
    tags: tuple[str, ...]  # as submitted
    description: str  # of its capabilities
    mode: Mode
    ceiling: Mode
    registered_at: int
    last_heartbeat: int
    last_seen: int
    tick: int  # heartbeats since its last checkpoint
    missed: int  # checkpoints
    checkpoint_sequence: int
    current_task_id: str | None
    paused_at: int | None
    pause_reason: str
    frozen: bool
    revocation: str | None
    stalled_at: int | None
    stale_at: int | None
    offline_at: int | None
    gone_at: int | None
    status: Status

    @property
    def capabilities(self) -> tuple[str, ...]:
        return normalised(self.tags)


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a heartbeat is answered with."""

    tick: int
    checkpoint_due: bool
    paused: bool
    revocation: "Revocation | None"


@dataclass(frozen=True, slots=True)
class Revocation:
    """A directive: halt, flush, register again."""

    id: str
    agent: str
    reason: str
    flush_required: bool
    issued_at: int
    issued_by: str
    acknowledged_at: int | None
    superseded_at: int | None

    @property
    def pending(self) -> bool:
        return self.acknowledged_at is None and self.superseded_at is None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    id: str
    agent: str
    sequence: int
    task_id: str | None
    state: str
    rationale: str
    metadata: dict[str, Any]
    submitted_at: int


def check_agent_name(name: str) -> str:
    if check_name(name).lower() in _RESERVED:
        raise Invalid(f"name {name!r} is reserved: choose another", code="invalid_name")
    return name


def is_line(text: str) -> bool:
    """Whether the text can stand in a line of a terminal or a page without changing how the rest reads."""
    return _LINE.fullmatch(text) is not None


def mode_named(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        raise Invalid(f"Invalid mode: {text[:80]}; possible are: {', '.join(Mode)}", code="invalid_mode") from None


def tags_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """Tags as submitted, a comma-separated string split into them; what says nothing is left out."""
    tags = tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else tuple(given)
    tags = tuple(tag for tag in tags if tag.strip())
    if len(tags) > TAGS:
        raise Invalid(f"{len(tags)} capabilities are too many: at most {TAGS}", code="too_many_capabilities")
    for tag in tags:
        if len(tag.strip()) > TAG_LENGTH or not is_line(tag):
            raise Invalid(
                f"capability {tag[:80]!r} is not possible: use 1 to {TAG_LENGTH} printable characters",
                code="invalid_capability",
            )
    return tags


def normalised(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({tag.strip().lower() for tag in tags}))


def metadata_text(metadata: dict[str, Any]) -> str:
    """Metadata as it is stored."""
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise Invalid("metadata holds a number that JSON cannot carry (NaN or Infinity)") from None
    if (size := len(text.encode())) > METADATA_BYTES:
        raise TooLarge(f"the metadata has {size} bytes; at most {METADATA_BYTES} are taken")
    return text
