"""Event streams over HTTP: nothing is lost, nothing comes twice, and a slow reader slows nobody."""

import asyncio
import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ringfence.kernel.auth.model import Role, TokenKind
from ringfence.kernel.events.model import SYSTEM
from ringfence.kernel.events.service import CHUNK, OF_ONE_AGENT, RING, Feed, verify
from tests.harness import Ringfence, running
from tests.kernel.conftest import Place
from tests.kernel.wire import Stream, ask, request, stream, until, wire


def tell(server: Ringfence, count: int = 1, kind: str = "told", size: int = 0, **more: str) -> int:
    """Record events; the number of the last one."""

    def use_case(tx: Any) -> None:
        for number in range(count):
            tx.record(kind, SYSTEM, {"n": number, "text": "x" * size}, **more)

    server.write(use_case)
    return server.house.feed.last


def test_headers_arrive_at_once_though_nothing_happens(server: Ringfence) -> None:
    started = time.monotonic()
    with stream(server) as events:
        assert events.status == 200
        assert events.headers["content-type"].startswith("text/event-stream")
        assert "no-cache" in events.headers["cache-control"]
        assert events.block() == {"id": str(server.house.feed.last), "retry": "1000", "": "connected"}
    assert time.monotonic() - started < 5


def test_an_event_arrives_as_it_was_recorded(either: Ringfence) -> None:
    with stream(either) as events:
        events.block()
        last = tell(either, kind="task_claimed", project="prj_a")
        found = events.event()
        assert found is not None
        assert (found["id"], found["event"]) == (str(last), "task_claimed")
        data = json.loads(found["data"])
        assert (data["n"], data["seq"], data["actor"]) == (0, last, "system")
        assert data["time"].endswith("Z")


def test_a_reconnect_replays_exactly_what_was_missed(either: Ringfence) -> None:
    seen: list[int] = []
    with stream(either) as events:
        start = either.house.feed.last
        seen += events.events(tell(either, 10))
    tell(either, 700)  # more than one chunk
    with stream(either, after=seen[-1]) as events:
        seen += events.events(tell(either, 10))
    with stream(either, query=f"?after={seen[-1]}") as events:
        seen += events.events(tell(either, 5))
    assert seen == list(range(start + 1, either.house.feed.last + 1))


def test_last_event_id_has_precedence_and_must_be_a_number(server: Ringfence) -> None:
    last = tell(server, 5)
    with stream(server, after=last - 1, query="?after=1") as events:
        assert events.events(last) == [last]
    for wrong in ("abc", "-1", "1.5", "", "9" * 19, "٣".encode().decode("latin-1")):
        reply = ask(server, request("GET", "/events", f"Last-Event-ID: {wrong}", token=server.admin_token))
        assert reply.is_problem(400)


def test_a_number_that_does_not_exist_yet_begins_with_what_comes(server: Ringfence) -> None:
    last = tell(server, 3)
    with stream(server, after=last + 1000) as events:
        events.block()
        assert events.events(tell(server, 1)) == [last + 1]


def test_a_reader_that_fell_out_of_the_ring_is_served_from_the_table(server: Ringfence) -> None:
    start = server.house.feed.last
    with stream(server, receive_buffer=4096) as slow, stream(server) as quick:
        slow.block()
        for _ in range(12):
            last = tell(server, 2000, size=20)
        assert quick.events(last)[-1] == last
        assert server.house.feed._ring[0].seq > start + 1
        assert slow.events(last) == list(range(start + 1, last + 1))
    assert last - start > 2 * RING


def test_the_end_of_the_table_and_the_beginning_of_the_ring_meet(server: Ringfence) -> None:
    for _ in range(9):
        last = tell(server, 2000)
    first = server.house.feed._ring[0].seq
    for after in (first - CHUNK - 1, first - 2, first - 1, first, last - 1):
        with stream(server, after=after) as events:
            assert events.events(last) == list(range(after + 1, last + 1))


