"""What the server answers, as types. At run time each is a plain dict, as documented.

A test compares every one of them with the server's own /openapi.json.
"""

from typing import Any, Generic, Literal, TypeVar

from typing_extensions import TypedDict, TypeIs

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    items: list[T]
    next: str | None


class Done(TypedDict):
    status: str


# Agents ---------------------------------------------------------------------------------------------------------------


class Registered(TypedDict):
    id: str
    type: str
    registered_at: str
    autonomy_mode: str
    autonomy_ceiling: str
    capabilities: list[str]
    status: str
    token: str | None


class Agent(TypedDict):
    name: str
    type: str
    status: str
    registered_at: str
    last_heartbeat: str
    last_seen: str
    autonomy_mode: str
    autonomy_ceiling: str
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


class AgentDetail(Agent):
    metadata: dict[str, Any]


class Directive(TypedDict):
    """Halt: an operator revoked this agent."""

    revocation_id: str
    reason: str
    flush_required: bool
    issued_at: str


class Heartbeat(TypedDict):
    """What the server has to say to an agent that lives."""

    status: str
    checkpoint_tick: int
    checkpoint_due: bool
    paused: bool
    revocation: Directive | None


class Pending(TypedDict):
    pending: Literal[True]
    revocation_id: str
    reason: str
    flush_required: bool
    issued_at: str


class NonePending(TypedDict):
    pending: Literal[False]


class Mode(TypedDict):
    name: str
    autonomy_mode: str
    autonomy_ceiling: str


class AllModes(TypedDict):
    mode: str
    ceiling: str
    agent_type: str | None
    updated_agents: list[str]


class TypePolicy(TypedDict):
    agent_type: str
    mode: str
    ceiling: str
    set_at: str
    set_by: str


class Policy(TypedDict):
    mode: str
    ceiling: str
    types: list[TypePolicy]


class Standing(TypedDict):
    name: str
    status: str


class Paused(TypedDict):
    paused: list[str]


class Resumed(TypedDict):
    resumed: list[str]


class Revoked(TypedDict):
    revocation_id: str
    agent: str
    issued_at: str


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


class Submitted(TypedDict):
    id: str
    sequence: int
    timestamp: str


class Checkpoint(TypedDict):
    id: str
    agent_name: str
    task_id: str | None
    state: str
    rationale: str
    metadata: dict[str, Any]
    sequence: int
    timestamp: str


class Revocation(TypedDict):
    id: str
    agent: str
    reason: str
    flush_required: bool
    issued_at: str
    issued_by: str
    acknowledged: bool
    acknowledged_at: str | None
    superseded: bool


# Messages -------------------------------------------------------------------------------------------------------------

Message = TypedDict(
    "Message",
    {
        "id": str, "from": str, "to": str, "content": str, "type": str, "thread": str | None, "reply_to": str | None,
        "timestamp": str, "expires_at": str,
        "delivered": bool | None, "acknowledged": bool | None, "set_aside": bool | None,
    },
)  # fmt: skip
"""A message as its recipient has it; of a broadcast as a whole the last three are None."""


class Delivery(TypedDict):
    recipient: str
    delivered_at: str | None
    acknowledged_at: str | None
    acknowledged_by: str | None
    set_aside_at: str | None


class MessageDetail(Message):
    deliveries: list[Delivery]


class Thread(TypedDict):
    id: str
    messages: int
    started_at: str
    last_at: str
    last_message: str


class Node(TypedDict):
    id: str
    type: str


Edge = TypedDict("Edge", {"from": str, "to": str, "count": int})


class Graph(TypedDict):
    nodes: list[Node]
    edges: list[Edge]


# Proposals ------------------------------------------------------------------------------------------------------------


class Proposal(TypedDict):
    """What an agent in advisory mode wants to do: `pending`, then approved, denied, failed or withdrawn."""

    id: str
    agent: str
    action: str
    project: str | None
    task: str | None
    payload: dict[str, Any]
    why: str
    state: str
    created_at: str
    decided_at: str | None
    decided_by: str | None
    note: str
    result: dict[str, Any] | None


class Proposed(TypedDict):
    """Not done: it waits for a person's approval."""

    ok: Literal[False]
    proposal: Proposal
    message: str


def is_proposed(answer: object) -> TypeIs[Proposed]:
    """Whether this answer says that an operator has to approve first."""
    return isinstance(answer, dict) and answer.get("ok") is False and "proposal" in answer


# Projects and files ---------------------------------------------------------------------------------------------------


class CreatedProject(TypedDict):
    id: str
    name: str
    created_at: str
    creator: str
    visibility: str


