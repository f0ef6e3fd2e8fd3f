"""The live feed and the audit log, over HTTP."""

import contextlib
import json
import re
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from ringfence.kernel.auth.model import Principal, Role
from ringfence.kernel.clock import DAY, iso
from ringfence.kernel.database import Database
from ringfence.kernel.errors import Forbidden, Invalid, NotFound
from ringfence.kernel.events import export
from ringfence.kernel.events.model import Event
from ringfence.kernel.events.service import (
    ALL,
    Feed,
    Verdict,
    Verifications,
    Wanted,
    one,
    page,
    prune,
    verified,
    verify,
)
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Page
from ringfence.kernel.http.openapi import Listed
from ringfence.kernel.http.stream import Download, EventStream

# What the hub's audit log called these; everything else goes by the event's own name.
HUB_ACTIONS = {
    "agent_registered": "register",
    "agent_unregistered": "unregister",
    "agent_autonomy_changed": "set_autonomy",
    "agent_capabilities_changed": "set_capabilities",
    "checkpoint_submitted": "checkpoint",
    "message_sent": "send_message",
    "project_created": "create_project",
    "agent_joined_project": "join_project",
    "file_uploaded": "upload_file",
    "agent_revoked": "revoke_agent",
    "agent_paused": "pause_agent",
    "agent_resumed": "resume_agent",
    "task_assigned": "assign_task",
}
# Who administers this installation is no agent's business, and only their own of it that of people with some projects.
# What agents say is for whom they say it to, and where they run is theirs; and for those who see everything.
BETWEEN_AGENTS = ("message_sent", "checkpoint_submitted", "proposal_", "sandbox_", "snapshot_", "fence_")
FOR_PEOPLE = ("token_", "person_", "refused", "events_pruned", "audit_", "backup_", "retention_")
NUMBER = re.compile(r"[0-9]{1,18}")


class StreamQuery(Fields):
    after: Annotated[int, Field(ge=0, le=(1 << 62))] | None = Field(None, description="As Last-Event-ID.")
    kind: Annotated[str, Field(max_length=64)] | None = None
    project: Annotated[str, Field(max_length=64)] | None = None
    agent: Annotated[str, Field(max_length=64)] | None = None


class LogQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=10_000)] = 100


class ExportQuery(Fields):
    kind: Annotated[
        list[Annotated[str, Field(max_length=64)]], Field(max_length=100, description="Of one of these kinds.")
    ] = []
    actor: Annotated[str, Field(max_length=80)] | None = None
    agent: Annotated[str, Field(max_length=64)] | None = Field(None, description="Whom it concerns.")
    involves: Annotated[str, Field(max_length=64)] | None = Field(None, description="The agent it concerns, or did it.")
    project: Annotated[str, Field(max_length=64)] | None = None
    subject: Annotated[str, Field(max_length=64)] | None = None

    @property
    def wanted(self) -> Wanted:
        names = ("actor", "agent", "project", "subject")
        columns = {name: value for name in names if (value := getattr(self, name)) is not None}
        return Wanted(columns, tuple(dict.fromkeys(self.kind)), self.involves)


class AuditQuery(ExportQuery):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(pattern=r"^\d{1,18}$")] | None = None
    newest_first: bool = True


class VerifyQuery(Fields):
    head: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        None, description="A head kept elsewhere: shows whether the chain's end was cut off."
    )


class PruneBody(Fields):
    days: Annotated[float, Field(ge=0, le=36500)] = Field(description="Events older than this many days are removed.")


class LogEntry(TypedDict):
    timestamp: str
    agent: str
    action: str
    details: dict[str, Any]


class EventView(TypedDict):
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


class VerdictView(TypedDict):
    ok: bool
    checked: int
    first: int
    last: int
    head: str
    problem: str | None
    at: Annotated[int | None, Field(description="The event at which something is wrong.")]


class KeptVerdict(VerdictView):
    time: str
    by: str


class VerificationView(TypedDict):
    newest: Annotated[int, Field(description="The number of the newest event.")]
    last: Annotated[KeptVerdict | None, Field(description="The newest verification that was kept.")]


class Pruned(TypedDict):
    removed: int