def test_filters_narrow_a_stream(server: Ringfence) -> None:
    queries = {
        "?kind=b": ["b"],
        "?project=prj_a": ["c"],
        "?agent=claude": ["d", "e"],
        "?agent=claude&project=prj_b": ["e"],
        "": ["a", "b", "c", "d", "e", "end"],
    }
    start = server.house.feed.last
    tell(server, kind="a")
    tell(server, kind="b")
    tell(server, kind="c", project="prj_a")
    tell(server, kind="d", agent="claude")
    tell(server, kind="e", agent="claude", project="prj_b")
    last = tell(server, kind="end")
    for query, wanted in queries.items():
        with stream(server, after=start, query=query) as events:
            found = [events.event() for _ in wanted]
            assert [event and event["event"] for event in found] == wanted
    assert last == server.house.feed.last
    assert ask(server, request("GET", "/events?nope=1", token=server.admin_token)).is_problem(400)


def test_what_an_agent_must_not_see_does_not_reach_its_stream(server: Ringfence) -> None:
    server.agent("codex")
    token = server.admin.post("/agents/register", json={"name": "claude"}).json()["token"]
    start = server.house.feed.last
    server.admin.post("/api/v1/tokens", json={"name": "script"})
    server.admin.post("/api/v1/people", json={"name": "ann"})
    server.admin.get("/api/v1/tokens/nope")
    tell(server, kind="message_sent", agent="codex")
    tell(server, kind="refused", agent="claude")
    last = tell(server, kind="task_created")
    with stream(server, token, after=start) as events:
        found = events.event()
        assert found is not None
        assert (found["event"], found["id"]) == ("task_created", str(last))


def test_a_person_with_some_projects_is_sent_only_those(server: Ringfence) -> None:
    server.admin.post("/api/v1/people", json={"name": "ann", "role": "viewer", "projects": ["prj_a"]})
    token = server.token("ann", Role.VIEWER)
    start = server.house.feed.last
    tell(server, kind="task_created", project="prj_b")
    tell(server, kind="token_created")
    last = tell(server, kind="task_created", project="prj_a")
    with stream(server, token, after=start) as events:
        found = events.event()
        assert found is not None
        assert found["id"] == str(last)
    page = server.client(token).get("/api/v1/audit").json()["items"]
    assert {event["project"] for event in page} <= {"prj_a", None}
    about = {event["subject"] for event in page if event["kind"].startswith(("token_", "person_"))}
    assert about == {"ann"}  # what was decided about herself
    refused = server.client(token).post("/api/v1/audit/prune", json={"days": 1})
    assert refused.status_code == 403


def test_a_revoked_token_ends_its_streams(either: Ringfence) -> None:
    issued = either.admin.post("/api/v1/tokens", json={"name": "script", "role": "viewer"}).json()
    with stream(either, issued["token"]) as events:
        events.block()
        last = tell(either, 1)
        assert events.events(last) == [last]
        either.admin.delete(f"/api/v1/tokens/{issued['id']}")
        tell(either, 1)
        assert events.event() is None
    assert ask(either, request("GET", "/events", token=issued["token"])).is_problem(401)


def test_an_open_stream_is_no_sign_of_life(server: Ringfence) -> None:
    used: list[str] = []
    token = server.token("claude", kind=TokenKind.AGENT)
    server.house.auth.on_use.append(lambda who: used.append(who.name))
    with stream(server, token) as events:
        events.block()
        for _ in range(5):
            assert events.event() if tell(server, kind="task_created") else None
    assert used == ["claude"]


def test_a_stop_ends_streams_and_a_reconnect_goes_on_where_they_ended(server: Ringfence) -> None:
    with stream(server) as events:
        start = server.house.feed.last
        seen = events.events(tell(server, 20))
        stopping = threading.Thread(target=server.restart)
        started = time.monotonic()
        stopping.start()
        while (found := events.event()) is not None:
            seen.append(int(found["id"]))
        assert time.monotonic() - started < 5
        stopping.join(30)
    with stream(server, after=seen[-1]) as events:
        seen += events.events(tell(server, 20))
    assert seen == list(range(start + 1, server.house.feed.last + 1))


def test_a_client_that_leaves_is_forgotten(server: Ringfence) -> None:
    with stream(server) as one, stream(server) as other:
        one.block(), other.block()
        assert server.house.feed.subscribers == 2
    until(lambda: server.house.feed.subscribers == 0)


