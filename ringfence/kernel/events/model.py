"""What an event is, and how events are chained.

Each event carries the hash of the one before it, so that an edited, removed or inserted row shows. The chain starts
at 32 zero bytes; pruning cuts its old end and says so in an event of its own (`events_pruned`), which carries the hash
that the oldest remaining event must point to.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ringfence.kernel.clock import SECOND, iso
from ringfence.kernel.errors import Refused

GENESIS = bytes(32)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it: `operator:alice`, `agent:claude`, `system`; `via` is the operator who acted for an agent."""

    name: str
    via: str | None = None


SYSTEM = Actor("system")


# Made once: `json.dumps` makes an encoder each time, for a third of what it takes.
_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_FACTS = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Draft:
    """An event before it has a number. Its data is JSON already: what cannot be written fails the use case that
    recorded it, and not the others of its batch."""

    kind: str
    by: Actor
    data: str
    project: str | None
    agent: str | None
    subject: str | None

    @classmethod
    def of(
        cls, kind: str, by: Actor, data: dict[str, Any], project: str | None, agent: str | None, subject: str | None
    ) -> "Draft":
        text = _TEXT.encode(data)
        for part in (text, kind, by.name, by.via, project, agent, subject):
            if part is not None and not (part.isascii() and part.isprintable()):
                _check_text(part)
        return cls(kind, by, text, project, agent, subject)

    @classmethod
    def of_refusal(cls, refusal: Refused, by: Actor) -> "Draft":
        """Never fails: what a refusal names may be what it was refused for."""
        data = {**refusal.details, "code": refusal.code, "message": refusal.message}
        text = json.dumps(data, default=str, skipkeys=True, separators=(",", ":"))
        return cls("refused", by, text, *map(_as_text, (refusal.project, refusal.agent, refusal.subject)))


@dataclass(frozen=True)
class Event:
    seq: int
    time: int
    kind: str
    actor: str
    via: str | None
    agent: str | None
    project: str | None
    subject: str | None
    data: str
    prev: bytes
    hash: bytes

    def columns(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in COLUMNS}

    @cached_property
    def payload(self) -> dict[str, Any]:
        return {**json.loads(self.data), "time": iso(self.time), "seq": self.seq, "actor": self.actor}

    @cached_property
    def frame(self) -> bytes:
        """The event as the SSE stream carries it; encoded once for every subscriber."""
        text = _TEXT.encode(self.payload)
        return f"id: {self.seq}\nevent: {self.kind}\ndata: {text}\n\n".encode("utf-8", "backslashreplace")


def _check_text(part: str) -> None:
    if "\0" in part:
        raise ValueError(f"the character U+0000 cannot be recorded: {part[:80]!r}")
    part.encode()


def _as_text(part: str | None) -> str | None:
    return None if part is None else part.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


COLUMNS = ("seq", "time", "kind", "actor", "via", "agent", "project", "subject", "data", "prev", "hash")


def digest(prev: bytes, *facts: object) -> bytes:
    return hashlib.sha256(prev + _FACTS.encode(facts).encode()).digest()


def chained(drafts: Iterable[Draft], now: int, seq: int, last: bytes) -> Iterator[Event]:
    """The drafts as events that continue the chain after (`seq`, `last`)."""
    prev = last or GENESIS
    for draft in drafts:
        seq += 1
        facts = (draft.kind, draft.by.name, draft.by.via, draft.agent, draft.project, draft.subject, draft.data)
        new = digest(prev, seq, now, *facts)
        yield Event(seq, now, *facts, prev, new)
        prev = new


def intact(event: Event, prev: bytes) -> bool:
    """Whether the event is what was written after `prev`."""
    facts = (event.kind, event.actor, event.via, event.agent, event.project, event.subject, event.data)
    try:
        return event.prev == prev and event.hash == digest(prev, event.seq, event.time, *facts)
    except TypeError:  # SQLite keeps any type in any column
        return False


_Key = tuple[str | None, ...]
_Repeats = tuple[int, int, Draft]  # since when, how often more, the first


class Refusals:
    """Records every refusal, but the same one repeated within a minute only as a number, so that a caller who does
    not take no for an answer cannot fill the disk with it.

    What it remembers changes inside a batch, and `settle` takes that back when the batch was not committed."""

    WINDOW = 60 * SECOND
    KNOWN = 10_000

    def __init__(self) -> None:
        self._repeats: dict[_Key, _Repeats] = {}
        self._before: dict[_Key, _Repeats | None] = {}

    def record(self, refusal: Refused, by: Actor, now: int) -> list[Draft]:
        key = (by.name, by.via, refusal.code, refusal.project, refusal.agent, refusal.subject)
        known = self._repeats.get(key)
        if known is not None and now - known[0] < self.WINDOW:
            since, repeats, draft = known
            self._put(key, (since, repeats + 1, draft))
            return []
        due = self.due(now) if len(self._repeats) >= self.KNOWN else []
        if known is not None:
            due += self._told(key)
        if len(self._repeats) >= self.KNOWN:
            due += [told for other in list(self._repeats) for told in self._told(other)]
        draft = Draft.of_refusal(refusal, by)
        self._put(key, (now, 0, draft))
        return [*due, draft]

    def due(self, now: int) -> list[Draft]:
        """What was repeated in windows that are over."""
        over = [key for key, (since, _, _) in self._repeats.items() if now - since >= self.WINDOW]
        return [told for key in over for told in self._told(key)]

    def settle(self, committed: bool) -> None:
        """The batch is over."""
        before, self._before = self._before, {}
        if not committed:
            for key, known in before.items():
                if known is None:
                    self._repeats.pop(key, None)
                else:
                    self._repeats[key] = known

    def _told(self, key: _Key) -> list[Draft]:
        _, repeats, draft = self._repeats[key]
        self._put(key, None)
        if not repeats:
            return []
        return [replace(draft, data=json.dumps({**json.loads(draft.data), "repeated": repeats}, separators=(",", ":")))]

    def _put(self, key: _Key, known: _Repeats | None) -> None:
        self._before.setdefault(key, self._repeats.get(key))
        if known is None:
            del self._repeats[key]
        else:
            self._repeats[key] = known