def event_view(event: Event) -> EventView:
    data = {name: value for name, value in event.payload.items() if name not in ("time", "seq", "actor")}
    return {
        "seq": event.seq,
        "time": iso(event.time),
        "kind": event.kind,
        "actor": event.actor,
        "via": event.via,
        "agent": event.agent,
        "project": event.project,
        "subject": event.subject,
        "data": data,
        "prev": event.prev.hex(),
        "hash": event.hash.hex(),
    }


def log_entry(event: Event) -> LogEntry:
    """As the hub's audit log shows it: without what a message says."""
    details = dict(event_view(event)["data"])
    details.pop("content", None)
    if event.via is not None:
        details["via"] = event.via
    action = HUB_ACTIONS.get(event.kind, event.kind)
    return {
        "timestamp": iso(event.time),
        "agent": event.actor.partition(":")[2] or event.actor,
        "action": action,
        "details": details,
    }


def verdict_view(verdict: Verdict) -> VerdictView:
    return {
        "ok": verdict.ok,
        "checked": verdict.checked,
        "first": verdict.first,
        "last": verdict.last,
        "head": verdict.head,
        "problem": verdict.problem,
        "at": verdict.at,
    }


def kept_verdict(event: Event) -> KeptVerdict:
    told = json.loads(event.data)
    verdict = Verdict(**{name: told[name] for name in Verdict.__slots__})
    return {**verdict_view(verdict), "time": iso(event.time), "by": event.actor}


def visible(principal: Principal, sees: Callable[[Principal, str | None], bool]) -> Callable[[Event], bool] | None:
    """Which events this principal may see; None: all of them."""
    if principal.may(Role.VIEWER) and principal.projects is None:
        return None
    if principal.is_person:
        return lambda event: (
            sees(principal, event.project)
            if event.project is not None or not event.kind.startswith((*FOR_PEOPLE, *BETWEEN_AGENTS))
            else principal.actor.name == event.actor or principal.name == event.subject
        )
    return lambda event: (
        not event.kind.startswith(FOR_PEOPLE)
        and sees(principal, event.project)
        and (not event.kind.startswith(BETWEEN_AGENTS) or _concerns(principal.name, event))
    )


def _concerns(agent: str, event: Event) -> bool:
    return agent == event.agent or event.payload.get("to") in (agent, "*")


