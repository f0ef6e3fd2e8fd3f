"""Messages between agents and people."""

import sys
from typing import Annotated

from typer import Argument, Option

from ringfence.cli import inert
from ringfence.cli.api import path
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.screen import Column, Item, moment, when

message = Noun("message", "Messages between agents and people.")


def _state(it: Item) -> str:
    states = ("set_aside", "acknowledged", "delivered")
    return next((state.replace("_", " ") for state in states if it.get(state)), "unread")


COLUMNS = [
    Column("id", "id", whole=True),
    Column("when", when("timestamp")),
    Column("from", "from"),
    Column("to", "to"),
    Column("state", _state),
    Column("thread", "thread"),
    Column("content", "content", prose=True),
]
THREADS = [
    Column("id", "id", whole=True),
    Column("messages", "messages", right=True),
    Column("started", when("started_at")),
    Column("last", when("last_at")),
]
EDGES = [Column("from", "from"), Column("to", "to"), Column("messages", "count", right=True)]
DELIVERIES = [
    Column("to", "recipient"),
    Column("delivered", when("delivered_at")),
    Column("acknowledged", when("acknowledged_at")),
    Column("by", "acknowledged_by"),
    Column("set aside", when("set_aside_at")),
]

Limit = Annotated[int | None, Option(min=1, help="At most so many.")]


@message.verb("send")
def send(
    run: Invocation,
    to: Annotated[str, Argument(help="An agent or a person; * is every agent.")],
    content: Annotated[str, Argument(help="What to say; - reads standard input.")],
    sender: Annotated[str | None, Option("--from", help="An agent to act for. [you]")] = None,
    type: Annotated[str | None, Option(help="Such as text, question.")] = None,
    thread: Annotated[str | None, Option(help="The thread it belongs to.")] = None,
    reply_to: Annotated[str | None, Option(help="The message it answers.")] = None,
    expires_in: Annotated[float | None, Option(help="Seconds after which it is no longer delivered.")] = None,
) -> None:
    """Send a message."""
    body = {
        "from": sender, "to": to, "content": sys.stdin.read() if content == "-" else content, "type": type,
        "thread": thread, "reply_to": reply_to, "expires_in": expires_in,
    }  # fmt: skip
    made = run.api.post("/api/v1/messages", body).body
    run.screen.done(made, f"Sent {made['id']} to {'every agent' if to == '*' else to}.", made["id"])


@message.verb("inbox")
def inbox(
    run: Invocation,
    agent: Annotated[str | None, Argument(help="Whose. [yours]")] = None,
    unread: Annotated[bool, Option("--unread", help="Only what was not acknowledged.")] = False,
    limit: Limit = None,
) -> None:
    """What somebody was sent, oldest first."""
    name = agent or run.api.get("/api/v1/me")["name"]
    found = run.api.every("/api/v1/messages", limit=limit, agent=name, unread=unread or None)
    run.screen.items(found, COLUMNS, "no messages")


@message.verb("list")
def list_messages(run: Invocation, limit: Limit = 50) -> None:
    """All messages there are, newest first."""
    found = run.api.every("/api/v1/messages", limit=limit, newest_first=True)
    run.screen.items(found, COLUMNS, "no messages")


@message.verb("show")
def show(run: Invocation, message: str) -> None:
    """A message, and what became of it for each recipient."""
    found = run.find(message, "message", "/api/v1/messages")
    if "deliveries" not in found:
        found = run.api.get("/api/v1/messages" + path(found["id"]))
    columns = [*COLUMNS[:-1], Column("answers", "reply_to"), Column("expires", when("expires_at"))]
    run.screen.facts(found, columns, found["content"])
    if not run.screen.as_json and found["deliveries"]:
        run.screen.text("")
        run.screen.items(found["deliveries"], DELIVERIES, "")


@message.verb("ack")
def acknowledge(
    run: Invocation, message: str, agent: Annotated[str | None, Option(help="An agent to act for.")] = None
) -> None:
    """Say that a message was dealt with, so that it is not delivered again."""
    found = run.find(message, "message", "/api/v1/messages")
    answer = run.api.post("/api/v1/messages" + path(found["id"], "ack"), {"agent": agent}).body
    run.screen.done(answer, f"Acknowledged {found['id']}.", found["id"])


@message.verb("history")
def history(run: Invocation, one: str, other: str, limit: Limit = 50) -> None:
    """What two sent each other, newest first."""
    found = run.api.every("/api/v1/messages/history" + path(one, other), limit=limit)
    run.screen.items(found, COLUMNS, f"{one} and {other} never wrote to each other")


@message.verb("thread")
def thread(run: Invocation, thread: Annotated[str | None, Argument(help="Its id. [list them]")] = None) -> None:
    """The messages of a thread, oldest first; without its id, the threads."""
    if thread is None:
        run.screen.items(run.api.every("/api/v1/threads"), THREADS, "no threads")
        return
    found = run.api.every("/api/v1/threads" + path(thread))
    if run.screen.as_json or run.screen.quiet:
        run.screen.items(found, COLUMNS, "no messages")
        return
    for number, it in enumerate(found):
        heading = f"{moment(it['timestamp'])}  {it['from']} -> {it['to']}  {it['id']}"
        run.screen.text(("\n" if number else "") + inert.line(heading))
        run.screen.text("\n".join(f"  {line}" for line in inert.block(it["content"]).splitlines()))


@message.verb("graph")
def graph(run: Invocation) -> None:
    """Who wrote to whom, and how often."""
    found = run.api.get("/api/v1/messages/graph")
    if run.screen.as_json:
        run.screen.json(found)
        return
    run.screen.items(sorted(found["edges"], key=lambda it: -it["count"]), EDGES, "nobody wrote to anybody")


@message.verb("prune")
def prune(run: Invocation, days: Annotated[float, Option(min=0, help="Older than so many days.")]) -> None:
    """Remove what expired, and what was acknowledged long ago."""
    run.screen.confirm(f"Remove the messages that were dealt with more than {days:g} days ago?")
    gone = run.api.post("/api/v1/messages/prune", {"days": days}).body
    run.screen.done(gone, f"Removed {gone['removed']}.", str(gone["removed"]))
