"""What an event is, and how events are chained.

Each event carries the hash of the one before it, so that an edited, removed or inserted row shows. The chain starts at
32 zero bytes; pruning cuts its old end and says so in an event of its own (`events_pruned`), which carries the hash that
the oldest remaining event must point to.
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


@dataclass(frozen=True, slots=True)
class Draft:
    """An event before it has a number."""

    kind: str
    by: Actor
    data: dict[str, Any]
    project: str | None
    agent: str | None
    subject: str | None

    @classmethod
    def of_refusal(cls, refusal: Refused, by: Actor) -> "Draft":
        data = {"code": refusal.code, "message": refusal.message, **refusal.details}
        return cls("refused", by, data, refusal.project, refusal.agent, refusal.subject)


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
        text = json.dumps(self.payload, ensure_ascii=False, separators=(",", ":"))
        return f"id: {self.seq}\nevent: {self.kind}\ndata: {text}\n\n".encode("utf-8", "backslashreplace")


COLUMNS = ("seq", "time", "kind", "actor", "via", "agent", "project", "subject", "data", "prev", "hash")


def digest(prev: bytes, *facts: object) -> bytes:
    return hashlib.sha256(prev + json.dumps(facts, separators=(",", ":")).encode()).digest()


def chained(drafts: Iterable[Draft], now: int, seq: int, last: bytes) -> Iterator[Event]:
    """The drafts as events that continue the chain after (`seq`, `last`)."""
    prev = last or GENESIS
    for draft in drafts:
        seq += 1
        data = json.dumps(draft.data, ensure_ascii=False, separators=(",", ":"))
        facts = (draft.kind, draft.by.name, draft.by.via, draft.agent, draft.project, draft.subject, data)
        new = digest(prev, seq, now, *facts)
        yield Event(seq, now, *facts, prev, new)
        prev = new


def intact(event: Event, prev: bytes) -> bool:
    """Whether the event is what was written after `prev`."""
    facts = (event.kind, event.actor, event.via, event.agent, event.project, event.subject, event.data)
    return event.prev == prev and event.hash == digest(prev, event.seq, event.time, *facts)


class Refusals:
    """Records every refusal, but the same one repeated within a minute only as a number, so that a caller who does
    not take no for an answer cannot fill the disk with it."""

    WINDOW = 60 * SECOND
    KNOWN = 10_000

    def __init__(self) -> None:
        self._repeats: dict[tuple[object, ...], tuple[int, int, Draft]] = {}

    def record(self, refusal: Refused, by: Actor, now: int) -> list[Draft]:
        key = (by.name, by.via, refusal.code, refusal.project, refusal.agent, refusal.subject)
        known = self._repeats.get(key)
        if known is not None and now - known[0] < self.WINDOW:
            since, repeats, draft = known
            self._repeats[key] = (since, repeats + 1, draft)
            return []
        due = self.due(now) if len(self._repeats) >= self.KNOWN else []
        if known is not None:
            due += self._told(key)
        if len(self._repeats) >= self.KNOWN:
            due += [told for other in list(self._repeats) for told in self._told(other)]
        draft = Draft.of_refusal(refusal, by)
        self._repeats[key] = (now, 0, draft)
        return [*due, draft]

    def due(self, now: int) -> list[Draft]:
        """What was repeated in windows that are over."""
        over = [key for key, (since, _, _) in self._repeats.items() if now - since >= self.WINDOW]
        return [told for key in over for told in self._told(key)]

    def _told(self, key: tuple[object, ...]) -> list[Draft]:
        _, repeats, draft = self._repeats.pop(key)
        return [replace(draft, data={**draft.data, "repeated": repeats})] if repeats else []