def routes(feed: Feed, database: Database, sees: Callable[[Principal, str | None], bool]) -> Api:
    api = Api("events")
    verifications = Verifications(database)

    @api.route("GET", "/events", "/api/v1/events", access=Access.READ, query=StreamQuery, media="text/event-stream")
    async def stream(call: Call[Fields, StreamQuery]) -> Response:
        """Every change as it happens, as server-sent events.

        `Last-Event-ID` (or `after`) replays what was missed. Narrowed by `kind`, `project` and `agent`."""
        query = call.query
        last = call.request.headers.get("last-event-id")
        if last is not None and not (last.isascii() and last.isdigit() and len(last) < 19):
            raise Invalid(f"Last-Event-ID {last[:80]!r} is not the number of an event", code="invalid_event_id")
        after = int(last) if last is not None else query.after
        may_see = visible(call.principal, sees)
        wanted = {name: value for name in ("kind", "project", "agent") if (value := getattr(query, name)) is not None}
        agent = call.principal.name if call.principal.is_agent else None
        if not wanted:
            return EventStream(feed.stream(after, may_see, agent))

        def wants(event: Event) -> bool:
            return (may_see is None or may_see(event)) and all(
                getattr(event, name) == value for name, value in wanted.items()
            )

        return EventStream(feed.stream(after, wants, agent))

    @api.route("GET", "/audit/log", access=Access.VIEW, query=LogQuery, answers=list[LogEntry])
    async def audit_log(call: Call[Fields, LogQuery]) -> list[LogEntry]:
        """The last entries of the audit log, oldest first."""
        found, _ = await call.read(lambda tx: page(tx, ALL, None, call.query.limit, newest_first=True))
        may_see = visible(call.principal, sees)
        return [log_entry(event) for event in reversed(found) if may_see is None or may_see(event)]

    @api.route("GET", "/api/v1/audit", access=Access.VIEW, query=AuditQuery, answers=Listed(EventView))
    async def audit(call: Call[Fields, AuditQuery]) -> Page:
        """The audit log: every change and every refusal, in pages.

        A page may hold few events, or none, and not be the last: go on while there is a `next`."""
        query = call.query
        limit = query.limit or call.server.settings.page_size
        cursor = None if query.cursor is None else int(query.cursor)
        found, following = await call.read(
            lambda tx: page(tx, query.wanted, cursor, limit, newest_first=query.newest_first)
        )
        may_see = visible(call.principal, sees)
        items = [event_view(event) for event in found if may_see is None or may_see(event)]
        return Page(items, None if following is None else str(following))

    @api.route("GET", "/api/v1/audit/events/{seq}", access=Access.VIEW, answers=EventView)
    async def event(call: Call[Fields, Fields]) -> EventView:
        """One event."""
        seq = call["seq"]
        found = await call.read(lambda tx: one(tx, int(seq))) if NUMBER.fullmatch(seq) else None
        may_see = visible(call.principal, sees)
        if found is None or (may_see is not None and not may_see(found)):
            raise NotFound(f"there is no event {seq!r:.40} here: it was never recorded, was pruned, or is not yours")
        return event_view(found)

    def download(call: Call[Fields, ExportQuery], form: export.Form) -> Download:
        may_see = visible(call.principal, sees)
        lines = export.lines(database, call.query.wanted, may_see or (lambda event: True), form)
        return Download(lines, form.media, f"ringfence-audit-{iso(database.clock.now())[:10]}.{form.ending}")

    @api.route(
        "GET", "/api/v1/audit/export.ndjson", access=Access.VIEW, query=ExportQuery, media=export.NDJSON.media
    )  # fmt: skip
    async def export_ndjson(call: Call[Fields, ExportQuery]) -> Response:
        """Download what is in the audit log now, oldest first, as one JSON object a line."""
        return download(call, export.NDJSON)

    @api.route("GET", "/api/v1/audit/export.csv", access=Access.VIEW, query=ExportQuery, media=export.CSV.media)
    async def export_csv(call: Call[Fields, ExportQuery]) -> Response:
        """Download what is in the audit log now, oldest first, as a table.

        A text that a spreadsheet would take for a formula has an apostrophe before it."""
        return download(call, export.CSV)

    @api.route("GET", "/api/v1/audit/verify", access=Access.VIEW, query=VerifyQuery, answers=VerdictView)
    async def verify_chain(call: Call[Fields, VerifyQuery]) -> VerdictView:
        """Walk the hash chain and say whether the log is what was written."""
        return verdict_view(await verify(database, call.query.head))

    @api.route("POST", "/api/v1/audit/verify", access=Access.STEER, media="text/event-stream")
    async def verify_now(call: Call[Fields, Fields]) -> Response:
        """Walk the hash chain, telling how far it came, and keep what came of it.

        Server-sent events: `progress` (`checked` events `of` so many), and last the `verdict`, which the event
        `audit_verified` keeps. One at a time."""
        return EventStream(_progress(verifications.begin(call.principal.actor), feed))

    @api.route("GET", "/api/v1/audit/verification", access=Access.VIEW, answers=VerificationView)
    async def verification(call: Call[Fields, Fields]) -> VerificationView:
        """When the chain was verified last, and what came of it."""
        kept = await call.read(verified)
        return {"newest": feed.last, "last": None if kept is None else kept_verdict(kept)}

    @api.route("POST", "/api/v1/audit/prune", access=Access.CONFIGURE, body=PruneBody, answers=Pruned)
    async def prune_events(call: Call[PruneBody, Fields]) -> Answer:
        """Remove old events. The chain goes on, and says where it was cut."""
        if call.principal.projects is not None:
            raise Forbidden("the audit log is of all projects, and you see only some")
        return await call.commit(
            lambda tx: {"removed": prune(tx, tx.now - int(call.body.days * DAY), call.principal.actor)}
        )

    return api


async def _progress(verdicts: AsyncGenerator[Verdict, None], feed: Feed) -> AsyncGenerator[bytes, None]:
    newest = feed.last
    async with contextlib.aclosing(verdicts):
        async for found in verdicts:
            if feed.closing:
                return
            of = max(found.checked, newest - found.first + 1 if found.checked else 0)
            yield _frame("progress", {"checked": found.checked, "of": of})
    yield _frame("verdict", verdict_view(found))


def _frame(kind: str, data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
