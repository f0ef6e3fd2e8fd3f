"""The link over real sockets, with a warden in Python at the other end."""

import asyncio
import os
import socket
import stat
import struct
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ringfence.fence.link import frames
from ringfence.fence.link import links as links_module
from ringfence.fence.link.links import WardenLinks, WardenSession
from ringfence.fence.link.model import Channel, InputClosed, Whom, Why
from ringfence.kernel.errors import Conflict, Invalid, Unavailable
from tests.fence.fake_warden import FakeWarden
from tests.fence.ledger import MemoryLedger
from tests.fence.link.conftest import KEY, Ends
from tests.fence.programs import PROGRAMS, pattern


async def until(so: Callable[[], bool], within: float = 5) -> None:
    async with asyncio.timeout(within):
        while not so():  # noqa: ASYNC110  there is nothing to be told by
            await asyncio.sleep(0.002)


async def said(session: WardenSession) -> tuple[bytes, bytes]:
    out, err = bytearray(), bytearray()
    async for channel, chunk in session.output():
        (out if channel is Channel.OUT else err).extend(chunk)
    return bytes(out), bytes(err)


# Sessions -------------------------------------------------------------------------------------------------------------


async def test_a_program_runs_and_what_it_said_is_kept_before_its_end_is_told(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("echo", "hello", "you"), ends.ledger)
    exit = await session.exit()
    assert (exit.why, exit.code, exit.out) == (Why.EXITED, 0, 10)
    assert ends.ledger.out(session.id) == b"hello you\n"
    assert session.pid == 101
    await until(lambda: not ends.warden.sessions)  # it was forgotten
    assert link.sessions() == []


async def test_output_is_read_as_it_comes_and_errors_apart(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("fail", "3"))
    assert await said(session) == (b"", b"no\n")
    assert (await session.exit()).code == 3


async def test_input_arrives_whole_and_in_order_however_much_it_is(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("cat", stdin=True))
    data = pattern(0, 3_000_000)

    async def type_it() -> None:
        await session.send(data)
        await session.end_input()

    typing = asyncio.create_task(type_it())
    assert await said(session) == (data, b"")
    await typing


async def test_two_senders_do_not_mix_their_bytes(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("cat", stdin=True))
    reading = asyncio.create_task(said(session))
    await asyncio.gather(session.send(b"a" * 300_000), session.send(b"b" * 300_000))
    await session.end_input()
    assert (await reading)[0] in (b"a" * 300_000 + b"b" * 300_000, b"b" * 300_000 + b"a" * 300_000)


async def test_signals_arrive_and_a_kill_ends_it(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("trap"))
    output = session.output()
    assert await anext(output) == (Channel.OUT, b"ready\n")
    session.signal(2, Whom.FIRST)
    assert await anext(output) == (Channel.OUT, b"2\n")
    session.signal(9)
    exit = await session.exit()
    assert (exit.why, exit.code, exit.signal) == (Why.KILLED, 137, 9)
    session.signal(9)  # too late, and harmless
    with pytest.raises(InputClosed):
        await session.send(b"x")


async def test_a_timeout_keeps_what_was_said_until_then(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("hang", timeout=0.05), ends.ledger)
    assert (await session.exit()).why is Why.TIMEOUT
    assert ends.ledger.out(session.id) == b"so far\n"


async def test_what_cannot_be_started_says_why(ends: Ends) -> None:
    link = await ends.link()
    exit = await (await link.start(ends.start("nonsense"))).exit()
    assert (exit.why, exit.errno, exit.error) == (Why.FAILED, 2, "No such file or directory")
    with pytest.raises(Invalid, match="65536"):
        await link.start(ends.start("x" * 70_000))
    for number in (0, 65):
        with pytest.raises(Invalid):
            (await link.start(ends.start("hang"))).signal(number)


async def test_a_repeated_start_starts_nothing(ends: Ends) -> None:
    link = await ends.link()
    start = ends.start("hang")
    session = await link.start(start, ends.ledger)
    assert await link.start(start, ends.ledger) is session
    await until(lambda: ends.ledger.out(start.id) != b"")
    link = await ends.restart_server()
    assert (await link.start(start, ends.ledger)).id == start.id
    assert ends.warden.begun == [start]


