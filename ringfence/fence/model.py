"""Sandboxes, and the rules of their life.

    creating ──► running ◄──► paused
        │         │   ▲          │
        │         ▼   │ start    │
        │       stopped ◄────────┘
        │         │
        ▼         ▼
      failed ──► destroyed        lost: it ran, and is gone without a word

A sandbox is a filesystem that stays, and, while it runs, a tree of processes under its warden. `failed` could not be
started, or crashed again and again; `start` tries once more. `lost` can be started too: its files are there.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    CREATING = "creating"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"
    DESTROYED = "destroyed"


class User(StrEnum):
    """Who programs in a sandbox run as."""

    AGENT = "agent"  # uid 1000, without a capability
    ROOT = "root"  # with a range of ids, where the host allows one: for apt, and for building loadouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None: not limited. Those in `requested` must be enforced, or the sandbox is refused; others are best effort."""

    memory: int | None = None  # bytes
    cpus: float | None = None
    pids: int | None = None
    disk: int | None = None  # bytes that may be written
    requested: frozenset[str] = frozenset()  # names of the fields above


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """All that a runtime must know to make a sandbox, and to start it again."""

    id: str
    hostname: str
    image: str  # `host`, or the name of an image the runtime's image store holds
    user: User = User.AGENT
    read_only: bool = False  # the root; /tmp, /home/agent and /workspace stay writable
    memory_disk: bool = False  # what is written lives in memory, sized by `limits.disk`
    limits: Limits = Limits()
    env: dict[str, str] = field(default_factory=dict)
    snapshot: str | None = None  # the snapshot whose files it begins with


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforced:
    """How each limit is held up here: `cgroup v2`, `cgroup v1`, `rlimit`, `tmpfs`, `quota`; missing: it is not."""

    how: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One run of a sandbox: what tells its warden from every other process, now and after a restart."""

    pid: int  # of the warden, seen from the host
    started: int  # ticks since the boot
    boot: str  # the host's boot id


class Cause(StrEnum):
    """Why a sandbox's warden ended."""

    STOPPED = "stopped"  # we ended it
    MEMORY = "memory"  # the kernel killed it for want of memory
    DIED = "died"  # killed or crashed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a sandbox uses. None: this host does not say."""

    cpu_us: int | None = None  # since its start
    memory: int | None = None  # bytes now
    memory_peak: int | None = None
    memory_kills: int | None = None  # processes killed for want of memory
    pids: int | None = None
    disk: int | None = None  # bytes written and kept
    read_bytes: int | None = None
    written_bytes: int | None = None
