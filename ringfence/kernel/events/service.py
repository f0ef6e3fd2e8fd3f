"""The feed of events as they are committed, and the audit log behind it.

Subscribers hold a number, not a queue: each is served from the ring of recent events, or from the table when it has
fallen further behind. So a slow one costs nothing, loses nothing, and `Last-Event-ID` is just another number.
"""

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import cache

from ringfence.kernel import database as db
from ringfence.kernel.clock import DAY
from ringfence.kernel.errors import RateLimited, Unavailable
from ringfence.kernel.events import store
from ringfence.kernel.events.model import GENESIS, SYSTEM, Actor, Event, intact

RING = 8192
PRUNED_AT_ONCE = 20_000
CHUNK = 512
SUBSCRIBERS = 5000
OF_ONE_AGENT = 20  # streams: no agent takes them all from the others
KEEPALIVE = 15.0
BEFORE_ALL = -(1 << 63)  # an event put before the first one is to be found too
WALK = 2000  # events read at once when the whole chain is walked
STUCK = 300.0  # seconds one write to a subscriber may take

AFTER = db.Query(store.AFTER)
ONE = db.Query(store.ONE)
DELETE_BEFORE = db.Query(store.DELETE_BEFORE)
PRUNINGS = db.Query(store.PRUNINGS)

log = logging.getLogger("ringfence.events")


@cache
def _listing(filters: frozenset[str], newest_first: bool) -> db.Query:
    return db.Query(store.listing(filters, newest_first=newest_first))


def read_after(tx: db.Transaction, after: int, limit: int) -> list[Event]:
    return [_event(row) for row in tx.rows(AFTER, after=after, limit=limit)]


def page(
    tx: db.Transaction, filters: dict[str, str], cursor: int | None, limit: int, *, newest_first: bool
) -> list[Event]:
    start = cursor if cursor is not None else (1 << 62 if newest_first else 0)
    query = _listing(frozenset(filters), newest_first)
    return [_event(row) for row in tx.rows(query, cursor=start, limit=limit, **filters)]


def _event(row: db.Row) -> Event:
    seq, time, kind, actor, via, agent, project, subject, data, prev, hashed = row
    return Event(seq, time, kind, actor, via, agent, project, subject, data, bytes(prev), bytes(hashed))