async def test_no_more_than_a_warden_holds_are_started(ends: Ends) -> None:
    link = await ends.link()
    sessions = [await link.start(ends.start("hang")) for _ in range(frames.SESSIONS)]
    with pytest.raises(Conflict) as refused:
        await link.start(ends.start("hang"))
    assert refused.value.code == "too_many_sessions"
    sessions[0].signal(9)
    await sessions[0].exit()
    await link.start(ends.start("hang"))


async def test_a_hundred_programs_at_once_do_not_mix(ends: Ends) -> None:
    link = await ends.link()

    async def one(number: int) -> None:
        session = await link.start(ends.start("echo", str(number)))
        assert await said(session) == (b"%d\n" % number, b"")

    await asyncio.gather(*(one(number) for number in range(100)))


# Slow readers ---------------------------------------------------------------------------------------------------------


async def test_a_slow_reader_makes_the_program_wait_and_costs_a_ring(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("flood", "20000000"), ends.ledger)
    output = session.output()
    await anext(output)
    process = next(iter(ends.warden.sessions.values()))
    ring = process.rings[Channel.OUT]
    await until(lambda: len(ring.data) == frames.RING)
    await asyncio.sleep(0.1)
    assert ring.end <= 2 * frames.RING
    assert len(ends.ledger.out(session.id)) <= 2 * frames.RING
    # One that goes away holds nothing up.
    output.close()
    assert (await session.exit()).out == 20_000_000
    assert ends.ledger.out(session.id) == pattern(0, 20_000_000)


async def test_the_slowest_of_several_readers_sets_the_pace_and_all_read_everything(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("flood", "5000000"), ends.ledger)
    taps = [session.output() for _ in range(3)]

    async def read(number: int) -> bytes:
        found = bytearray()
        async for _, chunk in taps[number]:
            found += chunk
            await asyncio.sleep(0.001 * number)
        return bytes(found)

    whole = pattern(0, 5_000_000)
    assert await asyncio.gather(*map(read, range(3))) == [whole] * 3


async def test_an_act_nobody_reads_costs_a_ring_until_it_is_read(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("flood", "3000000"))
    await until(lambda: bool(ends.warden.sessions))
    ring = next(iter(ends.warden.sessions.values())).rings[Channel.OUT]
    await until(lambda: len(ring.data) == frames.RING)
    assert await said(session) == (pattern(0, 3_000_000), b"")


# Breaks ---------------------------------------------------------------------------------------------------------------


async def test_nothing_is_lost_or_said_twice_when_connections_break(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("cat", stdin=True), ends.ledger)
    data = pattern(0, 4_000_000)
    output = session.output()

    async def type_it() -> None:
        for at in range(0, len(data), 10_000):
            await session.send(data[at : at + 10_000])
        await session.end_input()

    typing = asyncio.create_task(type_it())
    found, cut_at = bytearray(), 0
    async for _, chunk in output:
        found += chunk
        if len(found) - cut_at > 300_000:
            cut_at = len(found)
            ends.warden.cut()
    await typing
    assert bytes(found) == data == ends.ledger.out(session.id)
    assert ends.warden.connections > 5


async def test_a_restarted_server_goes_on_with_what_runs_and_loses_no_byte(ends: Ends) -> None:
    link = await ends.link()
    start = ends.start("cat", stdin=True)
    session = await link.start(start, ends.ledger)
    data = pattern(0, 2_000_000)
    at, restarts = 0, 0
    while at < len(data):
        end = min(len(data), at + 120_000)
        await session.send(data[at:end])
        link = await ends.restart_server()
        restarts += 1
        [session] = link.sessions()
        assert session.id == start.id
        at = session.input_offset  # a client goes on from where the program's input stands
        assert at <= end
    await session.end_input()
    assert (await session.exit()).why is Why.EXITED
    assert ends.ledger.out(start.id) == data
    assert ends.warden.begun == [start] and restarts > 10


