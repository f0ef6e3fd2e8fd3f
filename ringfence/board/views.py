"""What the board answers, and what it takes: the shapes of its JSON."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ringfence.board.files import File
from ringfence.board.metrics import AgentSummary, Completion, Load, Period
from ringfence.board.model import Card, Priority, Project, Status, Task, Waiting, allowed
from ringfence.board.projects import Limits
from ringfence.kernel.clock import iso, iso_or_none
from ringfence.kernel.http.endpoint import Fields

Name = Annotated[str, Field(max_length=64)]
Title = Annotated[str, Field(min_length=1, max_length=500)]
Description = Annotated[str, Field(max_length=200_000)]
Tags = Annotated[list[Annotated[str, Field(max_length=80)]], Field(max_length=100)]
Ids = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=100)]
Visibility = Literal["open", "members"]
StatusName = Annotated[str, Field(max_length=40, description="backlog, ready, in_progress, in_review, blocked or done")]
PriorityName = Annotated[str, Field(max_length=10, description="P0 (critical), P1, P2 or P3 (low)")]
Note = Annotated[str, Field(max_length=4000)]
Limit = Annotated[int, Field(ge=1, le=1000)]
Cursor = Annotated[str, Field(max_length=200)]

# Bodies and queries ---------------------------------------------------------------------------------------------------


class NewProject(Fields):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    creator: Annotated[str, Field(min_length=1, max_length=64)]
    visibility: Visibility = "open"


class NewOwnProject(Fields):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    creator: Name | None = None
    visibility: Visibility = "open"


class ProjectChange(Fields):
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    visibility: Visibility | None = None


class ForAgent(Fields):
    agent: Annotated[str, Field(min_length=1, max_length=64)]


class ForAnybody(Fields):
    agent: Name | None = None


class LimitBody(Fields):
    status: StatusName
    limit: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(description="null lifts the limit")
    agent: Name | None = Field(None, description="Only this agent's tasks.")
    scope: Literal["agent", "column"] = Field("agent", description="column: the tasks of all agents together.")


class NewTask(Fields):
    title: Title
    description: Description = ""
    assigned_to: Name | None = None
    priority: PriorityName = "P2"
    required_capabilities: Tags = []
    required_reviewers: Annotated[int, Field(ge=0, le=100)] = 1
    created_by: Name | None = None
    parent_task_id: Name | None = None
    labels: Tags = []
    depends_on: Ids = []
    status: StatusName = "backlog"


class TaskChange(Fields):
    """`status` moves the task; the other fields of a task edit it."""

    status: StatusName | None = None
    agent: Name | None = None
    blocked_reason: Note | None = None
    blocked_by: Name | None = None
    note: Note = ""
    title: Title | None = None
    description: Description | None = None
    priority: PriorityName | None = None
    required_capabilities: Tags | None = None
    required_reviewers: Annotated[int, Field(ge=0, le=100)] | None = None
    labels: Tags | None = None
    parent_task_id: Name | None = Field(None, description="An empty text: no parent.")


class AssignBody(Fields):
    agent: Annotated[str, Field(min_length=1, max_length=64)]
    assigned_by: Name | None = None


class DependBody(Fields):
    depends_on: Name


class CommentBody(Fields):
    body: Annotated[str, Field(min_length=1, max_length=100_000)]


class ClaimNextBody(Fields):
    agent: Name | None = None
    capabilities: Tags = []


class ProjectQuery(Fields):
    agent: Name | None = Field(None, description="Only projects it is a member of.")
    limit: Limit | None = None
    cursor: Cursor | None = None


class TaskQuery(Fields):
    status: StatusName | None = None
    agent: Name | None = Field(None, description="Assigned to it, or claimed by it.")
    assigned_to: Name | None = None
    label: Annotated[str, Field(max_length=80)] | None = None
    priority: PriorityName | None = None
    q: Annotated[str, Field(max_length=200, description="Text in the title or description, or an id.")] | None = None
    parent: Name | None = None
    include_blocked: bool = True
    limit: Limit | None = None
    cursor: Cursor | None = None


class AllTasksQuery(TaskQuery):
    project_id: Name | None = None


class ReadyQuery(Fields):
    agent: Name | None = None
    capabilities: list[Annotated[str, Field(max_length=80)]] = []
    limit: Limit = 1000


class PageQuery(Fields):
    limit: Limit | None = None
    cursor: Cursor | None = None


class BoardQuery(Fields):
    lanes: Literal["none", "agent", "priority", "label"] = "none"


class CardsQuery(Fields):
    id: Annotated[
        list[Annotated[str, Field(max_length=64)]], Field(max_length=200, description="Only these tasks.")
    ] = []


class MetricsQuery(Fields):
    days: Annotated[int, Field(ge=1, le=366, description="Whole days of UTC, today's included.")] = 30
    agent: Name | None = Field(None, description="Only what it completed and had in work; the columns are of all.")


# Answers --------------------------------------------------------------------------------------------------------------


class Ok(TypedDict):
    status: str


class CreatedProject(TypedDict):
    id: str
    name: str
    created_at: str
    creator: str
    visibility: str


class ProjectItem(TypedDict):
    id: str
    name: str
    members: list[str]
    created_at: str
    creator: str
    visibility: str


class FileFacts(TypedDict):
    checksum: str
    size: int
    updated_at: str
    uploader: str


class FileView(FileFacts):
    filename: str


class ProjectView(ProjectItem):
    files: dict[str, FileFacts]
    wip_limits: dict[str, int]
    wip_limits_by_agent: dict[str, dict[str, int]]
    wip_limits_of_columns: dict[str, int]


class LimitsView(TypedDict):
    agent: dict[str, int]
    agents: dict[str, dict[str, int]]
    columns: dict[str, int]


MoveView = TypedDict("MoveView", {"from": str, "to": str, "at": str, "by": str})
HistoryView = TypedDict("HistoryView", {"id": str, "from": str | None, "to": str, "at": str, "by": str, "note": str})


class ReadyItem(TypedDict):
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


class TaskView(TaskItem):
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
    transitions: list[MoveView]
    waiting_for: list[str]


class Claimed(TypedDict):
    ok: bool
    task_id: str


class ClaimedNext(TypedDict):
    task: TaskView | None


class Dependencies(TypedDict):
    depends_on: list[TaskItem]
    needed_by: list[TaskItem]


class CommentView(TypedDict):
    id: str
    author: str
    body: str
    created_at: str


class Uploaded(TypedDict):
    filename: str
    checksum: str
    size: int


class Lane(TypedDict):
    lane: str | None
    columns: dict[str, list[TaskView]]


class BoardView(TypedDict):
    project: ProjectItem
    wip_limits: LimitsView
    lanes: list[Lane]


class CardView(TypedDict):
    id: str
    title: str
    status: str
    priority: str
    assigned_to: str | None
    claimed_by: str | None
    required_capabilities: list[str]
    required_reviewers: int
    reviewers: list[str]
    labels: list[str]
    parent_task_id: str | None
    blocked_reason: str | None
    created_at: str
    updated_at: str
    started_at: str | None
    completed_at: str | None
    waiting_for: list[str]
    subtasks: int
    comments: int


class CardsView(TypedDict):
    project: ProjectItem
    wip_limits: LimitsView
    moves: dict[str, list[str]]
    cards: list[CardView]


class AgentCycles(TypedDict):
    agent: str | None
    completed: int
    reworked: int
    avg_cycle_time_minutes: float
    median_cycle_time_minutes: float
    daily: list[int]


class CompletionView(TypedDict):
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
    in_progress: Annotated[int, Field(description="The most at one time that day; what is claimed, once begun.")]
    in_progress_limit: Annotated[int | None, Field(description="At the end of the day: the column's, or the agent's.")]
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


class MetricsView(TypedDict):
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
    latest: Annotated[list[CompletionView], Field(description="The newest completions, oldest first.")]
    agents: list[AgentCycles]
    throughput: list[ThroughputDay]
    flow: list[FlowDay]
    wip: Annotated[list[WipDay], Field(description="What was in work, day by day.")]
    loads: Annotated[list[AgentLoad], Field(description="Who had work: now, and at most at one time.")]


def project_item(project: Project, members: list[str]) -> ProjectItem:
    return {
        "id": project.id,
        "name": project.name,
        "members": members,
        "created_at": iso(project.created_at),
        "creator": project.creator,
        "visibility": project.visibility,
    }


def limits_view(limits: Limits) -> LimitsView:
    return {"agent": limits.each, "agents": limits.agents, "columns": limits.columns}


def file_facts(file: File) -> FileFacts:
    return {
        "checksum": file.checksum,
        "size": file.size,
        "updated_at": iso(file.updated_at),
        "uploader": file.uploader,
    }


def file_view(file: File) -> FileView:
    return {"filename": file.filename, **file_facts(file)}


def ready_item(task: Waiting) -> ReadyItem:
    return {
        "id": task.id,
        "title": task.title,
        "priority": task.priority.name,
        "required_capabilities": list(task.required_capabilities),
    }


def card_view(card: Card, waiting_for: list[str], subtasks: int, comments: int) -> CardView:
    return {
        "id": card.id,
        "title": card.title,
        "status": card.status.value,
        "priority": card.priority.name,
        "assigned_to": card.assigned_to,
        "claimed_by": card.claimed_by,
        "required_capabilities": list(card.required_capabilities),
        "required_reviewers": card.required_reviewers,
        "reviewers": list(card.reviewers),
        "labels": list(card.labels),
        "parent_task_id": card.parent_task_id,
        "blocked_reason": card.blocked_reason,
        "created_at": iso(card.created_at),
        "updated_at": iso(card.updated_at),
        "started_at": iso_or_none(card.started_at),
        "completed_at": iso_or_none(card.completed_at),
        "waiting_for": waiting_for,
        "subtasks": subtasks,
        "comments": comments,
    }


def moves() -> dict[str, list[str]]:
    """Where a task may go from each column; `held`: from ready, for what is claimed."""
    table = {status.value: [str(to) for to in allowed(status, held=False)] for status in Status}
    return {**table, "held": [str(to) for to in allowed(Status.READY, held=True)]}


def completion_view(done: Completion) -> CompletionView:
    return {
        "task_id": done.task,
        "title": done.title,
        "agent": done.agent,
        "completed_at": iso(done.completed_at),
        "cycle_minutes": None if done.minutes is None else round(done.minutes, 2),
        "reworked": done.reworked > 0,
    }


def agent_cycles(summary: AgentSummary) -> AgentCycles:
    return {
        "agent": summary.agent,
        "completed": summary.completed,
        "reworked": summary.reworked,
        "avg_cycle_time_minutes": summary.average_minutes,
        "median_cycle_time_minutes": summary.median_minutes,
        "daily": summary.daily,
    }


def flow_day(day: str, standing: dict[Status, int]) -> FlowDay:
    return {
        "day": day,
        "backlog": standing[Status.BACKLOG],
        "ready": standing[Status.READY],
        "in_progress": standing[Status.IN_PROGRESS],
        "in_review": standing[Status.IN_REVIEW],
        "blocked": standing[Status.BLOCKED],
        "done": standing[Status.DONE],
    }


def wip_days(load: Load, period: Period) -> list[WipDay]:
    progress, review = Status.IN_PROGRESS, Status.IN_REVIEW
    return [
        {
            "day": day,
            "in_progress": load.most[progress][at],
            "in_progress_limit": load.limits[progress][at],
            "in_review": load.most[review][at],
            "in_review_limit": load.limits[review][at],
        }
        for at, day in enumerate(period.names)
    ]


def agent_load(load: Load) -> AgentLoad:
    progress, review = Status.IN_PROGRESS, Status.IN_REVIEW
    assert load.agent is not None
    return {
        "agent": load.agent,
        "in_progress": load.now[progress],
        "in_progress_most": max(load.most[progress]),
        "in_progress_limit": load.limits[progress][-1],
        "in_review": load.now[review],
        "in_review_most": max(load.most[review]),
        "in_review_limit": load.limits[review][-1],
    }


def task_item(task: Task) -> TaskItem:
    return {
        "id": task.id,
        "project_id": task.project_id,
        "title": task.title,
        "status": task.status.value,
        "priority": task.priority.name,
        "assigned_to": task.assigned_to,
    }


def task_view(task: Task, subtasks: list[str], waiting_for: list[str]) -> TaskView:
    return {
        "id": task.id,
        "project_id": task.project_id,
        "title": task.title,
        "description": task.description,
        "status": task.status.value,
        "priority": Priority(task.priority).name,
        "assigned_to": task.assigned_to,
        "claimed_by": task.claimed_by,
        "required_capabilities": list(task.required_capabilities),
        "blocked_reason": task.blocked_reason,
        "blocked_by": task.blocked_by,
        "subtasks": subtasks,
        "parent_task_id": task.parent_task_id,
        "labels": list(task.labels),
        "created_by": task.created_by,
        "created_at": iso(task.created_at),
        "updated_at": iso(task.updated_at),
        "started_at": iso_or_none(task.started_at),
        "review_started_at": iso_or_none(task.review_started_at),
        "completed_at": iso_or_none(task.completed_at),
        "reviewers": list(task.reviewers),
        "required_reviewers": task.required_reviewers,
        "transitions": list(task.recent),  # type: ignore[arg-type]
        "waiting_for": waiting_for,
    }