class ProjectItem(CreatedProject):
    members: list[str]


class FileFacts(TypedDict):
    checksum: str
    size: int
    updated_at: str
    uploader: str


class File(FileFacts):
    filename: str


class Uploaded(TypedDict):
    filename: str
    checksum: str
    size: int


class Project(ProjectItem):
    files: dict[str, FileFacts]
    wip_limits: dict[str, int]
    wip_limits_by_agent: dict[str, dict[str, int]]
    wip_limits_of_columns: dict[str, int]


class Limits(TypedDict):
    agent: dict[str, int]
    agents: dict[str, dict[str, int]]
    columns: dict[str, int]


# Tasks ----------------------------------------------------------------------------------------------------------------

Move = TypedDict("Move", {"from": str, "to": str, "at": str, "by": str})
HistoryEntry = TypedDict("HistoryEntry", {"id": str, "from": str | None, "to": str, "at": str, "by": str, "note": str})


class ReadyTask(TypedDict):
    id: str
    title: str
    priority: str
    required_capabilities: list[str]


class TaskItem(TypedDict):
    id: str
    project_id: str
    title: str
    status: str
    priority: str
    assigned_to: str | None


class Task(TaskItem):
    description: str
    claimed_by: str | None
    required_capabilities: list[str]
    blocked_reason: str | None
    blocked_by: str | None
    subtasks: list[str]
    parent_task_id: str | None
    labels: list[str]
    created_by: str
    created_at: str
    updated_at: str
    started_at: str | None
    review_started_at: str | None
    completed_at: str | None
    reviewers: list[str]
    required_reviewers: int
    transitions: list[Move]
    waiting_for: list[str]


class Claimed(TypedDict):
    ok: Literal[True]
    task_id: str


class ClaimedNext(TypedDict):
    task: Task | None


class Dependencies(TypedDict):
    depends_on: list[TaskItem]
    needed_by: list[TaskItem]


class Comment(TypedDict):
    id: str
    author: str
    body: str
    created_at: str


class Lane(TypedDict):
    lane: str | None
    columns: dict[str, list[Task]]


class Board(TypedDict):
    project: ProjectItem
    wip_limits: Limits
    lanes: list[Lane]


class AgentCycles(TypedDict):
    agent: str | None
    completed: int
    reworked: int
    avg_cycle_time_minutes: float
    median_cycle_time_minutes: float
    daily: list[int]


class Completion(TypedDict):
    task_id: str
    title: str
    agent: str | None
    completed_at: str
    cycle_minutes: float | None
    reworked: bool


class ThroughputDay(TypedDict):
    day: str
    completed: int


class FlowDay(TypedDict):
    day: str
    backlog: int
    ready: int
    in_progress: int
    in_review: int
    blocked: int
    done: int


class WipDay(TypedDict):
    day: str
    in_progress: int
    in_progress_limit: int | None
    in_review: int
    in_review_limit: int | None


class AgentLoad(TypedDict):
    agent: str
    in_progress: int
    in_progress_most: int
    in_progress_limit: int | None
    in_review: int
    in_review_most: int
    in_review_limit: int | None


class Metrics(TypedDict):
    total_tasks: int
    by_status: dict[str, int]
    avg_cycle_time_minutes: float
    completed_count: int
    agent_throughput: dict[str, int]
    median_cycle_time_minutes: float | None
    p85_cycle_time_minutes: float | None
    p95_cycle_time_minutes: float | None
    cycle_times_minutes: list[float]
    completions: int
    reworked: int
    latest: list[Completion]
    agents: list[AgentCycles]
    throughput: list[ThroughputDay]
    flow: list[FlowDay]
    wip: list[WipDay]
    loads: list[AgentLoad]


# Sandboxes ------------------------------------------------------------------------------------------------------------


class SandboxLimits(TypedDict):
    memory: int | None
    cpus: float | None
    pids: int | None
    disk: int | None


class Sandbox(TypedDict):
    id: str
    name: str
    state: str
    wanted: str
    labels: dict[str, str]
    owner: str
    project: str | None
    agent: str | None
    node: str
    runtime: str
    image: str
    snapshot: str | None
    user: str
    read_only: bool
    memory_disk: bool
    limits: SandboxLimits
    requested: list[str]
    best_effort: bool
    enforced: dict[str, str]
    env: dict[str, str]
    workdir: str
    on_crash: str
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


class SandboxStats(TypedDict):
    state: str
    cpu_us: int | None
    memory: int | None
    memory_peak: int | None
    memory_kills: int | None
    pids: int | None
    disk: int | None
    read_bytes: int | None
    written_bytes: int | None


