"""Tasks: units of work on a board."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from ringfence.cli import inert
from ringfence.cli.api import Json, file_path
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.problems import NotFound, Usage
from ringfence.cli.projects import FILES, Status, at, fetch, send
from ringfence.cli.screen import Column, Item, moment, when

task = Noun("task", "Tasks: units of work on a board.")

Level = Literal["P0", "P1", "P2", "P3"]


def holder(task: Item) -> object:
    """Who has it; in the ready column a claim is held, an assignment waits."""
    held = task["claimed_by"] is not None and task["status"] == "ready"
    return f"{task['assigned_to']} (claimed)" if held else task["assigned_to"]


COLUMNS = [
    Column("id", "id", whole=True),
    Column("status", "status"),
    Column("priority", "priority"),
    Column("title", "title", prose=True),
    Column("agent", holder),
    Column("labels", "labels"),
    Column("needs", "required_capabilities"),
    Column("updated", when("updated_at")),
]
FACTS = [
    *COLUMNS[:4],
    Column("project", "project_id"),
    *COLUMNS[4:],
    Column("blocked because", "blocked_reason"),
    Column("blocked by", "blocked_by"),
    Column("waits for", "waiting_for"),
    Column("part of", "parent_task_id"),
    Column("subtasks", "subtasks"),
    Column("reviews", lambda it: f"{len(it['reviewers'])} of {it['required_reviewers']}: {', '.join(it['reviewers'])}"),
    Column("created", when("created_at")),
    Column("created by", "created_by"),
    Column("started", when("started_at")),
    Column("completed", when("completed_at")),
]
READY = [column for column in COLUMNS if column.text in ("id", "priority", "title", "required_capabilities")]
COMMENTS = [
    Column("id", "id", whole=True),
    Column("when", when("created_at")),
    Column("who", "author"),
    Column("said", "body", prose=True),
]
MOVES = [
    Column("when", lambda it: moment(it["at"], seconds=True)),
    Column("from", "from"),
    Column("to", "to"),
    Column("by", "by"),
    Column("note", "note", prose=True),
]
RELATED = [Column("is", "is"), COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[3]]

Which = Annotated[str, Argument(metavar="TASK", help="Its id, or how the id begins or ends.")]
Project = Annotated[str | None, Option("--project", "-p", help="The project's id or name.")]
Agent = Annotated[str | None, Option("--agent", help="An agent to act for.")]
Description = Annotated[str | None, Option("--description", "-d", help="What is to be done; - reads standard input.")]
Priority = Annotated[Level | None, Option(case_sensitive=False, help="From P0, critical, to P3, low.")]
Needs = Annotated[list[str] | None, Option("--capability", help="It takes this capability; may be repeated.")]
Labels = Annotated[list[str] | None, Option("--label", help="May be repeated.")]


def of(found: Json, *parts: str) -> str:
    return at(found["project_id"], "tasks", found["id"], *parts)


def find(run: Invocation, word: str) -> Json:
    """The task of that id, or whose id begins or ends like this."""
    return run.find(word, "task", "/api/v1/tasks")


# Reading --------------------------------------------------------------------------------------------------------------


@task.verb("list")
def list_tasks(
    run: Invocation,
    project: Project = None,
    status: Annotated[Status | None, Option(help="Only in this column.")] = None,
    agent: Annotated[str | None, Option(help="Assigned to it, or claimed by it.")] = None,
    label: Annotated[str | None, Option(help="With this label.")] = None,
    priority: Priority = None,
    search: Annotated[str | None, Option("--search", "-s", help="Text in the title or description.")] = None,
    parent: Annotated[str | None, Option(help="Parts of this task.")] = None,
    limit: Annotated[int | None, Option(min=1, help="At most so many.")] = None,
) -> None:
    """Tasks, by priority, then age."""
    found = run.api.every(
        "/api/v1/tasks",
        limit=limit,
        project_id=run.project(project) if project else None,
        status=status, agent=agent, label=label, priority=priority, q=search,
        parent=find(run, parent)["id"] if parent else None,
    )  # fmt: skip
    run.screen.items(found, COLUMNS, "no tasks")


@task.verb("ready")
def ready(
    run: Invocation,
    project: Project = None,
    agent: Annotated[str | None, Option(help="What this agent could claim.")] = None,
    capability: Needs = None,
) -> None:
    """What could be claimed now, most urgent first."""
    url = at(run.project_or_only(project), "tasks", "ready")
    found = run.api.every(url, paged=False, agent=agent, capabilities=capability)
    run.screen.items(found, READY, "nothing is ready")


@task.verb("show")
def show(run: Invocation, task: Which) -> None:
    """A task, with its description."""
    found = find(run, task)
    run.screen.facts(found, FACTS, found["description"])


@task.verb("history")
def history(run: Invocation, task: Which) -> None:
    """Every move of a task, oldest first."""
    run.screen.items(run.api.every(of(find(run, task), "history")), MOVES, "it was never moved")


# Writing --------------------------------------------------------------------------------------------------------------


@task.verb("create")
def create(
    run: Invocation,
    title: str,
    project: Project = None,
    description: Description = None,
    priority: Priority = None,
    ready: Annotated[bool, Option("--ready", help="To be claimed at once, instead of waiting in the backlog.")] = False,
    assign: Annotated[str | None, Option(help="For this agent.")] = None,
    capability: Needs = None,
    label: Labels = None,
    depends_on: Annotated[list[str] | None, Option(help="A task that comes first; may be repeated.")] = None,
    parent: Annotated[str | None, Option(help="The task it is a part of.")] = None,
    reviewers: Annotated[int | None, Option(min=0, help="Reviews it needs before it is done.")] = None,
    agent: Agent = None,
) -> None:
    """Write a task."""
    which = run.project_or_only(project)
    body = {
        "title": title, "description": _text(description), "priority": priority, "assigned_to": assign,
        "status": "ready" if ready else None, "required_capabilities": capability or None, "labels": label or None,
        "depends_on": [find(run, other)["id"] for other in depends_on] if depends_on else None,
        "parent_task_id": find(run, parent)["id"] if parent else None,
        "required_reviewers": reviewers, "created_by": agent,
    }  # fmt: skip
    answer = run.api.post(at(which, "tasks"), body)
    made = answer.body
    run.done(answer, lambda: f"Created {made['id']} {title!r} in {made['status']}.", lambda: made["id"])


@task.verb("edit")
def edit(
    run: Invocation,
    task: Which,
    title: Annotated[str | None, Option(help="Another title.")] = None,
    description: Description = None,
    priority: Priority = None,
    capability: Needs = None,
    label: Labels = None,
    parent: Annotated[str | None, Option(help="The task it is a part of; empty: none.")] = None,
    reviewers: Annotated[int | None, Option(min=0, help="Reviews it needs before it is done.")] = None,
    agent: Agent = None,
) -> None:
    """Change what a task says. Labels and capabilities that are given replace those there are."""
    body = {
        "title": title, "description": _text(description), "priority": priority,
        "required_capabilities": _replaced(capability), "labels": _replaced(label),
        "parent_task_id": find(run, parent)["id"] if parent else parent, "required_reviewers": reviewers,
    }  # fmt: skip
    if all(value is None for value in body.values()):
        raise Usage("nothing to change: give --title, --description, --priority, --label, … (see --help)")
    found = find(run, task)
    run.done(run.api.patch(of(found), {**body, "agent": agent}), f"Changed {found['id']}.", found["id"])


@task.verb("delete")
def delete(run: Invocation, task: Which) -> None:
    """Delete a task; what waited for it is blocked, with the reason."""
    found = find(run, task)
    run.screen.confirm(f"Delete {found['id']} {found['title']!r}?")
    run.screen.done(run.api.delete(of(found)).body, f"Deleted {found['id']}.", found["id"])


def _text(given: str | None) -> str | None:
    if given != "-":
        return given
    if sys.stdin.isatty():
        print("Write the description; Ctrl-D ends it.", file=sys.stderr)
    return sys.stdin.read()


def _replaced(given: list[str] | None) -> list[str] | None:
    """`--label ""` alone means none at all."""
    return None if not given else [one for one in given if one]


# Moving ---------------------------------------------------------------------------------------------------------------


@task.verb("move")
def move(
    run: Invocation,
    task: Which,
    status: Annotated[Status, Argument(help="The column.")],
    note: Annotated[str | None, Option(help="Kept in the history.")] = None,
    reason: Annotated[str | None, Option(help="Why it is blocked.")] = None,
    blocked_by: Annotated[str | None, Option(help="The task that blocks it.")] = None,
    agent: Agent = None,
) -> None:
    """Move a task to another column."""
    found = find(run, task)
    body = {
        "status": status, "note": note, "blocked_reason": reason, "agent": agent,
        "blocked_by": find(run, blocked_by)["id"] if blocked_by else None,
    }  # fmt: skip
    run.done(run.api.patch(of(found), body), f"Moved {found['id']} from {found['status']} to {status}.", found["id"])


@task.verb("claim")
def claim(run: Invocation, task: Which, agent: Agent = None) -> None:
    """Claim a task: it is held for you, and for nobody else."""
    found = find(run, task)
    run.done(run.api.post(of(found, "claim"), {"agent": agent}), f"Claimed {found['id']}.", found["id"])


@task.verb("claim-next")
def claim_next(run: Invocation, project: Project = None, agent: Agent = None, capability: Needs = None) -> None:
    """Claim the most urgent task there is for you. Exit code 3 when there is none."""
    which = run.project_or_only(project)
    answer = run.api.post(at(which, "claim-next"), {"agent": agent, "capabilities": capability or None})
    if answer.proposal is None and (answer.body is None or answer.body.get("task") is None):
        if run.screen.as_json:
            run.screen.json({"task": None})
        raise NotFound(f"nothing in {which} can be claimed now")
    run.done(
        answer,
        lambda: f"Claimed {answer.body['task']['id']} {answer.body['task']['title']!r}.",
        lambda: answer.body["task"]["id"],
    )


@task.verb("release")
def release(run: Invocation, task: Which, agent: Agent = None) -> None:
    """Give a claimed task back to the queue."""
    found = find(run, task)
    run.done(run.api.post(of(found, "release"), {"agent": agent}), f"Released {found['id']}.", found["id"])


@task.verb("assign")
def assign(run: Invocation, task: Which, agent: str) -> None:
    """Assign a task to an agent: it becomes ready, for that agent."""
    found = find(run, task)
    run.done(run.api.post(of(found, "assign"), {"agent": agent}), f"Assigned {found['id']} to {agent}.", found["id"])


@task.verb("unassign")
def unassign(run: Invocation, task: Which) -> None:
    """Take a task from whoever has it: back to the backlog."""
    found = find(run, task)
    run.done(run.api.post(of(found, "unassign")), f"{found['id']} is nobody's.", found["id"])


@task.verb("review")
def review(
    run: Invocation,
    task: Which,
    name: Annotated[str | None, Argument(help="Who reviewed it. [you]")] = None,
    withdraw: Annotated[bool, Option("--withdraw", help="Take the review back.")] = False,
) -> None:
    """Record a review."""
    found = find(run, task)
    name = name or run.api.get("/api/v1/me")["name"]
    url = of(found, "reviewers", name)
    if withdraw:
        run.done(run.api.delete(url), f"{name}'s review of {found['id']} is taken back.", found["id"])
    else:
        run.done(run.api.post(url), f"{name} has reviewed {found['id']}.", found["id"])


# What it waits for ----------------------------------------------------------------------------------------------------


@task.verb("depend")
def depend(run: Invocation, task: Which, other: Annotated[str, Argument(help="The task that comes first.")]) -> None:
    """Let a task wait for another."""
    found, first = find(run, task), find(run, other)
    answer = run.api.post(of(found, "dependencies"), {"depends_on": first["id"]})
    run.done(answer, f"{found['id']} waits for {first['id']}.", found["id"])


@task.verb("undepend")
def undepend(run: Invocation, task: Which, other: Annotated[str, Argument(help="The task it waits for.")]) -> None:
    """Let a task wait for another no longer."""
    found, first = find(run, task), find(run, other)
    answer = run.api.delete(of(found, "dependencies", first["id"]))
    run.done(answer, f"{found['id']} no longer waits for {first['id']}.", found["id"])


@task.verb("dependencies")
def dependencies(run: Invocation, task: Which) -> None:
    """What a task waits for, and what waits for it."""
    found = run.api.get(of(find(run, task), "dependencies"))
    if run.screen.as_json:
        run.screen.json(found)
        return
    before = [{**it, "is": "comes first"} for it in found["depends_on"]]
    after = [{**it, "is": "waits for it"} for it in found["needed_by"]]
    run.screen.items([*before, *after], RELATED, "it waits for nothing, and nothing waits for it")


# What was said --------------------------------------------------------------------------------------------------------


@task.verb("comment")
def comment(run: Invocation, task: Which, text: Annotated[str, Argument(help="- reads standard input.")]) -> None:
    """Say something about a task."""
    found = find(run, task)
    made = run.api.post(of(found, "comments"), {"body": _text(text)}).body
    run.screen.done(made, f"Said about {found['id']}.", made["id"])


@task.verb("comments")
def comments(run: Invocation, task: Which) -> None:
    """What was said about a task, oldest first."""
    found = run.api.every(of(find(run, task), "comments"))
    if run.screen.as_json or run.screen.quiet or not found:
        run.screen.items(found, COMMENTS, "nobody said anything")
        return
    for number, said in enumerate(found):
        heading = f"{moment(said['created_at'])}  {said['author']}  {said['id']}"
        run.screen.text(("\n" if number else "") + inert.line(heading))
        run.screen.text("\n".join(f"  {line}" for line in inert.block(said["body"]).splitlines()))


@task.verb("rm-comment")
def remove_comment(run: Invocation, task: Which, comment: str) -> None:
    """Delete a comment: your own, or (operators) anybody's."""
    found = find(run, task)
    which = run.pick(comment, run.api.every(of(found, "comments")), "comment")
    run.screen.confirm(f"Delete the comment of {which['author']}?")
    gone = run.api.delete(of(found, "comments", which["id"])).body
    run.screen.done(gone, f"Deleted {which['id']}.", which["id"])


