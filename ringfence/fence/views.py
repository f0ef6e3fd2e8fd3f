"""What sandboxes look like over HTTP: the shapes of bodies and answers."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from ringfence.fence.model import (
    IMAGE,
    LABELS,
    NAME,
    ImportedImage,
    OnCrash,
    Sandbox,
    Snapshot,
    State,
    Stats,
    User,
    Wanted,
)
from ringfence.fence.model import Limits as LimitFacts
from ringfence.fence.service import Wish
from ringfence.kernel.clock import iso, iso_or_none
from ringfence.kernel.events.model import Event
from ringfence.kernel.http.endpoint import Fields
from ringfence.kernel.sizes import SIZE, in_bytes

LEAST_MEMORY = 4 << 20
YEARS = 10 * 365 * 86400


def _memory(given: int | str) -> int:
    size = in_bytes(given)
    if size < LEAST_MEMORY:
        raise ValueError(f"{given!r} is too little for anything to run: give at least {LEAST_MEMORY >> 20}M")
    return size


_SizeGiven = Annotated[int, Field(ge=1, le=1 << 50)] | Annotated[str, Field(pattern=SIZE, max_length=16)]
Memory = Annotated[_SizeGiven, AfterValidator(_memory)]
Disk = Annotated[_SizeGiven, AfterValidator(in_bytes)]
Name = Annotated[str, Field(json_schema_extra={"pattern": NAME})]
Seconds = Annotated[float, Field(ge=0, le=YEARS)]
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
LabelValue = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Labels = Annotated[dict[LabelName, LabelValue], Field(max_length=LABELS)]
Variable = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^=\x00]+$")]
Env = Annotated[dict[Variable, Annotated[str, Field(max_length=65_536)]], Field(max_length=1000)]


class NewSandbox(Fields):
    name: Name | None = Field(None, description="Made up when missing; unique among those that live.")
    labels: Labels = Field({})
    project: Annotated[str, Field(max_length=64)] | None = None
    agent: Annotated[str, Field(max_length=64)] | None = Field(None, description="Whose it is: it may use it.")
    image: Annotated[str, Field(max_length=200)] | None = None
    snapshot: Annotated[str, Field(max_length=64)] | None = Field(None, description="Begin with the files of this one.")
    user: User | None = None
    read_only: bool = Field(False, description="The root; /tmp, /home/agent and /workspace stay writable.")
    memory_disk: bool = Field(False, description="What is written lives in memory, sized by `disk`.")
    memory: Memory | None = Field(None, description="Bytes, or as 512M.")
    cpus: Annotated[float, Field(ge=0.01, le=4096)] | None = None
    pids: Annotated[int, Field(ge=1, le=4_194_304)] | None = None
    disk: Disk | None = Field(None, description="Bytes that may be written, or as 2G.")
    best_effort: bool = Field(False, description="Take limits that this host cannot hold up.")
    env: Env = Field({})
    on_crash: OnCrash = OnCrash.RESTART
    ttl: Seconds | None = Field(None, description="Seconds until it is destroyed; 0: never.")
    idle_timeout: Seconds | None = Field(None, description="Seconds with nothing running until it stops; 0: never.")
    wait: bool = Field(True, description="false: answer 202 at once, before it runs.")

    def wish(self) -> Wish:
        limits = LimitFacts(memory=self.memory, cpus=self.cpus, pids=self.pids, disk=self.disk)  # type: ignore[arg-type]
        return Wish(
            name=self.name, labels=self.labels, project=self.project, agent=self.agent, image=self.image,
            snapshot=self.snapshot, user=self.user, read_only=self.read_only, memory_disk=self.memory_disk,
            limits=limits, best_effort=self.best_effort, env=self.env, on_crash=self.on_crash, ttl=self.ttl,
            idle_timeout=self.idle_timeout,
        )  # fmt: skip


class SandboxChange(Fields):
    name: Name | None = Field(None, description="Its host name follows when it is recreated.")
    labels: Labels | None = None
    ttl: Seconds | None = Field(None, description="Seconds from now until it is destroyed; 0: never.")
    idle_timeout: Seconds | None = Field(None, description="0: never.")


class StopBody(Fields):
    grace: Annotated[float, Field(ge=0, le=600)] | None = Field(
        None, description="Seconds programs have to end after SIGTERM; 0: none."
    )


class SnapshotBody(Fields):
    name: Name | None = None


class NewImageQuery(Fields):
    name: Annotated[str, Field(json_schema_extra={"pattern": IMAGE})] = Field(description="As `tools` or `debian:12`.")
    path: Annotated[str, Field(max_length=4096)] | None = Field(
        None, description="For admins: a file or folder of the server's host, instead of a body."
    )


class ImagesQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(max_length=200)] | None = None


class SandboxesQuery(Fields):
    state: State | None = None
    project: Annotated[str, Field(max_length=64)] | None = None
    agent: Annotated[str, Field(max_length=64)] | None = None
    owner: Annotated[str, Field(max_length=80)] | None = Field(None, description="As `operator:ann`.")
    label: list[Annotated[str, Field(max_length=264)]] | None = Field(None, description="`name`, or `name=value`.")
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(pattern=r"^[a-z0-9_]{0,64}$")] | None = None

    def filters(self) -> dict[str, str]:
        names = ("state", "project", "agent", "owner")
        return {name: str(getattr(self, name) or "") for name in names}

    def labels(self) -> list[tuple[str, str | None]]:
        parted = [each.partition("=") for each in self.label or ()]
        return [(name, value if equals else None) for name, equals, value in parted]


class PageQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(pattern=r"^[a-z0-9_]{0,64}$")] | None = None


class LogsQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class Limits(TypedDict):
    memory: int | None
    cpus: float | None
    pids: int | None
    disk: int | None


class SandboxView(TypedDict):
    id: str
    name: str
    state: State
    wanted: Wanted
    labels: dict[str, str]
    owner: str
    project: str | None
    agent: str | None
    node: str
    runtime: str
    image: str
    snapshot: str | None
    user: User
    read_only: bool
    memory_disk: bool
    limits: Limits
    requested: list[str]
    best_effort: bool
    enforced: dict[str, str]
    env: dict[str, str]
    workdir: str
    on_crash: OnCrash
    ttl: float | None
    expires_at: str | None
    idle_timeout: float | None
    cause: str | None
    error: str
    restarts: int
    created_at: str
    started_at: str | None
    ended_at: str | None
    active_at: str
    destroyed_at: str | None


class StatsView(TypedDict):
    state: State
    cpu_us: int | None
    memory: int | None
    memory_peak: int | None
    memory_kills: int | None
    pids: int | None
    disk: int | None
    read_bytes: int | None
    written_bytes: int | None


class LifeEvent(TypedDict):
    seq: int
    time: str
    kind: str
    actor: str
    data: dict[str, Any]


class LogsView(TypedDict):
    events: list[LifeEvent]
    said: str


class SnapshotView(TypedDict):
    id: str
    name: str
    sandbox: str
    image: str
    user: User
    owner: str
    project: str | None
    size: int
    created_at: str


class ImageConfigView(TypedDict):
    env: list[str]
    workdir: str
    user: str
    entrypoint: list[str]
    cmd: list[str]


class ImageView(TypedDict):
    name: str
    digest: str
    layers: list[str]
    config: ImageConfigView
    size: int
    format: str
    owner: str
    node: str
    created_at: str


class PrunedView(TypedDict):
    removed: list[ImageView]


def sandbox_view(sandbox: Sandbox) -> SandboxView:
    limits = sandbox.limits
    return {
        "id": sandbox.id,
        "name": sandbox.name,
        "state": sandbox.state,
        "wanted": sandbox.wanted,
        "labels": sandbox.labels,
        "owner": sandbox.owner,
        "project": sandbox.project,
        "agent": sandbox.agent,
        "node": sandbox.node,
        "runtime": sandbox.runtime,
        "image": sandbox.image,
        "snapshot": sandbox.snapshot,
        "user": sandbox.user,
        "read_only": sandbox.read_only,
        "memory_disk": sandbox.memory_disk,
        "limits": {"memory": limits.memory, "cpus": limits.cpus, "pids": limits.pids, "disk": limits.disk},
        "requested": sorted(limits.requested),
        "best_effort": sandbox.best_effort,
        "enforced": sandbox.enforced.how,
        "env": sandbox.env,
        "workdir": sandbox.workdir or "/workspace",
        "on_crash": sandbox.on_crash,
        "ttl": sandbox.ttl,
        "expires_at": iso_or_none(sandbox.expires_at),
        "idle_timeout": sandbox.idle_timeout,
        "cause": sandbox.cause,
        "error": sandbox.error,
        "restarts": sandbox.restarts,
        "created_at": iso(sandbox.created_at),
        "started_at": iso_or_none(sandbox.started_at),
        "ended_at": iso_or_none(sandbox.ended_at),
        "active_at": iso(sandbox.active_at),
        "destroyed_at": iso_or_none(sandbox.destroyed_at),
    }


def stats_view(sandbox: Sandbox, stats: Stats) -> StatsView:
    return {
        "state": sandbox.state,
        "cpu_us": stats.cpu_us,
        "memory": stats.memory,
        "memory_peak": stats.memory_peak,
        "memory_kills": stats.memory_kills,
        "pids": stats.pids,
        "disk": stats.disk,
        "read_bytes": stats.read_bytes,
        "written_bytes": stats.written_bytes,
    }


def life_event(event: Event) -> LifeEvent:
    data = {name: value for name, value in event.payload.items() if name not in ("time", "seq", "actor")}
    return {"seq": event.seq, "time": iso(event.time), "kind": event.kind, "actor": event.actor, "data": data}


def snapshot_view(snapshot: Snapshot) -> SnapshotView:
    return {
        "id": snapshot.id,
        "name": snapshot.name,
        "sandbox": snapshot.sandbox,
        "image": snapshot.image,
        "user": snapshot.user,
        "owner": snapshot.owner,
        "project": snapshot.project,
        "size": snapshot.size,
        "created_at": iso(snapshot.created_at),
    }


def image_view(imported: ImportedImage) -> ImageView:
    it = imported.image
    return {
        "name": it.name,
        "digest": it.digest,
        "layers": list(it.layers),
        "config": {
            "env": list(it.config.env),
            "workdir": it.config.workdir,
            "user": it.config.user,
            "entrypoint": list(it.config.entrypoint),
            "cmd": list(it.config.cmd),
        },
        "size": it.size,
        "format": it.format,
        "owner": imported.owner,
        "node": imported.node,
        "created_at": iso(imported.created_at),
    }