async def test_what_was_said_and_ended_while_the_server_was_away_is_there_afterwards(ends: Ends) -> None:
    link = await ends.link()
    start = ends.start("late", "0.05", "last words")
    await link.start(start, ends.ledger)
    await until(lambda: bool(ends.warden.sessions))
    await ends.links.close()
    assert next(iter(ends.warden.sessions.values())).ended is None
    await until(lambda: next(iter(ends.warden.sessions.values())).ended is not None)
    ends.ledger.forgets_at_once = False
    link = await ends.restart_server()
    await until(lambda: start.id in ends.ledger.exits)
    assert ends.ledger.out(start.id) == b"last words\n"
    assert len(ends.warden.sessions) == 1  # held until its end is kept
    link = await ends.restart_server()
    await until(lambda: len(ends.ledger.forgets) == 2)
    ends.ledger.forgets[1]()
    await until(lambda: not ends.warden.sessions)


async def test_what_nobody_knows_of_after_a_restart_is_killed(ends: Ends) -> None:
    link = await ends.link()
    await link.start(ends.start("hang", known=False), ends.ledger)
    await until(lambda: bool(ends.warden.sessions))
    [process] = ends.warden.sessions.values()
    await ends.restart_server()
    await until(lambda: process.ended is not None and process.ended.why is Why.KILLED)
    assert ends.ledger.greetings[-1] == frozenset()


async def test_a_session_that_starts_while_the_warden_is_away_starts_when_it_comes(ends: Ends) -> None:
    link = await ends.link()
    ends.warden.cut()
    await until(lambda: link.core.live is None)
    session = await link.start(ends.start("echo", "late"))
    assert await said(session) == (b"late\n", b"")


async def test_a_warden_that_is_born_again_has_lost_its_sessions(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("hang"), ends.ledger)
    await until(lambda: session.pid is not None)
    await ends.warden.close()
    async with FakeWarden(ends.folder / "link.sock", KEY, PROGRAMS):
        assert (await session.exit()).why is Why.LOST
        link = await ends.link()
        assert await said(await link.start(ends.start("echo", "new"))) == (b"new\n", b"")


async def test_a_sandbox_that_is_forgotten_ends_its_sessions_as_lost(ends: Ends) -> None:
    link = await ends.link()
    session = await link.start(ends.start("hang"), ends.ledger)
    output = session.output()
    await anext(output)
    await ends.links.forget("sbx")
    assert (await session.exit()).why is Why.LOST
    assert [one async for one in output] == []
    assert ends.ledger.exits[session.id].why is Why.LOST
    assert not (ends.folder / "link.sock").exists()
    with pytest.raises(Unavailable):
        await link.start(ends.start("echo"))
    with pytest.raises(Unavailable):
        await ends.link()


async def test_a_warden_that_does_not_come_is_unavailable(tmp_path: Path) -> None:
    links = WardenLinks()
    await links.listen("sbx", tmp_path, KEY, MemoryLedger())
    with pytest.raises(Unavailable, match="did not call"):
        await links.link("sbx", 0.05)
    waiting = asyncio.create_task(links.link("sbx", 5))
    await asyncio.sleep(0)
    await links.forget("sbx")
    with pytest.raises(Unavailable, match="does not run"):
        await waiting
    await links.close()