# Attachments ----------------------------------------------------------------------------------------------------------


@task.verb("attach")
def attach(
    run: Invocation,
    task: Which,
    file: Annotated[Path, Argument(help="The file on this machine.")],
    name: Annotated[str | None, Option(help="Its name there. [as it is here]")] = None,
    agent: Agent = None,
) -> None:
    """Attach a file to a task; the same name replaces it."""
    send(run, of(find(run, task), "attachments"), file, name, agent)


@task.verb("attachments")
def attachments(run: Invocation, task: Which) -> None:
    """The files attached to a task."""
    run.screen.items(run.api.every(of(find(run, task), "attachments")), FILES, "no attachments")


@task.verb("download")
def download(
    run: Invocation,
    task: Which,
    name: str,
    output: Annotated[Path | None, Option("--output", "-o", help="Where to; - is standard output. [here]")] = None,
) -> None:
    """Download an attachment."""
    fetch(run, f"{of(find(run, task), 'attachments')}/{file_path(name)}", name, output)


@task.verb("detach")
def detach(run: Invocation, task: Which, name: str) -> None:
    """Delete an attachment."""
    found = find(run, task)
    run.screen.confirm(f"Delete the attachment {name!r} of {found['id']}?")
    gone = run.api.delete(f"{of(found, 'attachments')}/{file_path(name)}").body
    run.screen.done(gone, f"Deleted {name}.", name)
