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
from dataclasses import asdict, dataclass
from functools import cache, partial

from ringfence.kernel import database as db
from ringfence.kernel.clock import DAY
from ringfence.kernel.errors import Conflict, RateLimited, Unavailable
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
LOOKED = 50_000  # events that one page looks at where no index finds those that are wanted
STUCK = 300.0  # seconds one write to a subscriber may take

AFTER = db.Query(store.AFTER)
ONE = db.Query(store.ONE)
DELETE_BEFORE = db.Query(store.DELETE_BEFORE)
PRUNINGS = db.Query(store.PRUNINGS)
FIRST = db.Query(store.FIRST)
VERIFIED = db.Query(store.VERIFIED)

log = logging.getLogger("ringfence.events")


@cache
def _listing(filters: frozenset[str], kinds: int, newest_first: bool) -> db.Query:
    return db.Query(store.listing(filters, kinds, newest_first=newest_first))


def read_after(tx: db.Transaction, after: int, limit: int) -> list[Event]:
    return [_event(row) for row in tx.rows(AFTER, after=after, limit=limit)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events: by equality on columns; of these kinds (none: of any); that an agent did or is concerned by."""

    columns: dict[str, str]
    kinds: tuple[str, ...] = ()
    involves: str | None = None

    @property
    def looked_for(self) -> bool:
        """Whether only looking at events one by one finds them."""
        narrow = bool(self.columns or self.kinds or self.involves)
        return narrow and "project" not in self.columns and "subject" not in self.columns

    def rows(self, tx: db.Transaction, cursor: int, end: int, limit: int, newest_first: bool) -> list[db.Row]:
        params: dict[str, str] = {**self.columns, **{f"kind_{at}": kind for at, kind in enumerate(self.kinds)}}
        names = set(self.columns)
        if self.involves is not None:
            names.add("involves")
            params |= {"involves": self.involves, "involves_actor": f"agent:{self.involves}"}
        query = _listing(frozenset(names), len(self.kinds), newest_first)
        return tx.rows(query, cursor=cursor, end=end, limit=limit, **params)


ALL = Wanted({})


def page(
    tx: db.Transaction, wanted: Wanted, cursor: int | None, limit: int, *, newest_first: bool
) -> tuple[list[Event], int | None]:
    """Events on one side of the cursor, and the cursor to go on with; None at the end. A page of few, or of none, need
    not be the last: one page looks at so many events only."""
    oldest, head = tx.row(FIRST), tx.row(db.HEAD_QUERY)
    first, last = (oldest[0], head[0]) if oldest and head else (0, 0)
    if newest_first:
        start = last + 1 if cursor is None else min(cursor, last + 1)
        end = max(first, start - LOOKED) if wanted.looked_for else first
    else:
        start = first - 1 if cursor is None else max(cursor, first - 1)
        end = min(last, start + LOOKED) if wanted.looked_for else last
    found = [_event(row) for row in wanted.rows(tx, start, end, limit, newest_first)]
    if len(found) == limit:
        return found, found[-1].seq
    return found, None if end == (first if newest_first else last) else end


def one(tx: db.Transaction, seq: int) -> Event | None:
    row = tx.row(ONE, seq=seq)
    return None if row is None else _event(row)


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
    """What a walk over the chain found; `at` is the event at which it ended, when something is wrong."""

    ok: bool
    checked: int
    first: int
    last: int
    head: str
    problem: str | None = None
    at: int | None = None


async def verify(database: db.Database, expected_head: str | None = None) -> Verdict:
    """Walk the whole chain. `expected_head`, kept elsewhere, also shows a cut-off end."""
    async for verdict in walk(database, expected_head):
        found = verdict
    return found


async def walk(database: db.Database, expected_head: str | None = None) -> AsyncGenerator[Verdict, None]:
    """The same, telling how far it came; the last verdict is the one that counts."""
    steps, size, more = _Walk(expected_head), WALK, True
    while more:
        try:
            more = await database.read(partial(steps.step, size=size))
        except Unavailable:
            raise
        except Exception as error:  # text that is none, a number that is text: find the one
            if size == 1:
                steps.problem = f"the event after {steps.last} cannot be read ({error})"
                break
            size = 1
            continue
        if more:
            yield steps.verdict()
    steps.end()
    yield steps.verdict()


class _Walk:
    def __init__(self, expected_head: str | None) -> None:
        self.checked = self.first = self.last = 0
        self.problem: str | None = None
        self._at: int | None = None
        self._prev = GENESIS
        self._after = BEFORE_ALL
        self._expected = expected_head
        self._seen = expected_head is None

    def step(self, tx: db.Transaction, size: int) -> bool:
        """Check the next events; False when there are none, or one is wrong."""
        chunk = read_after(tx, self._after, size)
        for event in chunk:
            if not self.checked or event.seq != self.last + 1:
                self.problem = _wrong_start(tx, event, self.last if self.checked else None)
                if self.problem is None:
                    self._prev = event.prev  # the chain begins here, or was pruned up to here while we walked
            if self.problem is None and not intact(event, self._prev):
                self.problem = f"event {event.seq} is not as it was written"
            if self.problem is not None:
                self._at = event.seq if isinstance(event.seq, int) else None
                return False
            self.first, self.last, self._prev = self.first or event.seq, event.seq, event.hash
            self._after = event.seq
            self.checked += 1
            self._seen = self._seen or event.hash.hex() == self._expected
        return bool(chunk)

    def end(self) -> None:
        if self.problem is None and not self._seen:
            self.problem = f"the expected head {self._expected} is not in the chain"

    def verdict(self) -> Verdict:
        ok, head = self.problem is None, self._prev.hex()
        return Verdict(ok, self.checked, self.first, self.last, head, self.problem, self._at)


def _wrong_start(tx: db.Transaction, event: Event, last: int | None) -> str | None:
    """What is wrong with an event that does not follow the `last`; nothing if it begins the chain, or where a pruning
    ended."""
    if not isinstance(event.seq, int) or event.seq < 1:
        return f"event {event.seq!r} does not belong to the chain"
    if event.seq == 1:
        return None if event.prev == GENESIS else "event 1 does not begin the chain"
    for row in tx.rows(PRUNINGS):
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # edited, as the walk will tell
            pruning = json.loads(_event(row).data)
            if pruning.get("through") == event.seq - 1 and pruning.get("hash") == event.prev.hex():
                return None
    if last is None:
        return f"the events before {event.seq} are missing, and no pruning tells of it"
    if event.seq == last + 2:
        return f"event {last + 1} is missing"
    return f"events {last + 1} to {event.seq - 1} are missing"


class Verifications:
    """Walks over the chain that people asked for; what came of each is an event."""

    def __init__(self, database: db.Database) -> None:
        self._database = database
        self._walking = False

    def begin(self, by: Actor) -> AsyncGenerator[Verdict, None]:
        """As `walk`; whoever leaves before the end leaves nothing behind."""
        if self._walking:
            raise Conflict(
                "the chain is being verified already: its outcome will be here in a moment", code="verifying"
            )
        return self._walk(by)

    async def _walk(self, by: Actor) -> AsyncGenerator[Verdict, None]:
        self._walking = True
        try:
            async with contextlib.aclosing(walk(self._database)) as verdicts:
                async for found in verdicts:
                    yield found
        finally:
            self._walking = False
        await self._database.write(lambda tx: tx.record("audit_verified", by, asdict(found)), by)


def verified(tx: db.Transaction) -> Event | None:
    """What the last verification found."""
    row = tx.row(VERIFIED)
    return None if row is None else _event(row)


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