class SandboxEvent(TypedDict):
    seq: int
    time: str
    kind: str
    actor: str
    data: dict[str, Any]


class SandboxLogs(TypedDict):
    events: list[SandboxEvent]
    said: str


class PostureCheck(TypedDict):
    id: str
    title: str
    tried: str
    found: str
    verdict: str


class Posture(TypedDict):
    """What a check of a sandbox's fence came to: `pass`, `warn` or `fail`."""

    verdict: str
    passed: int
    failed: int
    warned: int
    skipped: int
    seconds: float
    checks: list[PostureCheck]


class ImageConfig(TypedDict):
    env: list[str]
    workdir: str
    user: str
    entrypoint: list[str]
    cmd: list[str]


class Image(TypedDict):
    name: str
    digest: str
    layers: list[str]
    config: ImageConfig
    size: int
    format: str
    owner: str
    node: str
    created_at: str


class Pruned(TypedDict):
    removed: list[Image]


class Exec(TypedDict):
    id: str
    sandbox: str
    project: str | None
    agent: str | None
    actor: str
    argv: list[str]
    cwd: str
    terminal: bool
    detached: bool
    timeout: float | None
    state: str
    cause: str | None
    code: int | None
    signal: int | None
    error: str | None
    started_at: str
    ended_at: str | None
    seconds: float | None
    stdout_bytes: int
    stderr_bytes: int
    stdout_kept: int
    stderr_kept: int
    cpu_seconds: float | None
    memory_kib: int | None


class ExecAnswer(Exec):
    stdout: str
    stderr: str
    stdout_base64: str | None
    stderr_base64: str | None
    truncated: bool


class FileEntry(TypedDict):
    name: str
    name_base64: str | None
    kind: str
    size: int
    mode: str
    uid: int
    gid: int
    modified: str
    target: str | None
    target_base64: str | None


class FileEntries(TypedDict):
    items: list[FileEntry]
    count: int
    cut: bool


class FileWritten(TypedDict):
    path: str
    size: int


class FileMoved(TypedDict):
    path: str
    to: str


class FilesRemoved(TypedDict):
    path: str
    count: int


class DirectoryMade(TypedDict):
    path: str


class ArchiveUnpacked(TypedDict):
    path: str
    count: int
    bytes: int


class FileChange(TypedDict):
    """`event`: created, written, removed, moved, attributes, lost."""

    event: str
    path: str
    path_base64: str | None
    to: str | None
    to_base64: str | None
    directory: bool


class Port(TypedDict):
    port: int
    addresses: list[str]
    reachable: bool


class Ports(TypedDict):
    items: list[Port]


class Snapshot(TypedDict):
    id: str
    name: str
    sandbox: str
    image: str
    user: str
    owner: str
    project: str | None
    size: int
    created_at: str


# Running it -----------------------------------------------------------------------------------------------------------


class HostFinding(TypedDict):
    id: str
    title: str
    level: str
    found: str
    fix: str


class Diagnosis(TypedDict):
    """What a host can hold up: `ok`, `warning` or `missing`."""

    level: str
    seconds: float
    findings: list[HostFinding]


class Me(TypedDict):
    kind: str
    name: str
    role: str | None
    scopes: list[str]
    projects: list[str] | None
    token: str
    csrf: str | None


class Demo(TypedDict):
    present: bool
    living: bool
    project: str | None
    agents: list[str]
    started_at: str | None
    started_by: str | None
    lives_until: str | None


class Person(TypedDict):
    name: str
    role: str
    projects: list[str] | None
    created_at: str
    created_by: str
    disabled: bool


class Invited(Person):
    signin_url: str
    expires_minutes: float


class SigninLink(TypedDict):
    url: str
    expires_minutes: float


class RetentionDays(TypedDict):
    events_days: float
    messages_days: float


class Removed(TypedDict):
    removed: int


class Token(TypedDict):
    id: str
    kind: str
    subject: str
    note: str
    role: str | None
    scopes: list[str]
    projects: list[str] | None
    created_at: str
    created_by: str
    expires_at: str | None
    uses_left: int | None
    last_used_at: str | None
    revoked_at: str | None


class NewToken(Token):
    token: str


class LoggedEvent(TypedDict):
    seq: int
    time: str
    kind: str
    actor: str
    via: str | None
    agent: str | None
    project: str | None
    subject: str | None
    data: dict[str, Any]
    prev: str
    hash: str


class Verdict(TypedDict):
    ok: bool
    checked: int
    first: int
    last: int
    head: str
    problem: str | None
    at: int | None
