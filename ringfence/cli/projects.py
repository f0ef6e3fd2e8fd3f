"""Projects: a board, its members, limits and files."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal, get_args

from typer import Argument, Option

from ringfence.cli import inert
from ringfence.cli.api import NULL, Json, file_path, path
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.problems import Problem, Usage
from ringfence.cli.screen import Column, Item, when

project = Noun("project", "Projects: a board, its members, limits and files.")

Status = Literal["backlog", "ready", "in_progress", "in_review", "blocked", "done"]
STATUSES: tuple[Status, ...] = get_args(Status)
Lanes = Literal["none", "agent", "priority", "label"]
COLUMNS = [
    Column("id", "id", whole=True),
    Column("name", "name"),
    Column("members", "members"),
    Column("open to", lambda it: "its members" if it["visibility"] == "members" else "all agents"),
    Column("created", when("created_at")),
    Column("by", "creator"),
]
FILES = [
    Column("name", "filename", whole=True),
    Column("bytes", "size", right=True),
    Column("uploaded", when("updated_at")),
    Column("by", "uploader"),
    Column("sha256", lambda it: it["checksum"][:16]),
]
LIMITS = [
    Column("of", "of"),
    Column("agent", "agent"),
    Column("column", "status"),
    Column("limit", "limit", right=True),
]

Which = Annotated[str, Argument(metavar="PROJECT", help="Its id or name.")]


def at(project_id: str, *parts: str) -> str:
    return "/api/v1/projects" + path(project_id, *parts)


@project.verb("list")
def list_projects(run: Invocation, agent: Annotated[str | None, Option(help="Where it is a member.")] = None) -> None:
    """The projects you may see."""
    run.screen.items(run.api.every("/api/v1/projects", agent=agent), COLUMNS, "no projects")


@project.verb("create")
def create(
    run: Invocation,
    name: str,
    creator: Annotated[str | None, Option(help="An agent to act for.")] = None,
    members_only: Annotated[bool, Option("--members-only", help="Only for its members.")] = False,
) -> None:
    """Create a project."""
    body = {"name": name, "creator": creator, "visibility": "members" if members_only else None}
    made = run.api.post("/api/v1/projects", body).body
    run.screen.done(made, f"Created {made['id']} {name!r}.", made["id"])


@project.verb("show")
def show(run: Invocation, project: Which) -> None:
    """A project, with its members, limits and files."""
    found = run.api.get(at(run.project(project)))
    limits = "; ".join(f"{it['status']} {it['limit']} {_whose(it)}" for it in _limits(found))
    columns = [*COLUMNS, Column("limits", lambda it: limits), Column("files", lambda it: list(it["files"]))]
    run.screen.facts(found, columns)


@project.verb("change")
def change(
    run: Invocation,
    project: Which,
    name: Annotated[str | None, Option(help="Another name.")] = None,
    members_only: Annotated[bool | None, Option("--members-only/--all-agents", help="Who may work in it.")] = None,
) -> None:
    """Rename a project, or open it to all agents or to its members only."""
    if name is None and members_only is None:
        raise Usage("nothing to change: give --name, --members-only or --all-agents")
    visibility = None if members_only is None else "members" if members_only else "open"
    changed = run.api.patch(at(run.project(project)), {"name": name, "visibility": visibility}).body
    run.screen.facts(changed, COLUMNS)


@project.verb("delete")
def delete(run: Invocation, project: Which) -> None:
    """Delete a project with its tasks and files."""
    found = run.api.get(at(run.project(project)))
    run.screen.confirm(f"Delete the project {found['name']!r} with all its tasks and files?")
    gone = run.api.delete(at(found["id"])).body
    run.screen.done(gone, f"Deleted {found['id']} {found['name']!r}.", found["id"])


@project.verb("join")
def join(run: Invocation, project: Which, agent: str) -> None:
    """Make an agent a member."""
    which = run.project(project)
    run.screen.done(run.api.post(at(which, "join"), {"agent": agent}).body, f"{agent} is a member of {which}.", agent)


@project.verb("leave")
def leave(run: Invocation, project: Which, agent: str) -> None:
    """End an agent's membership."""
    which = run.project(project)
    answer = run.api.post(at(which, "leave"), {"agent": agent}).body
    run.screen.done(answer, f"{agent} is no longer a member of {which}.", agent)


