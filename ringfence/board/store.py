"""All SQL of the board."""

import json
from enum import Enum
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.board.model import WAITING, Card, Priority, Project, Status, Task, Waiting
from ringfence.kernel.database import Query, Row, Transaction
from ringfence.kernel.tables import metadata

projects = sa.Table(
    "projects",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("creator", sa.Text, nullable=False),
    sa.Column("visibility", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)


def _project_key(**more: object) -> "sa.Column[str]":
    return sa.Column("project_id", sa.Text, sa.ForeignKey("projects.id", ondelete="CASCADE"), nullable=False, **more)  # type: ignore[arg-type]


def _task_key(name: str = "task_id", **more: object) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False, **more)  # type: ignore[arg-type]


members = sa.Table(
    "members",
    metadata,
    _project_key(primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("joined_at", sa.BigInteger, nullable=False),
    sa.Index("members_by_name", "name"),
)

# `agent` is a name; or ANY: each agent; or COLUMN: all tasks of the column together.
ANY, COLUMN = "", "*"

wip_limits = sa.Table(
    "wip_limits",
    metadata,
    _project_key(primary_key=True),
    sa.Column("status", sa.Text, primary_key=True),
    sa.Column("agent", sa.Text, primary_key=True),
    sa.Column("wip_limit", sa.Integer, nullable=False),
)

# Each time a limit was set, or lifted (none): what held when.
limit_changes = sa.Table(
    "limit_changes",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _project_key(),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("wip_limit", sa.Integer),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Index("limit_changes_by_project", "project_id", "at"),
)

tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _project_key(),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("assigned_to", sa.Text),
    sa.Column("claimed_by", sa.Text),
    sa.Column("required_capabilities", sa.Text, nullable=False),
    sa.Column("required_reviewers", sa.Integer, nullable=False),
    sa.Column("reviewers", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("parent_task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="SET NULL")),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("blocked_reason", sa.Text),
    sa.Column("blocked_by", sa.Text),
    sa.Column("blocked_from", sa.Text),
    sa.Column("recent", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("review_started_at", sa.BigInteger),
    sa.Column("completed_at", sa.BigInteger),
    sa.Index("tasks_in_order", "project_id", "status", "priority", "created_at", "id"),
    sa.Index("tasks_by_project", "project_id", "priority", "created_at", "id"),
    sa.Index("tasks_by_assignee", "assigned_to", "project_id", "status"),
    sa.Index("tasks_by_claimant", "claimed_by"),
    sa.Index("tasks_by_parent", "parent_task_id"),
    sa.Index("tasks_by_blocker", "blocked_by"),
)

moves = sa.Table(
    "moves",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _task_key(),
    _project_key(),
    sa.Column("came", sa.Text, nullable=False),
    sa.Column("went", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("agent", sa.Text),  # whose the task was then
    sa.Index("moves_by_task", "task_id", "id"),
    sa.Index("moves_by_project", "project_id", "at"),
)

# One row each time a task is done: a task that was reopened and done again has two.
completions = sa.Table(
    "completions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _task_key(),
    _project_key(),
    sa.Column("agent", sa.Text),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("completed_at", sa.BigInteger, nullable=False),
    sa.Column("reworked", sa.Integer, nullable=False),
    sa.Index("completions_by_project", "project_id", "completed_at"),
)

dependencies = sa.Table(
    "dependencies",
    metadata,
    _task_key(primary_key=True),
    _task_key("depends_on", primary_key=True),
    sa.Index("dependencies_by_predecessor", "depends_on"),
)

comments = sa.Table(
    "comments",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _task_key(),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Index("comments_by_task", "task_id", "id"),
)

# `task_id` is empty for a file of the project itself; then no task's deletion takes it along.
files = sa.Table(
    "files",
    metadata,
    _project_key(primary_key=True),
    sa.Column("task_id", sa.Text, primary_key=True),
    sa.Column("filename", sa.Text, primary_key=True),
    sa.Column("checksum", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("uploader", sa.Text, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Index("files_by_checksum", "checksum"),
)

# Projects -------------------------------------------------------------------------------------------------------------

PROJECT = Query(sa.select(projects).where(projects.c.id == p("id")))
# Changes of one project follow each other, on PostgreSQL across servers too.
LOCKED_PROJECT = Query(sa.select(projects).where(projects.c.id == p("id")).with_for_update())
ALL_PROJECTS = Query(sa.select(projects).where(projects.c.id > p("cursor")).order_by(projects.c.id).limit(p("limit")))
PROJECTS_OF = Query(
    sa.select(projects)
    .join(members, members.c.project_id == projects.c.id)
    .where(members.c.name == p("name"), projects.c.id > p("cursor"))
    .order_by(projects.c.id)
    .limit(p("limit"))
)
ADD_PROJECT = Query(sa.insert(projects))
SET_PROJECT = Query(
    sa.update(projects).where(projects.c.id == p("which")).values(name=p("new_name"), visibility=p("new_visibility"))
)
DELETE_PROJECT = Query(sa.delete(projects).where(projects.c.id == p("id")))

MEMBERS = Query(
    sa.select(members.c.name).where(members.c.project_id == p("project")).order_by(members.c.joined_at, members.c.name)
)
MEMBER = Query(sa.select(members.c.name).where(members.c.project_id == p("project"), members.c.name == p("name")))
ADD_MEMBER = Query(sa.insert(members))
REMOVE_MEMBER = Query(sa.delete(members).where(members.c.project_id == p("project"), members.c.name == p("name")))
READERS = Query(
    sa.select(projects.c.id, projects.c.visibility, members.c.name).outerjoin(
        members, (members.c.project_id == projects.c.id) & (projects.c.visibility == "members")
    )
)

LIMITS = Query(
    sa.select(wip_limits.c.status, wip_limits.c.agent, wip_limits.c.wip_limit)
    .where(wip_limits.c.project_id == p("project"))
    .order_by(wip_limits.c.status, wip_limits.c.agent)
)
LIMITS_FOR = Query(
    sa.select(wip_limits.c.agent, wip_limits.c.wip_limit).where(
        wip_limits.c.project_id == p("project"),
        wip_limits.c.status == p("status"),
        wip_limits.c.agent.in_([ANY, COLUMN, p("agent")]),
    )
)
ADD_LIMIT = Query(sa.insert(wip_limits))
ADD_LIMIT_CHANGE = Query(sa.insert(limit_changes))
LIMIT_CHANGES = Query(
    sa.select(limit_changes.c.status, limit_changes.c.agent, limit_changes.c.wip_limit, limit_changes.c.at)
    .where(limit_changes.c.project_id == p("project"))
    .order_by(limit_changes.c.at, limit_changes.c.id)
)
REMOVE_LIMIT = Query(
    sa.delete(wip_limits).where(
        wip_limits.c.project_id == p("project"), wip_limits.c.status == p("status"), wip_limits.c.agent == p("agent")
    )
)

# Tasks ----------------------------------------------------------------------------------------------------------------


def _is(*statuses: Status) -> sa.ColumnElement[bool]:
    return tasks.c.status.in_([sa.literal_column(f"'{status}'") for status in statuses])


TASK = Query(sa.select(tasks).where(tasks.c.id == p("id")))
ADD_TASK = Query(sa.insert(tasks))


@cache
def _saving(changed: frozenset[str]) -> Query:
    """Writes only these columns, so that only their indexes are written too."""
    values: dict[str, sa.BindParameter[object]] = {name: p(f"new_{name}") for name in sorted(changed)}
    return Query(sa.update(tasks).where(tasks.c.id == p("which")).values(values))


DELETE_TASK = Query(sa.delete(tasks).where(tasks.c.id == p("id")))
_ORDER = (tasks.c.priority, tasks.c.created_at, tasks.c.id)
# A claimed task counts as in progress.
_IN_PROGRESS = _is(Status.IN_PROGRESS) | (_is(Status.READY) & tasks.c.claimed_by.is_not(None))


def _counted(*, in_progress: bool, agent: bool) -> Query:
    status = _IN_PROGRESS if in_progress else (tasks.c.status == p("status"))
    query = sa.select(sa.func.count()).where(tasks.c.project_id == p("project"), status, tasks.c.id != p("besides"))
    if not in_progress:
        query = query.where(~_IN_PROGRESS)
    return Query(query.where(tasks.c.assigned_to == p("agent")) if agent else query)


COUNTS = {
    (progress, agent): _counted(in_progress=progress, agent=agent)
    for progress in (False, True)
    for agent in (False, True)
}


def _claimable(status: Status) -> sa.Subquery:
    """One column of the ready queue, read in the order of its index and no further than asked."""
    other = tasks.alias("other")
    waits = sa.exists().where(
        dependencies.c.task_id == tasks.c.id,
        dependencies.c.depends_on == other.c.id,
        other.c.status != sa.literal_column("'done'"),
    )
    return (
        sa.select(*(tasks.c[name] for name in Waiting._fields))
        .where(
            tasks.c.project_id == p("project"),
            tasks.c.status == sa.literal_column(f"'{status}'"),
            tasks.c.claimed_by.is_(None),
            tasks.c.assigned_to.is_(None) | (tasks.c.assigned_to == p("agent")) | (p("anybody", type_=sa.Integer) == 1),
            sa.tuple_(tasks.c.priority, tasks.c.created_at, tasks.c.id)
            > sa.tuple_(p("priority", type_=sa.Integer), p("created_at", type_=sa.BigInteger), p("id", type_=sa.Text)),
            ~waits,
        )
        .order_by(*_ORDER)
        .limit(p("limit"))
        .subquery()
    )


_QUEUE = sa.union_all(*(sa.select(_claimable(status)) for status in WAITING)).subquery()
READY_QUEUE = Query(sa.select(_QUEUE).order_by(_QUEUE.c.priority, _QUEUE.c.created_at, _QUEUE.c.id).limit(p("limit")))


@cache
def listing(filters: frozenset[str]) -> Query:
    """Tasks in order after a place, narrowed by each of `filters`."""
    conditions = {
        "project": tasks.c.project_id == p("project"),
        "status": tasks.c.status == p("status"),
        "agent": (tasks.c.assigned_to == p("agent")) | (tasks.c.claimed_by == p("agent")),
        "assigned_to": tasks.c.assigned_to == p("assigned_to"),
        "priority": tasks.c.priority == p("priority"),
        "parent": tasks.c.parent_task_id == p("parent"),
        "label": sa.func.lower(tasks.c.labels).like(sa.func.lower(p("label")), escape="\\"),
        # Both sides by the database, whose idea of lower case need not be Python's.
        "q": sa.func.lower(tasks.c.title).like(sa.func.lower(p("q")), escape="\\")
        | sa.func.lower(tasks.c.description).like(sa.func.lower(p("q")), escape="\\")
        | (tasks.c.id == p("q_id")),
        "unblocked": ~_is(Status.BLOCKED),
    }
    after = sa.tuple_(tasks.c.priority, tasks.c.created_at, tasks.c.id) > sa.tuple_(
        p("after_priority", type_=sa.Integer), p("after_created", type_=sa.BigInteger), p("after_id", type_=sa.Text)
    )
    query = sa.select(tasks).where(after, *(conditions[name] for name in sorted(filters)))
    return Query(query.order_by(*_ORDER).limit(p("limit")))


# What a card on the board shows: without the description, which may be long.
_CARD = [tasks.c[name] for name in Card._fields]
CARD = Query(sa.select(*_CARD).where(tasks.c.project_id == p("project"), tasks.c.id == p("id")))
CARDS = Query(sa.select(*_CARD).where(tasks.c.project_id == p("project")).order_by(*_ORDER))

HOLDS_WORK = Query(
    sa.select(tasks.c.id)
    .where(
        (tasks.c.claimed_by == p("agent")) & _is(Status.READY, Status.IN_PROGRESS)
        | (tasks.c.assigned_to == p("agent")) & _is(Status.IN_PROGRESS)
    )
    .limit(sa.literal_column("1"))
)
WORKED_ON_BY = Query(
    sa.select(tasks).where(
        (tasks.c.claimed_by == p("agent")) & _is(Status.READY, Status.IN_PROGRESS, Status.BLOCKED)
        | (tasks.c.assigned_to == p("agent")) & _is(Status.IN_PROGRESS)
    )
)
HOLDERS = Query(
    sa.select(tasks.c.assigned_to)
    .where(tasks.c.project_id == p("project"), tasks.c.assigned_to.is_not(None), ~_is(Status.DONE))
    .distinct()
)
BLOCKED_BY = Query(sa.select(tasks).where(tasks.c.blocked_by == p("task"), _is(Status.BLOCKED)))
SUBTASKS = Query(sa.select(tasks.c.id).where(tasks.c.parent_task_id == p("parent")).order_by(tasks.c.id))
SUBTASKS_OF_PROJECT = Query(
    sa.select(tasks.c.parent_task_id, tasks.c.id)
    .where(tasks.c.project_id == p("project"), tasks.c.parent_task_id.is_not(None))
    .order_by(tasks.c.id)
)
COUNT_BY_STATUS = Query(
    sa.select(tasks.c.status, sa.func.count()).where(tasks.c.project_id == p("project")).group_by(tasks.c.status)
)
DONE_BY_AGENT = Query(
    sa.select(tasks.c.assigned_to, sa.func.count())
    .where(tasks.c.project_id == p("project"), _is(Status.DONE), tasks.c.assigned_to.is_not(None))
    .group_by(tasks.c.assigned_to)
)
CYCLES_OF_DONE = Query(
    sa.select(tasks.c.completed_at - tasks.c.started_at).where(
        tasks.c.project_id == p("project"), _is(Status.DONE), tasks.c.started_at.is_not(None)
    )
)
COMPLETIONS = Query(
    sa.select(
        completions.c.task_id, tasks.c.title, completions.c.agent, completions.c.started_at, completions.c.completed_at,
        completions.c.reworked,
    )
    .join(tasks, tasks.c.id == completions.c.task_id)
    .where(completions.c.project_id == p("project"), completions.c.completed_at >= p("since", type_=sa.BigInteger))
    .order_by(completions.c.completed_at, completions.c.id)
)  # fmt: skip
ADD_COMPLETION = Query(sa.insert(completions))
ADD_MOVE = Query(sa.insert(moves))
MOVES_OF_TASK = Query(
    sa.select(moves.c.id, moves.c.came, moves.c.went, moves.c.at, moves.c.by, moves.c.note)
    .where(moves.c.task_id == p("task"), moves.c.id > p("cursor"))
    .order_by(moves.c.id)
    .limit(p("limit"))
)
MOVES_OF_PROJECT = Query(
    sa.select(moves.c.task_id, moves.c.came, moves.c.went, moves.c.at, moves.c.agent)
    .where(moves.c.project_id == p("project"))
    .order_by(moves.c.at, moves.c.id)
)
REWORKS = Query(
    sa.select(sa.func.count()).where(
        moves.c.task_id == p("task"), moves.c.came == Status.IN_REVIEW.value, moves.c.went == Status.IN_PROGRESS.value,
        moves.c.at >= p("since", type_=sa.BigInteger),
    )
)  # fmt: skip

PREDECESSORS = Query(
    sa.select(tasks)
    .join(dependencies, dependencies.c.depends_on == tasks.c.id)
    .where(dependencies.c.task_id == p("task"))
    .order_by(tasks.c.id)
)
UNFINISHED = Query(
    sa.select(tasks.c.id, tasks.c.title, tasks.c.status, tasks.c.blocked_reason, tasks.c.blocked_from)
    .join(dependencies, dependencies.c.depends_on == tasks.c.id)
    .where(dependencies.c.task_id == p("task"), ~_is(Status.DONE))
    .order_by(tasks.c.id)
)
UNFINISHED_OF_PROJECT = Query(
    sa.select(dependencies.c.task_id, dependencies.c.depends_on)
    .join(tasks, tasks.c.id == dependencies.c.depends_on)
    .where(tasks.c.project_id == p("project"), ~_is(Status.DONE))
    .order_by(dependencies.c.task_id, dependencies.c.depends_on)
)
SUCCESSORS = Query(
    sa.select(tasks)
    .join(dependencies, dependencies.c.task_id == tasks.c.id)
    .where(dependencies.c.depends_on == p("task"))
    .order_by(tasks.c.id)
)
EDGES = Query(
    sa.select(dependencies.c.task_id, dependencies.c.depends_on)
    .join(tasks, tasks.c.id == dependencies.c.task_id)
    .where(tasks.c.project_id == p("project"))
)
EDGE = Query(
    sa.select(dependencies.c.task_id).where(
        dependencies.c.task_id == p("task"), dependencies.c.depends_on == p("other")
    )
)
ADD_EDGE = Query(sa.insert(dependencies))
REMOVE_EDGE = Query(
    sa.delete(dependencies).where(dependencies.c.task_id == p("task"), dependencies.c.depends_on == p("other"))
)

COMMENTS = Query(
    sa.select(comments.c.id, comments.c.author, comments.c.body, comments.c.created_at)
    .where(comments.c.task_id == p("task"), comments.c.id > p("cursor"))
    .order_by(comments.c.id)
    .limit(p("limit"))
)
COMMENT_COUNT = Query(sa.select(sa.func.count()).where(comments.c.task_id == p("task")))
COMMENT_COUNTS = Query(
    sa.select(comments.c.task_id, sa.func.count())
    .join(tasks, tasks.c.id == comments.c.task_id)
    .where(tasks.c.project_id == p("project"))
    .group_by(comments.c.task_id)
)
COMMENT = Query(sa.select(comments).where(comments.c.id == p("id"), comments.c.task_id == p("task")))
ADD_COMMENT = Query(sa.insert(comments))
DELETE_COMMENT = Query(sa.delete(comments).where(comments.c.id == p("id")))

_FILE = (files.c.filename, files.c.checksum, files.c.size, files.c.uploader, files.c.updated_at)
FILES = Query(
    sa.select(*_FILE)
    .where(files.c.project_id == p("project"), files.c.task_id == p("task"), files.c.filename > p("cursor"))
    .order_by(files.c.filename)
    .limit(p("limit"))
)
FILE = Query(
    sa.select(*_FILE).where(
        files.c.project_id == p("project"), files.c.task_id == p("task"), files.c.filename == p("filename")
    )
)
ADD_FILE = Query(sa.insert(files))
DELETE_FILE = Query(
    sa.delete(files).where(
        files.c.project_id == p("project"), files.c.task_id == p("task"), files.c.filename == p("filename")
    )
)
DELETE_FILES_OF_TASK = Query(sa.delete(files).where(files.c.project_id == p("project"), files.c.task_id == p("task")))
CHECKSUMS_OF_PROJECT = Query(sa.select(files.c.checksum).where(files.c.project_id == p("project")))
CHECKSUM_USED = Query(
    sa.select(files.c.checksum).where(files.c.checksum == p("checksum")).limit(sa.literal_column("1"))
)


def project_of(row: Row) -> Project:
    return Project(*row)


def waiting_of(row: Row) -> Waiting:
    return Waiting(row[0], row[1], Priority(row[2]), _list(row[3]), row[4], row[5])


def card_of(row: Row) -> Card:
    (task, title, status, priority, assigned, claimed, needs, signed, reviewers, labels, *more) = row
    return Card(
        task, title, Status(status), Priority(priority), assigned, claimed,
        _list(needs), signed, _list(reviewers), _list(labels), *more,
    )  # fmt: skip


def task_of(row: Row) -> Task:
    return Task(
        row[0], row[1], row[2], row[3], Status(row[4]), Priority(row[5]), row[6], row[7],
        _list(row[8]), row[9], _list(row[10]), row[11], row[12], _list(row[13]),
        row[14], row[15], None if row[16] is None else Status(row[16]), _list(row[17]), *row[18:],
    )  # fmt: skip


def columns(task: Task) -> dict[str, object]:
    return {name: _stored(value) for name, value in zip(Task._fields, task, strict=True)}


def save(tx: Transaction, before: Task, after: Task) -> None:
    """Write what differs."""
    changed = [name for name, old, new in zip(Task._fields, before, after, strict=True) if old != new]
    if changed:
        values = {f"new_{name}": _stored(getattr(after, name)) for name in changed}
        tx.run(_saving(frozenset(changed)), which=after.id, **values)


def _stored(value: object) -> object:
    if isinstance(value, tuple):
        return _json(value)
    return value.value if isinstance(value, Enum) else value


def _list(text: str) -> tuple[Any, ...]:
    return () if text == "[]" else tuple(json.loads(text))


_TEXT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _json(values: tuple[object, ...]) -> str:
    return _TEXT.encode(values) if values else "[]"


def like(text: str) -> str:
    """`text` as the middle of a LIKE pattern."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
