"""Everything that happened: the live feed, and the audit log."""

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from typer import Option

from ringfence.cli import inert
from ringfence.cli.api import Json
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.problems import NotAllowed, Problem, Unreachable
from ringfence.cli.screen import Column, moment, plain

event = Noun("event", "Everything that happens, as it happens.")
audit = Noun("audit", "The audit log: read, verify, prune.")

FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0

Kind = Annotated[str | None, Option(help="Such as task_claimed.")]
Project = Annotated[str | None, Option("--project", "-p", help="The project's id or name.")]
Agent = Annotated[str | None, Option(help="About this agent.")]

LOG = [
    Column("number", "seq", right=True),
    Column("when", lambda it: moment(it["time"], seconds=True)),
    Column("what", "kind"),
    Column("who", lambda it: f"{it['actor']} (by {it['via']})" if it.get("via") else it["actor"]),
    Column("details", lambda it: _details(it["data"])),
]


def _details(data: Json) -> str:
    return " ".join(f"{name}={plain(value)}" for name, value in data.items() if value not in (None, "", [], {}))


# The feed -------------------------------------------------------------------------------------------------------------


@event.verb("tail")
def tail(
    run: Invocation,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on with what happens next.")] = False,
    lines: Annotated[int, Option("--lines", "-n", min=0, help="So many of the last.")] = 10,
    after: Annotated[int | None, Option(min=0, help="Everything after this number instead.")] = None,
    kind: Kind = None,
    project: Project = None,
    agent: Agent = None,
) -> None:
    """The last events; with -f also those to come.

    Each once and in order, also when the connection breaks or the server is started again. With --json a line of JSON
    each. Ctrl-C ends it.
    """
    filters: Json = {"kind": kind, "project": run.project(project) if project else None, "agent": agent}
    show = _shower(run)
    try:
        if after is None:
            after = _newest(run)
            last = run.api.every("/api/v1/audit", limit=lines, cursor=str(after + 1), **filters) if lines else []
            earlier: Iterator[Json] = reversed(last)
        else:
            earlier = iter([] if follow else _after(run, after, filters))
        for it in earlier:
            show(_as_told(it))
    except NotAllowed:
        if not follow:  # agents may follow, and not read the log
            raise
    if follow:
        threading.Thread(target=_end_with_the_reader, daemon=True).start()
        for it in _follow(run, after, filters):
            show(it)


def _end_with_the_reader() -> None:
    """`| head` leaves when it has enough, which we would notice at the next event only."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # tells of errors alone: the pipe has no reader any more
    poll.poll()
    os._exit(0)


def _newest(run: Invocation) -> int:
    """The number of the newest event, whether we may see it or not."""
    following = run.api.get("/api/v1/audit", limit=1)["next"]
    return int(following or 0)


def _after(run: Invocation, number: int, filters: Json) -> Iterator[Json]:
    cursor: str | None = str(number)
    while cursor is not None:
        page = run.api.get("/api/v1/audit", newest_first=False, limit=500, cursor=cursor, **filters)
        yield from page["items"]
        cursor = page["next"]


def _as_told(it: Json) -> Json:
    """An entry of the audit log as the feed tells it."""
    return {"seq": it["seq"], "time": it["time"], "kind": it["kind"], "actor": it["actor"], "data": it["data"]}


def _shower(run: Invocation) -> Callable[[Json], None]:
    screen = run.screen

    def show(it: Json) -> None:
        if screen.as_json:
            screen.json_line(it)
        elif screen.quiet:
            screen.text(str(it["seq"]))
        else:
            actor, kind, told = (inert.line(text) for text in (it["actor"], it["kind"], _details(it["data"])))
            screen.feed_line(f"{it['seq']:>7}", moment(it["time"], seconds=True), kind, actor, told)

    return show


@dataclass(slots=True)
class _Frame:
    """A server-sent event as its lines come in."""

    number: str = ""
    kind: str = ""
    data: str = ""


def _follow(run: Invocation, after: int | None, filters: Json) -> Iterator[Json]:
    """Every event after that number, once and in order, over as many connections as it takes."""
    wait, connected = FIRST_WAIT, False
    while True:
        try:
            headers = {} if after is None else {"last-event-id": str(after)}
            with run.api.stream("/api/v1/events", headers, **filters) as lines:
                connected, wait = True, FIRST_WAIT
                for it in _events(lines):
                    if after is not None and it["seq"] <= after:
                        continue
                    after = it["seq"]
                    yield it
        except Unreachable as problem:
            if not connected:
                raise
            if wait == FIRST_WAIT:
                run.screen.note(f"{problem}; trying again")
        time.sleep(wait)
        wait = min(wait * 2, LONGEST_WAIT)
        run.find_again()


def _events(lines: Iterator[str]) -> Iterator[Json]:
    frame = _Frame()
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if frame.data:
                yield _told(frame)
            frame = _Frame()
        elif field == "id":
            frame.number = value
        elif field == "event":
            frame.kind = value
        elif field == "data":
            frame.data += value


def _told(frame: _Frame) -> Json:
    data = json.loads(frame.data)
    seq, moment_, actor = data.pop("seq"), data.pop("time"), data.pop("actor")
    return {"seq": seq, "time": moment_, "kind": frame.kind, "actor": actor, "data": data}


# The audit log --------------------------------------------------------------------------------------------------------


@audit.verb("log")
def log(
    run: Invocation,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    kind: Kind = None,
    actor: Annotated[str | None, Option(help="Who did it, such as operator:alice or agent:claude.")] = None,
    project: Project = None,
    agent: Agent = None,
    subject: Annotated[str | None, Option(help="About this id.")] = None,
) -> None:
    """Every change and every refusal, newest first."""
    found = run.api.every(
        "/api/v1/audit", limit=limit, kind=kind, actor=actor, agent=agent, subject=subject,
        project=run.project(project) if project else None,
    )  # fmt: skip
    run.screen.items(found, LOG, "nothing")


@audit.verb("verify")
def verify(
    run: Invocation,
    head: Annotated[str | None, Option(help="A head kept elsewhere: shows whether the end was cut off.")] = None,
) -> None:
    """Walk the hash chain, and say whether the log is what was written. Exit code 1 if it is not."""
    verdict = run.api.get("/api/v1/audit/verify", head=head)
    if verdict["ok"]:
        sentence = (
            f"The log is what was written: {verdict['checked']} events, up to {verdict['last']}.\n{verdict['head']}"
        )
        run.screen.done(verdict, sentence, verdict["head"])
        return
    if run.screen.as_json:
        run.screen.json(verdict)
    raise Problem(f"the log is not what was written: {verdict['problem']}")


@audit.verb("head")
def head(run: Invocation) -> None:
    """The newest event's hash, to keep elsewhere for `audit verify --head`."""
    page = run.api.get("/api/v1/audit", limit=1)
    if not page["items"]:
        raise Problem("the newest event is not yours to see: ask an admin")
    newest = page["items"][0]
    run.screen.done({"seq": newest["seq"], "hash": newest["hash"]}, newest["hash"], newest["hash"])


@audit.verb("prune")
def prune(run: Invocation, days: Annotated[float, Option(min=0, help="Older than so many days.")]) -> None:
    """Remove old events. The chain goes on, and says where it was cut."""
    run.screen.confirm(f"Remove the events that are older than {days:g} days, for ever?")
    gone = run.api.post("/api/v1/audit/prune", {"days": days}).body
    run.screen.done(gone, f"Removed {gone['removed']} events.", str(gone["removed"]))