async def test_a_silent_warden_is_given_up_unless_it_is_paused(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    link = await ends.link()
    for _ in range(100):  # ticks of a warden that answers
        link.tick()
        await asyncio.sleep(0.001)
    assert ends.warden.connections == 1
    ends.warden.hearing.clear()
    ends.links.suspend("sbx")
    for _ in range(100):
        link.tick()
    await asyncio.sleep(0.02)
    assert ends.warden.connections == 1
    ends.links.resume("sbx")
    for _ in range(links_module.SILENT):
        link.tick()
    ends.warden.hearing.set()
    await until(lambda: ends.warden.connections == 2)


# Strangers ------------------------------------------------------------------------------------------------------------


class Stranger:
    """Somebody in the sandbox who is not its warden, or a warden that is not what it was."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    async def __aenter__(self) -> "Stranger":
        place = os.open(self._ends.folder, os.O_PATH)
        try:
            self.reader, self.writer = await asyncio.open_unix_connection(f"/proc/self/fd/{place}/link.sock")
        finally:
            os.close(place)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def frame(self) -> frames.Frame:
        length, kind, stream = struct.unpack(">IBI", await self.reader.readexactly(9))
        return frames.Frame(kind, stream, memoryview(await self.reader.readexactly(length)))

    async def greet(self, key: bytes = KEY, **fields: object) -> None:
        challenge = frames.to_warden(await self.frame())
        assert isinstance(challenge, frames.Challenge)
        boot = self._ends.warden.boot
        mac = frames.mac(key, challenge.nonce, boot)
        hello = {"v": 1, "boot": boot, "mac": mac, "next": 1, "sessions": []} | fields
        self.writer.write(frames.packed(frames.Kind.HELLO, 0, hello))

    async def is_refused(self) -> bool:
        try:
            async with asyncio.timeout(5):
                return await self.reader.read() == b""
        except ConnectionError:
            return True


@pytest.fixture
async def stranger(ends: Ends) -> AsyncIterator[Stranger]:
    await ends.link()
    async with Stranger(ends) as found:
        yield found


async def test_a_stranger_without_the_key_is_refused_and_the_link_goes_on(ends: Ends, stranger: Stranger) -> None:
    await stranger.greet(bytes(32))
    assert await stranger.is_refused()
    assert await said(await (await ends.link()).start(ends.start("echo", "on"))) == (b"on\n", b"")
    assert ends.warden.connections == 1


async def test_a_hello_that_was_heard_is_worth_nothing_later(ends: Ends, stranger: Stranger) -> None:
    await stranger.frame()
    mac = frames.mac(KEY, bytes(32), ends.warden.boot)  # of another nonce
    hello = {"v": 1, "boot": ends.warden.boot, "mac": mac, "next": 1, "sessions": []}
    stranger.writer.write(frames.packed(frames.Kind.HELLO, 0, hello))
    assert await stranger.is_refused()


async def test_a_stranger_who_says_nothing_is_sent_away(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "GREETING", 0.05)
    await ends.link()
    async with Stranger(ends) as stranger:
        await stranger.frame()
        assert await stranger.is_refused()


async def test_many_strangers_cost_a_few_connections_and_keep_no_warden_out(ends: Ends) -> None:
    link = await ends.link()
    many = [Stranger(ends) for _ in range(100)]
    for one in many:
        await one.__aenter__()
    await until(lambda: len(link.strangers) <= links_module.STRANGERS)
    ends.warden.cut()
    await until(lambda: ends.warden.connections == 2)
    for one in many:
        await one.__aexit__()


async def test_the_newest_right_connection_is_the_link(ends: Ends, stranger: Stranger) -> None:
    await stranger.greet()
    assert (await stranger.frame()).kind == frames.Kind.WELCOME
    await until(lambda: ends.warden.connections == 2)  # it was cut off, and called again
    assert await stranger.is_refused()


async def test_a_flood_of_small_frames_stalls_nothing(ends: Ends, stranger: Stranger) -> None:
    """Ten megabytes of PINGs whose answers nobody reads: cut off, in bounded memory, while others are served."""
    await stranger.greet()
    await stranger.frame()
    pings = frames.ping(bytes(8)) * 50_000
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before)

    def flood(sock: socket.socket) -> None:
        sock.setblocking(True)
        try:
            for _ in range(15):
                sock.sendall(pings)
        except OSError:
            pass

    watching = asyncio.create_task(watch())
    sock = stranger.writer.get_extra_info("socket")
    own = socket.socket(fileno=os.dup(sock.fileno()))
    stranger.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.to_thread(flood, own)
    own.close()
    watching.cancel()
    assert worst < 0.05, f"the loop stood still for {worst * 1000:.0f} ms"


def test_the_socket_is_there_at_once_for_whoever_sees_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".link.sock").write_text("left behind")
    listening = links_module.bind(tmp_path)
    try:
        assert [one.name for one in tmp_path.iterdir()] == ["link.sock"]
        found = (tmp_path / "link.sock").stat()
        assert stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o666
    finally:
        listening.close()


def test_the_socket_is_not_put_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").symlink_to("elsewhere")
    with pytest.raises(OSError):
        links_module.bind(tmp_path / "folder")