class Feed:
    def __init__(self, database: db.Database, *, keepalive: float = KEEPALIVE, subscribers: int = SUBSCRIBERS) -> None:
        self._database = database
        self._keepalive = keepalive
        self._most_subscribers = subscribers
        self._ring: list[Event] = []
        self._changed = asyncio.Event()
        self._behind = asyncio.Event()
        self._listeners: list[Callable[[list[Event]], None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._sending: dict[asyncio.Task[object], float] = {}
        self._joined: tuple[int, int, bytes] = (0, 0, b"")
        self.last = 0
        self.closing = False
        self.subscribers = 0
        self._of_agents: Counter[str] = Counter()

    async def open(self) -> None:
        self.last = await self._head()
        self._database.on_commit.append(self._committed)
        self._tasks.append(asyncio.create_task(self._tick(), name="feed keepalive"))
        self._tasks.append(asyncio.create_task(self._catch_up(), name="feed catch up"))
        if isinstance(self._database.backend, db.PostgreSQL):
            self._tasks.append(asyncio.create_task(self._listen(self._database.backend.url), name="feed listen"))

    def drain(self) -> None:
        """End every stream at its next event; clients reconnect with the last number they saw."""
        self.closing = True
        self._wake()

    async def close(self) -> None:
        self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def listen(self, listener: Callable[[list[Event]], None]) -> None:
        """Call `listener`, on the loop, with every batch of events in order, whichever server committed it."""
        self._listeners.append(listener)

    def stream(
        self, after: int | None, wants: Callable[[Event], bool] | None, agent: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Frames of the events after number `after` (None: from now on); ends when the server drains."""
        if self.subscribers >= self._most_subscribers:
            raise Unavailable(f"{self._most_subscribers} event streams are open already; close some, or repeat later")
        if agent is not None and self._of_agents[agent] >= OF_ONE_AGENT:
            raise RateLimited(
                f"agent {agent!r} has {OF_ONE_AGENT} event streams open already: close one, then repeat",
                retry_after=5, agent=agent,
            )  # fmt: skip
        return self._stream(self.last if after is None else after, wants, agent)

    async def _stream(
        self, cursor: int, wants: Callable[[Event], bool] | None, agent: str | None
    ) -> AsyncGenerator[bytes, None]:
        self.subscribers += 1
        if agent is not None:
            self._of_agents[agent] += 1
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        try:
            if cursor > self.last:  # seen on a server that is ahead of this one, or made up
                cursor = min(cursor, await self._head())
            # With a number at once, a client that saw no event yet misses none when it has to reconnect.
            yield b"id: %d\nretry: 1000\n: connected\n\n" % cursor
            while not self.closing:
                changed = self._changed
                if cursor >= self.last:
                    await changed.wait()
                    if cursor >= self.last:
                        yield b": keepalive\n\n"
                        continue
                cursor, chunk = await self._next(cursor, wants)
                if chunk:
                    self._sending[task] = loop.time()
                    yield chunk
                    self._sending.pop(task, None)
                else:
                    await asyncio.sleep(0)
        finally:
            self._sending.pop(task, None)
            self.subscribers -= 1
            if agent is not None:
                self._of_agents[agent] -= 1
                self._of_agents += Counter()  # forgets who has none

    async def _next(self, cursor: int, wants: Callable[[Event], bool] | None) -> tuple[int, bytes]:
        """The next chunk after `cursor`, and where it ends."""
        if self._ring and cursor + 1 >= self._ring[0].seq:
            start = cursor + 1 - self._ring[0].seq
            events = self._ring[start : start + CHUNK]
        else:
            events = await self._database.read(lambda tx: read_after(tx, cursor, CHUNK))
            if not events:
                return max(cursor, self.last), b""
        end = events[-1].seq
        if wants is not None:
            return end, b"".join([event.frame for event in events if wants(event)])
        if self._joined[:2] != (cursor, end):
            self._joined = (cursor, end, b"".join([event.frame for event in events]))
        return end, self._joined[2]

    async def _head(self) -> int:
        head = await self._database.read(lambda tx: tx.row(db.HEAD_QUERY))
        return head[0] if head else 0

    def _committed(self, events: list[Event]) -> None:
        if events[0].seq == self.last + 1:
            self._publish(events)
        elif events[0].seq > self.last:  # another process's events lie between
            self._behind.set()

    def _publish(self, events: list[Event]) -> None:
        if events[0].seq != self.last + 1:  # what lies between was pruned; the ring has no gaps
            self._ring.clear()
        self._ring += events
        if len(self._ring) > 2 * RING:
            del self._ring[:-RING]
        self.last = events[-1].seq
        for listener in self._listeners:
            try:
                listener(events)
            except Exception:
                log.exception("listener_failed")
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._keepalive)
            self._wake()
            for task, since in list(self._sending.items()):
                if loop.time() - since > STUCK:
                    task.cancel()

    # Other processes on the same database: servers on PostgreSQL, the command line on SQLite ------------------------

    async def _catch_up(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._behind.wait(), 1.0)
            self._behind.clear()
            try:
                while events := await self._database.read(lambda tx: read_after(tx, self.last, CHUNK)):
                    events = [event for event in events if event.seq > self.last]  # published while we read
                    if events:
                        self._publish(events)
            except Exception as error:
                log.warning("feed_behind: %s", error)

    async def _listen(self, url: str) -> None:
        import psycopg

        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
                async with connection:
                    await connection.execute("LISTEN ringfence_events")
                    async for note in connection.notifies():
                        if int(note.payload) > self.last:
                            self._behind.set()
            except Exception as error:
                log.warning("listen_failed: %s", error)
            await asyncio.sleep(1)


# The audit log --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    ok: bool
    checked: int
    first: int
    last: int
    head: str
    problem: str | None = None


async def verify(database: db.Database, expected_head: str | None = None) -> Verdict:
    """Walk the whole chain. `expected_head`, kept elsewhere, also shows a cut-off end."""
    checked = first = last = 0
    prev = GENESIS
    seen_expected = False

    def verdict(problem: str | None) -> Verdict:
        return Verdict(problem is None, checked, first, last, prev.hex(), problem)

    after, size = BEFORE_ALL, WALK
    while True:
        try:
            chunk = await database.read(lambda tx, after=after, size=size: read_after(tx, after, size))  # type: ignore[misc]
        except Unavailable:
            raise
        except Exception as error:  # text that is none, a number that is text: find the one
            if size == 1:
                return verdict(f"the event after {last} cannot be read ({error})")
            size = 1
            continue
        for event in chunk:
            if not checked or event.seq != last + 1:
                problem = await _wrong_start(database, event, last if checked else None)
                if problem:
                    return verdict(problem)
                prev = event.prev  # the chain begins here, or was pruned up to here while we walked
            if not intact(event, prev):
                return verdict(f"event {event.seq} is not as it was written")
            first, last, prev, after = first or event.seq, event.seq, event.hash, event.seq
            checked += 1
            seen_expected = seen_expected or event.hash.hex() == expected_head
        if not chunk:
            break
    if expected_head is not None and not seen_expected:
        return verdict(f"the expected head {expected_head} is not in the chain")
    return verdict(None)


async def _wrong_start(database: db.Database, event: Event, last: int | None) -> str | None:
    """What is wrong with an event that does not follow the `last`; nothing if it begins the chain, or where a pruning
    ended."""
    if not isinstance(event.seq, int) or event.seq < 1:
        return f"event {event.seq!r} does not belong to the chain"
    if event.seq == 1:
        return None if event.prev == GENESIS else "event 1 does not begin the chain"
    for row in await database.read(lambda tx: tx.rows(PRUNINGS)):
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # edited, as the walk will tell
            pruning = json.loads(_event(row).data)
            if pruning.get("through") == event.seq - 1 and pruning.get("hash") == event.prev.hex():
                return None
    if last is None:
        return f"the events before {event.seq} are missing, and no pruning tells of it"
    if event.seq == last + 2:
        return f"event {last + 1} is missing"
    return f"events {last + 1} to {event.seq - 1} are missing"


def prune(tx: db.Transaction, before: int, by: Actor = SYSTEM, at_most: int | None = None) -> int:
    """Remove the events older than `before`; the newest always stays. Returns how many went."""
    oldest, head = tx.rows(AFTER, after=0, limit=1), tx.row(db.HEAD_QUERY)
    if head is None or not oldest:
        return 0
    first = oldest[0][0]
    keep = _first_since(tx, before, first, head[0])
    keep = keep if at_most is None else min(keep, first + at_most)
    if keep == first:
        return 0
    gone = tx.run(DELETE_BEFORE, seq=keep)
    tx.record("events_pruned", by, {"through": keep - 1, "hash": _at(tx, keep).prev.hex(), "count": gone})
    return gone


def prune_old(tx: db.Transaction, days: float) -> int:
    """Remove some of what is older than events are kept, where that is limited; the rest next time."""
    return prune(tx, tx.now - int(days * DAY), at_most=PRUNED_AT_ONCE) if days else 0


def _first_since(tx: db.Transaction, moment: int, first: int, last: int) -> int:
    """The first event of that moment or later, else the last: numbers have no gaps, and time goes up with them."""
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if _at(tx, middle).time >= moment else (middle + 1, last)
    return first


def _at(tx: db.Transaction, seq: int) -> Event:
    row = tx.row(ONE, seq=seq)
    assert row is not None, f"event {seq} is missing"
    return _event(row)
