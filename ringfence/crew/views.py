"""What agents look like over HTTP: the shapes of bodies and answers."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from ringfence.crew.model import (
    SHOWN,
    TAG_LENGTH,
    TAGS,
    Agent,
    Checkpoint,
    Mode,
    Pulse,
    Revocation,
    Status,
    is_line,
)
from ringfence.kernel.auth.model import SCOPES
from ringfence.kernel.clock import iso, iso_or_none
from ringfence.kernel.http.endpoint import Fields


def _line(text: str) -> str:
    if not is_line(text):
        raise ValueError("control, invisible and direction characters are not possible")
    return text


# What the service checks, with sentences of its own, the document shows as well.
_TAG = {"maxLength": TAG_LENGTH, "pattern": f"^{SHOWN}*$"}
_UNSPLIT = SHOWN.replace("[^", "[^,") + f"{{0,{TAG_LENGTH}}}"
_TAG_LIST = {"pattern": rf"^{_UNSPLIT}(,{_UNSPLIT}){{0,{TAGS - 1}}}$"}

Name = Annotated[str, Field(json_schema_extra={"pattern": r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"})]
Line = Annotated[str, Field(max_length=64, json_schema_extra={"pattern": f"^{SHOWN}*$"}), AfterValidator(_line)]
Text = Annotated[str, Field(max_length=2000)]
Tag = Annotated[str, Field(json_schema_extra=_TAG)]
Tags = (
    Annotated[list[Tag], Field(max_length=TAGS)] | Annotated[str, Field(max_length=8000, json_schema_extra=_TAG_LIST)]
)
ModeName = Annotated[str, Field(json_schema_extra={"enum": list(Mode)})]
Scope = Annotated[str, Field(json_schema_extra={"enum": sorted(SCOPES)})]
Metadata = Annotated[dict[str, Any], Field(description="At most 16 KiB.")]


class RegisterBody(Fields):
    name: Name
    type: Line | None = None
    metadata: Metadata | None = None
    autonomy_mode: ModeName | None = None
    capabilities: Tags | None = Field(None, description="A list, or a string with commas.")
    scopes: Annotated[list[Scope], Field(max_length=10)] = Field([])


class CapabilitiesBody(Fields):
    tags: Tags = Field([])
    description: Text = ""


class AutonomyBody(Fields):
    mode: ModeName | None = Field(
        None, description="fully_autonomous when not given, or the present mode when only a ceiling is."
    )
    ceiling: ModeName | None = Field(
        None, description="How far the agent may set its own mode; as the mode, when an operator does not say."
    )


class AllAutonomyBody(Fields):
    mode: ModeName
    ceiling: ModeName | None = None
    agent_type: Line | None = Field(None, description="Only agents of this type.")


class PauseBody(Fields):
    reason: Text = ""
    freeze: bool = Field(True, description="false: only new work stops; what was begun goes on.")


class PauseAllBody(PauseBody):
    agent_type: Line | None = None


class ResumeAllBody(Fields):
    reason: Text = ""
    agent_type: Line | None = None


class RevokeBody(Fields):
    reason: Text = ""
    flush_required: bool = True


class AckBody(Fields):
    revocation_id: Annotated[str, Field(max_length=64)] = ""


class CheckpointBody(Fields):
    task_id: Annotated[str, Field(max_length=64)] | None = None
    state: Annotated[str, Field(max_length=16 * 1024)] = ""
    rationale: Annotated[str, Field(max_length=16 * 1024)] = ""
    metadata: Metadata = Field({})


class PageQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(pattern=r"^[A-Za-z0-9._@~-]{0,64}$")] | None = None


class AgentsQuery(PageQuery):
    status: Status | None = None
    type: Annotated[str, Field(max_length=64)] | None = None
    capability: Annotated[str, Field(max_length=64)] | None = None


class NumberedQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(pattern=r"^\d{1,18}$")] | None = None


class MatchQuery(Fields):
    tag: Annotated[str, Field(max_length=64, json_schema_extra={"pattern": r"\S"})]


class HistoryQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] = 50


class Done(TypedDict):
    status: str


class AgentView(TypedDict):
    name: str
    type: str
    status: Status
    registered_at: str
    last_heartbeat: str
    last_seen: str
    autonomy_mode: Mode
    autonomy_ceiling: Mode
    capabilities: list[str]
    description: str
    current_task_id: str | None
    checkpoint_sequence: int
    checkpoint_tick: int
    missed_checkpoints: int
    paused_at: str | None
    pause_reason: str
    frozen: bool
    revocation_id: str | None
    stalled_at: str | None
    stale_at: str | None
    offline_at: str | None


class AgentDetail(AgentView):
    metadata: dict[str, Any]


class Registered(TypedDict):
    id: str
    type: str
    registered_at: str
    autonomy_mode: Mode
    autonomy_ceiling: Mode
    capabilities: list[str]
    status: Status
    token: str | None


class RevocationView(TypedDict):
    id: str
    agent: str
    reason: str
    flush_required: bool
    issued_at: str
    issued_by: str
    acknowledged: bool
    acknowledged_at: str | None
    superseded: bool


class Directive(TypedDict):
    revocation_id: str
    reason: str
    flush_required: bool
    issued_at: str


class PulseView(TypedDict):
    status: str
    checkpoint_tick: int
    checkpoint_due: bool
    paused: bool
    revocation: Directive | None


class Profile(TypedDict):
    agent: str
    tags: list[str]
    description: str


class Tagged(TypedDict):
    name: str
    tags: list[str]


class Matched(TypedDict):
    tag: str
    agents: list[str]


class CheckpointView(TypedDict):
    id: str
    agent_name: str
    task_id: str | None
    state: str
    rationale: str
    metadata: dict[str, Any]
    sequence: int
    timestamp: str


def agent_view(agent: Agent) -> AgentView:
    return {
        "name": agent.name,
        "type": agent.type,
        "status": agent.status,
        "registered_at": iso(agent.registered_at),
        "last_heartbeat": iso(agent.last_heartbeat),
        "last_seen": iso(agent.last_seen),
        "autonomy_mode": agent.mode,
        "autonomy_ceiling": agent.ceiling,
        "capabilities": list(agent.tags),
        "description": agent.description,
        "current_task_id": agent.current_task_id,
        "checkpoint_sequence": agent.checkpoint_sequence,
        "checkpoint_tick": agent.tick,
        "missed_checkpoints": agent.missed,
        "paused_at": iso_or_none(agent.paused_at),
        "pause_reason": agent.pause_reason,
        "frozen": agent.frozen,
        "revocation_id": agent.revocation,
        "stalled_at": iso_or_none(agent.stalled_at),
        "stale_at": iso_or_none(agent.stale_at),
        "offline_at": iso_or_none(agent.offline_at),
    }


def agent_detail(agent: Agent) -> AgentDetail:
    return {**agent_view(agent), "metadata": agent.metadata}


def registered(agent: Agent, token: str | None) -> Registered:
    return {
        "id": agent.name,
        "type": agent.type,
        "registered_at": iso(agent.registered_at),
        "autonomy_mode": agent.mode,
        "autonomy_ceiling": agent.ceiling,
        "capabilities": list(agent.tags),
        "status": agent.status,
        "token": token,
    }


def pulse_view(pulse: Pulse) -> PulseView:
    return {
        "status": "ok",
        "checkpoint_tick": pulse.tick,
        "checkpoint_due": pulse.checkpoint_due,
        "paused": pulse.paused,
        "revocation": None if pulse.revocation is None else directive(pulse.revocation),
    }


def directive(revocation: Revocation) -> Directive:
    return {
        "revocation_id": revocation.id,
        "reason": revocation.reason,
        "flush_required": revocation.flush_required,
        "issued_at": iso(revocation.issued_at),
    }


def profile(agent: Agent) -> Profile:
    return {"agent": agent.name, "tags": list(agent.capabilities), "description": agent.description}


def revocation_view(revocation: Revocation) -> RevocationView:
    return {
        "id": revocation.id,
        "agent": revocation.agent,
        "reason": revocation.reason,
        "flush_required": revocation.flush_required,
        "issued_at": iso(revocation.issued_at),
        "issued_by": revocation.issued_by,
        "acknowledged": revocation.acknowledged_at is not None,
        "acknowledged_at": iso_or_none(revocation.acknowledged_at),
        "superseded": revocation.superseded_at is not None,
    }


def checkpoint_view(checkpoint: Checkpoint) -> CheckpointView:
    return {
        "id": checkpoint.id,
        "agent_name": checkpoint.agent,
        "task_id": checkpoint.task_id,
        "state": checkpoint.state,
        "rationale": checkpoint.rationale,
        "metadata": checkpoint.metadata,
        "sequence": checkpoint.sequence,
        "timestamp": iso(checkpoint.submitted_at),
    }