@project.verb("wip")
def wip(
    run: Invocation,
    project: Which,
    status: Annotated[Status | None, Argument(help="The column to limit.")] = None,
    limit: Annotated[str | None, Argument(help="How many tasks; none lifts the limit.")] = None,
    agent: Annotated[str | None, Option(help="Only this agent's tasks.")] = None,
    column: Annotated[bool, Option("--column", help="The tasks of all agents together.")] = False,
) -> None:
    """Limit the work in progress; without a column, show the limits."""
    which = run.project(project)
    if status is not None:
        if limit is None or not (limit == "none" or limit.isdigit()):
            raise Usage(f"give a number for {status}, or `none`")
        if column and agent:
            raise Usage(
                "--column is for the tasks of all agents together, and --agent for one agent's: give one of them"
            )
        wanted = NULL if limit == "none" else int(limit)
        scope = "column" if column else "agent"
        run.api.put(at(which, "wip"), {"status": status, "limit": wanted, "agent": agent, "scope": scope})
    found = run.api.get(at(which, "wip"))
    if run.screen.as_json:
        run.screen.json(found)
    else:
        run.screen.items(list(_limits(found)), LIMITS, "no limits")


def _limits(found: Item) -> Iterable[Json]:
    """The limits of a project or of its /wip, one by one."""
    for status, limit in found.get("agent", found.get("wip_limits", {})).items():
        yield {"of": "each agent", "agent": None, "status": status, "limit": limit}
    for agent, limits in found.get("agents", found.get("wip_limits_by_agent", {})).items():
        for status, limit in limits.items():
            yield {"of": "agent", "agent": agent, "status": status, "limit": limit}
    for status, limit in found.get("columns", found.get("wip_limits_of_columns", {})).items():
        yield {"of": "column", "agent": None, "status": status, "limit": limit}


def _whose(limit: Json) -> str:
    return f"for {limit['agent']}" if limit["agent"] else f"for {limit['of']}" if limit["of"] != "column" else "in all"


@project.verb("board")
def board(run: Invocation, project: Which, lanes: Annotated[Lanes, Option(help="What to cut it by.")] = "none") -> None:
    """The board in its columns, cut into swim lanes."""
    found = run.api.get(at(run.project(project), "board"), lanes=lanes)
    if run.screen.as_json:
        run.screen.json(found)
        return
    tasks = [
        {**task, "lane": lane["lane"]}
        for lane in found["lanes"]
        for status in STATUSES
        for task in lane["columns"].get(status, ())
    ]
    if run.screen.is_terminal and not run.screen.quiet and tasks:
        for lane in found["lanes"]:
            if lanes != "none":
                run.screen.text(inert.line(f"\n{lanes}: {lane['lane'] or '-'}"))
            _draw(run, lane["columns"])
        return
    columns = [
        Column("id", "id", whole=True), Column("column", "status"), Column("priority", "priority"),
        Column("assigned to", "assigned_to"), Column("title", "title", prose=True),
    ]  # fmt: skip
    run.screen.items(tasks, columns if lanes == "none" else [*columns, Column(lanes, "lane")], "no tasks")


def _draw(run: Invocation, columns: dict[str, list[Json]]) -> None:
    """The columns side by side, a card in each row."""
    heights = [len(columns.get(status, ())) for status in STATUSES]
    rows: list[Json] = [
        {status: _card(columns.get(status, ()), row) for status in STATUSES} for row in range(max(heights))
    ]
    shown = [Column(f"{status} {height}", status, prose=True) for status, height in zip(STATUSES, heights, strict=True)]
    run.screen.items(rows, shown, "no tasks")