def test_head_of_a_stream_has_no_body_and_opens_none(server: Ringfence) -> None:
    with wire(server) as connection:
        connection.send(request("HEAD", "/events", token=server.admin_token))
        assert connection.reply("HEAD").status == 200
        assert server.house.feed.subscribers == 0


async def test_silence_is_filled_with_comments(sqlite_place: Place) -> None:
    database = sqlite_place.database()
    await database.open()
    feed = Feed(database, keepalive=0.05)
    await feed.open()
    try:
        async with contextlib.aclosing(feed.stream(None, None)) as chunks:
            async with asyncio.timeout(20):
                assert b"connected" in await anext(chunks)
                assert [await anext(chunks) for _ in range(3)] == [b": keepalive\n\n"] * 3
    finally:
        await feed.close()
        await database.close()


async def test_one_stream_too_many_is_refused_before_it_starts(sqlite_place: Place) -> None:
    database = sqlite_place.database()
    await database.open()
    feed = Feed(database, subscribers=2)
    await feed.open()
    try:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                chunks = await stack.enter_async_context(contextlib.aclosing(feed.stream(None, None)))
                await anext(chunks)
            with pytest.raises(Exception, match="2 event streams are open"):
                feed.stream(None, None)
        assert feed.subscribers == 0
        feed.stream(None, None)
    finally:
        await feed.close()
        await database.close()


def test_one_agent_cannot_take_the_streams_of_all(server: Ringfence) -> None:
    """An agent that opens stream after stream is stopped; others, and people, go on."""
    server.agent("mallory"), server.agent("claude")
    mallory, claude = (server.token(name, kind=TokenKind.AGENT) for name in ("mallory", "claude"))
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(stream(server, mallory)) for _ in range(OF_ONE_AGENT)]
        assert all(one.status == 200 and one.block() for one in opened)
        reply = ask(server, request("GET", "/events", token=mallory))
        assert reply.is_problem(429)
        assert reply.headers["retry-after"] == "5"
        assert reply.json["error"] == (
            f"agent 'mallory' has {OF_ONE_AGENT} event streams open already: close one, then repeat"
        )
        for token in (claude, server.admin_token):
            with stream(server, token) as other:
                assert other.status == 200
        opened[0].close()
        until(lambda: server.house.feed.subscribers == OF_ONE_AGENT - 1)
        with stream(server, mallory, query="?kind=task_claimed") as again:
            assert again.status == 200


def test_what_another_process_writes_reaches_the_streams(server: Ringfence) -> None:
    """The command line writes into the same SQLite database."""

    async def write_elsewhere() -> None:
        other = Place.__new__(Place)
        other.url, other.data = "", server.settings.data
        database = other.database()
        await database.open()
        await database.write(lambda tx: tx.record("told_elsewhere", SYSTEM, {}))
        await database.close()

    with stream(server) as events:
        events.block()
        start = server.house.feed.last
        asyncio.run(write_elsewhere())
        assert events.events(start + 1) == [start + 1]
        assert events.events(tell(server, 3)) == [start + 2, start + 3, start + 4]


# A thousand -----------------------------------------------------------------------------------------------------------


def test_a_thousand_subscribers_lose_nothing_beside_one_that_never_reads(server: Ringfence) -> None:
    count, batches, each = 1000, 60, 5
    stall = Stall(server)
    with stream(server, receive_buffer=4096) as frozen:
        asked = request("GET", "/events", token=server.admin_token)
        received = asyncio.run(_subscribe(server, asked, count, batches, each, stall))
        assert frozen.status == 200
    last = server.house.feed.last
    wanted = list(range(last - batches * each + 1, last + 1))
    for raw in received:
        numbers = [int(line[4:]) for line in raw.split(b"\n") if line.startswith(b"id: ")]
        assert numbers == [wanted[0] - 1, *wanted]  # where it began, then all
    print(f"\nlongest stall of the loop: {stall.longest * 1000:.0f} ms")
    assert stall.longest < 2


