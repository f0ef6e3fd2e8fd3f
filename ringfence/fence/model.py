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

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ringfence.kernel.clock import MINUTE
from ringfence.kernel.errors import Conflict, Invalid

# A sandbox's name is its host name too: one label of a DNS name.
NAME = r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$"
_NAME = re.compile(NAME)
LABELS = 32
ENV_BYTES = 64 * 1024


class State(StrEnum):
    CREATING = "creating"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"
    DESTROYED = "destroyed"


class Action(StrEnum):
    """What may be asked of a sandbox."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"
    RECREATE = "recreate"
    SNAPSHOT = "snapshot"
    DESTROY = "destroy"
    USE = "use"  # run programs, touch files


class Wanted(StrEnum):
    """Where it is to get to: committed before anything is done, so that a restarted server goes on with it."""

    RUNNING = "running"
    PAUSED = "paused"  # as long as its agent is; what people pause themselves is wanted running
    STOPPED = "stopped"
    DESTROYED = "destroyed"


class OnCrash(StrEnum):
    RESTART = "restart"  # again, with its files, until the crashes are a loop
    STOP = "stop"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A sandbox as the database knows it."""

    id: str
    name: str
    node: str  # the server whose host it lives on
    labels: dict[str, str]
    owner: str  # who made it: `operator:ann`
    project: str | None
    agent: str | None  # whose it is: that agent may use it
    runtime: str
    image: str
    user: User
    read_only: bool
    memory_disk: bool
    limits: Limits
    best_effort: bool
    env: dict[str, str]
    snapshot: str | None
    on_crash: OnCrash
    ttl: float | None  # seconds until it is destroyed, from when that was said
    expires_at: int | None
    idle_timeout: float | None  # seconds without anything running until it is stopped
    state: State
    wanted: Wanted
    enforced: Enforced
    life: Life | None
    cause: str | None  # why it ended last
    error: str  # why it failed
    restarts: int  # after crashes
    crashes: tuple[int, ...]  # when the last short lives ended
    created_at: int
    started_at: int | None
    ended_at: int | None
    active_at: int  # when something last ran in it
    destroyed_at: int | None
    workdir: str | None = None  # where programs begin; None: in /workspace

    def stepped(self, to: State, **more: Any) -> "Sandbox":
        """In another state, which may follow this one."""
        assert to in FLOW[self.state], f"{self.id} cannot become {to}: it is {self.state}"
        return replace(self, state=to, **more)

    def blueprint(self) -> Blueprint:
        return Blueprint(
            id=self.id, hostname=self.name, image=self.image, user=self.user, read_only=self.read_only,
            memory_disk=self.memory_disk, limits=self.limits, env=self.env, snapshot=self.snapshot,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The files of a sandbox as they were; others can begin with them."""

    id: str
    name: str
    node: str
    sandbox: str
    image: str
    user: User
    owner: str
    project: str | None
    size: int
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What an image says of the programs to be run in it."""

    env: tuple[str, ...] = ()
    workdir: str = ""
    user: str = ""  # shown, and not used: programs run as the sandbox's user
    entrypoint: tuple[str, ...] = ()  # shown, and not run
    cmd: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A root filesystem that sandboxes can begin with, as a runtime keeps it."""

    name: str
    digest: str  # of all that follows, sha256
    layers: tuple[str, ...]  # their diff ids, sha256, the lowest first
    config: ImageConfig
    size: int  # bytes of all layers, unpacked
    format: str  # `rootfs`, `oci`, `docker`


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedImage:
    """An image as the database knows it."""

    image: Image
    node: str
    owner: str
    created_at: int


# Rules ----------------------------------------------------------------------------------------------------------------

_ENDED = frozenset({State.STOPPED, State.FAILED, State.LOST})
_THERE = frozenset(State) - {State.CREATING, State.DESTROYED}
# From where each action goes, and where it is done already.
_FROM: dict[Action, frozenset[State]] = {
    Action.START: _ENDED,
    Action.STOP: frozenset({State.RUNNING, State.PAUSED}),
    Action.RESTART: _THERE,
    Action.PAUSE: frozenset({State.RUNNING}),
    Action.RESUME: frozenset({State.PAUSED}),
    Action.RECREATE: _THERE,
    Action.SNAPSHOT: _THERE,
    Action.DESTROY: frozenset(State) - {State.DESTROYED},
    Action.USE: frozenset({State.RUNNING}),
}
_DONE: dict[Action, frozenset[State]] = {
    Action.START: frozenset({State.RUNNING}),
    Action.STOP: _ENDED,
    Action.PAUSE: frozenset({State.PAUSED}),
    Action.RESUME: frozenset({State.RUNNING}),
    Action.DESTROY: frozenset({State.DESTROYED}),
}
_INSTEAD = {
    State.CREATING: "wait until it runs",
    State.PAUSED: "resume it first",
    State.STOPPED: "start it first",
    State.FAILED: "see its logs, then start or recreate it",
    State.LOST: "start it first",
    State.DESTROYED: "create another",
}
# What may follow what.
FLOW: dict[State, frozenset[State]] = {
    State.CREATING: frozenset({State.RUNNING, State.STOPPED, State.FAILED, State.LOST, State.DESTROYED}),
    State.RUNNING: frozenset(
        {State.PAUSED, State.STOPPED, State.FAILED, State.LOST, State.CREATING, State.DESTROYED}
    ),
    State.PAUSED: frozenset({State.RUNNING, State.STOPPED, State.FAILED, State.LOST, State.CREATING, State.DESTROYED}),
    State.STOPPED: frozenset({State.RUNNING, State.FAILED, State.CREATING, State.DESTROYED}),
    State.FAILED: frozenset({State.RUNNING, State.FAILED, State.STOPPED, State.CREATING, State.DESTROYED}),
    State.LOST: frozenset({State.RUNNING, State.STOPPED, State.FAILED, State.CREATING, State.DESTROYED}),
    State.DESTROYED: frozenset(),
}  # fmt: skip


def is_needed(action: Action, sandbox: Sandbox) -> bool:
    """Whether there is something to do; a `Conflict` where it cannot be done."""
    if sandbox.state in _FROM[action]:
        return True
    if sandbox.state in _DONE.get(action, ()):
        return False
    raise Conflict(
        f"sandbox {sandbox.name!r} is {sandbox.state}: to {action} it, {_INSTEAD[sandbox.state]}",
        code=f"sandbox_{sandbox.state}", project=sandbox.project, agent=sandbox.agent, subject=sandbox.id,
        state=sandbox.state,
    )  # fmt: skip


CRASHES = 5
CRASH_WINDOW = 10 * MINUTE
SHORT_LIFE = MINUTE


def crashes_with(before: Sequence[int], now: int, lived: int | None) -> tuple[int, ...]:
    """The crashes that count, with one more after a life of `lived` (None: nobody knows how long)."""
    recent = [at for at in before if now - at < CRASH_WINDOW]
    return tuple([*recent, now] if lived is None or lived < SHORT_LIFE else recent)


def is_crash_loop(crashes: Sequence[int]) -> bool:
    return len(crashes) >= CRASHES


def crash_delay(crashes: Sequence[int]) -> float:
    """Seconds until it is started again: at once after the first crash, then longer each time."""
    return 0.1 * 2 ** (len(crashes) - 2) if len(crashes) > 1 else 0.0


def check_sandbox_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"sandbox name {name[:80]!r} is not possible: use 1 to 63 of a-z 0-9 -, not - at an end",
            code="invalid_name",
        )
    return name


IMAGE = r"^[a-z0-9][a-z0-9._-]{0,63}(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,63})?$"
_IMAGE = re.compile(IMAGE)
OWN_IMAGE = "host"  # this machine's own programs: every runtime has it


def check_image_name(name: str) -> str:
    if not _IMAGE.fullmatch(name) or name == OWN_IMAGE:
        raise Invalid(
            f"an image cannot be called {name[:80]!r}: use a-z 0-9 . _ -, and after a colon a tag, as `debian:12`",
            code="invalid_name",
        )
    return name


def image_env(config: ImageConfig) -> dict[str, str]:
    return {name: value for name, equals, value in (each.partition("=") for each in config.env) if name and equals}


def with_defaults(asked: Limits, defaults: Limits, *, best_effort: bool) -> Limits:
    """What was asked for, strict unless `best_effort`, and the defaults for the rest."""
    given = {name: value for name in LIMITS if (value := getattr(asked, name)) is not None}
    rest = {name: getattr(defaults, name) for name in LIMITS if name not in given}
    return Limits(**given, **rest, requested=frozenset() if best_effort else frozenset(given))


LIMITS = ("memory", "cpus", "pids", "disk")


def unenforceable(limits: Limits, can: Mapping[str, str], *, memory_disk: bool) -> str | None:
    """The first limit that is strict here and cannot be held up."""
    possible: Collection[str] = {*can, "disk"} if memory_disk else can
    return next((name for name in LIMITS if name in limits.requested and name not in possible), None)