def _card(tasks: Iterable[Json], row: int) -> str:
    task = dict(enumerate(tasks)).get(row)
    if task is None:
        return " "
    return f"{task['priority']} {task['title']}{' @' + task['assigned_to'] if task['assigned_to'] else ''}"


@project.verb("metrics")
def metrics(
    run: Invocation, project: Which, days: Annotated[int, Option(min=1, max=366, help="How far back.")] = 30
) -> None:
    """Cycle times, throughput and rework."""
    found = run.api.get(at(run.project(project), "metrics"), days=days)
    columns = [
        Column("tasks", "total_tasks"),
        *(Column(status, _count(status)) for status in STATUSES),
        Column("cycle time, average", _minutes("avg_cycle_time_minutes")),
        Column("cycle time, median", _minutes("median_cycle_time_minutes")),
        Column("cycle time, 85 of 100", _minutes("p85_cycle_time_minutes")),
        Column("reworked", "reworked"),
        Column("done by", lambda it: [f"{who} {count}" for who, count in it["agent_throughput"].items()]),
    ]
    run.screen.facts(found, columns)


def _count(status: str) -> Callable[[Item], object]:
    return lambda it: it["by_status"].get(status, 0)


def _minutes(field: str) -> Callable[[Item], object]:
    return lambda it: "-" if it.get(field) is None else f"{it[field]:g} min"


# Files ----------------------------------------------------------------------------------------------------------------


@project.verb("files")
def files(run: Invocation, project: Which) -> None:
    """The files of a project."""
    run.screen.items(run.api.every(at(run.project(project), "files")), FILES, "no files")


@project.verb("upload")
def upload(
    run: Invocation,
    project: Which,
    file: Annotated[Path, Argument(help="The file on this machine.")],
    name: Annotated[str | None, Option(help="Its name in the project, slashes allowed. [as it is here]")] = None,
    agent: Annotated[str | None, Option(help="An agent to act for.")] = None,
) -> None:
    """Upload a file; the same name replaces it."""
    send(run, at(run.project(project), "files"), file, name, agent)


@project.verb("download")
def download(
    run: Invocation,
    project: Which,
    name: str,
    output: Annotated[Path | None, Option("--output", "-o", help="Where to; - is standard output. [here]")] = None,
) -> None:
    """Download a file."""
    fetch(run, f"{at(run.project(project), 'files')}/{file_path(name)}", name, output)


@project.verb("rm-file")
def remove_file(run: Invocation, project: Which, name: str) -> None:
    """Delete a file."""
    which = run.project(project)
    run.screen.confirm(f"Delete the file {name!r} of {which}?")
    gone = run.api.delete(f"{at(which, 'files')}/{file_path(name)}").body
    run.screen.done(gone, f"Deleted {name}.", name)


def send(run: Invocation, url: str, file: Path, name: str | None, agent: str | None) -> None:
    try:
        with file.open("rb") as content:
            made = run.api.upload(url, name or file.name, content, {"uploader": agent} if agent else {}).body
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror}") from None
    run.screen.done(made, f"Uploaded {made['filename']} ({made['size']} bytes).", made["filename"])


def fetch(run: Invocation, url: str, name: str, output: Path | None) -> None:
    """Into the file `output`, or one of the same name here; never outside of this folder by the name alone."""
    content = run.api.ask("GET", url).bytes
    if output == Path("-"):
        if sys.stdout.isatty():
            run.screen.text(inert.block(content.decode(errors="replace")))
        else:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        return
    target = output or Path(name.rpartition("/")[2])
    if target.is_dir():
        target /= name.rpartition("/")[2]
    if target.exists():
        run.screen.confirm(f"{target} is there already. Replace it?")
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666), "wb") as file:
            file.write(content)
    except OSError as error:
        raise Problem(f"{target} cannot be written: {error.strerror}") from None
    facts = {"filename": name, "path": str(target), "size": len(content)}
    run.screen.done(facts, f"Downloaded {name} ({len(content)} bytes) to {target}.", str(target))