class Stall:
    """How long the server's loop was away at most."""

    def __init__(self, server: Ringfence) -> None:
        self.longest, self._server, self._last = 0.0, server, 0.0

    def start(self) -> None:
        self._server.loop.call_soon_threadsafe(self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        if self._last:
            self.longest = max(self.longest, now - self._last - 0.005)
        self._last = now
        self._server.loop.call_later(0.005, self._tick)


async def _subscribe(
    server: Ringfence, asked: bytes, count: int, batches: int, each: int, stall: Stall
) -> list[bytearray]:
    loop = asyncio.get_running_loop()
    done, through = loop.create_future(), 0
    finished = 0

    class Subscriber(asyncio.Protocol):
        def __init__(self) -> None:
            self.received = bytearray()
            self.complete = False

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.write(asked)  # type: ignore[attr-defined]

        def data_received(self, data: bytes) -> None:
            nonlocal finished
            self.received += data
            if through and not self.complete and b"\nid: %d\n" % through in self.received[-2000:]:
                self.complete = True
                finished += 1
                if finished == count:
                    done.set_result(None)

    transports, subscribers = [], []
    for _ in range(count):
        transport, subscriber = await loop.create_connection(Subscriber, "127.0.0.1", server.port)
        transports.append(transport)
        subscribers.append(subscriber)
    await asyncio.to_thread(until, lambda: server.house.feed.subscribers == count + 1)
    stall.start()
    through = server.house.feed.last + batches * each
    for _ in range(batches):
        await asyncio.to_thread(tell, server, each)
    async with asyncio.timeout(60):
        await done
    for transport in transports:
        transport.abort()
    return [subscriber.received for subscriber in subscribers]


# Two servers on one PostgreSQL ----------------------------------------------------------------------------------------


def test_two_servers_tell_all_events_once_and_in_order_through_a_restart(postgres_url: str, tmp_path: Path) -> None:
    with (
        running(tmp_path / "one", database=postgres_url) as one,
        running(tmp_path / "two", database=postgres_url) as two,
    ):
        start = max(one.house.feed.last, two.house.feed.last)
        until(lambda: one.house.feed.last == two.house.feed.last)
        start = one.house.feed.last
        count = 120
        seen: dict[str, list[int]] = {"one": [], "two": []}
        total = threading.Event()

        def follow(name: str, server: Ringfence) -> None:
            while len(seen[name]) < 3 * count:
                try:
                    events = Stream(server.port, server.admin_token, after=(seen[name] or [start])[-1])
                except (OSError, IndexError):  # it restarts
                    continue
                with contextlib.closing(events):
                    while len(seen[name]) < 3 * count and (found := events.event()) is not None:
                        seen[name].append(int(found["id"]))
            total.set()

        def write(server: Ringfence, times: int) -> None:
            for _ in range(times):
                tell(server)

        followers = [threading.Thread(target=follow, args=pair) for pair in (("one", one), ("two", two))]
        writers = [threading.Thread(target=write, args=(server, count)) for server in (one, two)]
        for thread in (*followers, *writers):
            thread.start()
        writers[1].join(60)
        two.restart()
        write(two, count)
        for thread in (*writers, *followers):
            thread.join(60)
        assert seen["one"][: 3 * count] == list(range(start + 1, start + 3 * count + 1))
        assert seen["two"][: 3 * count] == seen["one"][: 3 * count]
        assert asyncio.run_coroutine_threadsafe(verify(one.house.database), one.loop).result(20).ok


def test_a_feed_whose_connections_are_killed_goes_on(postgres_url: str, tmp_path: Path) -> None:
    with (
        running(tmp_path / "one", database=postgres_url) as one,
        running(tmp_path / "two", database=postgres_url) as two,
    ):
        until(lambda: one.house.feed.last == two.house.feed.last)
        with stream(two) as events:
            events.block()
            start = two.house.feed.last
            seen = events.events(tell(one, 5))
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            seen += events.events(tell(one, 5))
            seen += events.events(tell(two, 5))
        assert seen == list(range(start + 1, two.house.feed.last + 1))


def test_a_client_that_comes_from_a_server_that_is_ahead_sees_nothing_twice(postgres_url: str, tmp_path: Path) -> None:
    with (
        running(tmp_path / "one", database=postgres_url) as one,
        running(tmp_path / "two", database=postgres_url) as two,
    ):
        until(lambda: one.house.feed.last == two.house.feed.last)
        for _ in range(20):
            last = tell(one, 3)
            with stream(two, after=last) as events:
                following = tell(one, 1)
                assert events.events(following) == [following]
