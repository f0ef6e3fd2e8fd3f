"""The audit log as a file to take away: written while it is sent, so that a long log needs no memory."""

import csv
import io
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from ringfence.kernel.clock import iso
from ringfence.kernel.database import HEAD_QUERY, Database, Transaction
from ringfence.kernel.events.model import Event
from ringfence.kernel.events.service import Wanted, page

AT_ONCE = 250
COLUMNS = ("seq", "time", "kind", "actor", "via", "agent", "project", "subject", "data", "prev", "hash")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Form:
    ending: str
    media: str
    head: bytes
    line: Callable[[Event], str]


def _json_line(event: Event) -> str:
    facts = dict(zip(COLUMNS, _facts(event), strict=True)) | {"data": json.loads(event.data)}
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) + "\n"


def _csv_line(event: Event) -> str:
    line = io.StringIO()
    csv.writer(line).writerow([_cell(fact) for fact in _facts(event)])
    return line.getvalue()


def _facts(event: Event) -> tuple[int | str | None, ...]:
    return (
        event.seq, iso(event.time), event.kind, event.actor, event.via, event.agent, event.project, event.subject,
        event.data, event.prev.hex(), event.hash.hex(),
    )  # fmt: skip


def _cell(fact: int | str | None) -> int | str | None:
    """Names and subjects are anybody's; in a spreadsheet they are text, never a formula."""
    return f"'{fact}" if isinstance(fact, str) and fact.startswith(FORMULA) else fact


NDJSON = Form("ndjson", "application/x-ndjson", b"", _json_line)
CSV = Form("csv", "text/csv", ",".join(COLUMNS).encode() + b"\r\n", _csv_line)


async def lines(
    database: Database, wanted: Wanted, may_see: Callable[[Event], bool], form: Form
) -> AsyncGenerator[bytes, None]:
    """The events up to the one that is the newest now, oldest first."""
    newest = await database.read(lambda tx: tx.row(HEAD_QUERY))
    end = newest[0] if newest else 0
    yield form.head
    cursor: int | None = 0
    while cursor is not None and cursor < end:

        def next_page(tx: Transaction, after: int = cursor) -> tuple[list[Event], int | None]:
            return page(tx, wanted, after, AT_ONCE, newest_first=False)

        found, cursor = await database.read(next_page)
        if text := "".join(form.line(event) for event in found if event.seq <= end and may_see(event)):
            yield text.encode("utf-8", "backslashreplace")
