"""The asyncio shell around the link's core: a socket for each sandbox, the connections on it, and their sessions.

    WardenLinks ──► WardenLink, one for each sandbox ──► WardenSession
                        │ Core                             ├── Ledger: where what it says is kept
                        └── Connection: whoever dialled    └── Tap: who reads it as it comes

No task for a connection, a session or a frame: bytes that arrive are cut, kept and handed on within one callback, whose
work is bounded; what is left is done in the next turn of the loop.
"""

import asyncio
import os
import secrets
import socket
from collections import deque
from pathlib import Path
from typing import cast

import structlog

from ringfence.fence.link import frames
from ringfence.fence.link.core import Began, Conversation, Core, Ended, Event, Full, Greeted, Returned, Room, Run, Said
from ringfence.fence.link.model import Channel, Exit, InputClosed, Ledger, Start, Whom
from ringfence.kernel.errors import Conflict, Invalid, Unavailable

READ = 256 * 1024  # bytes taken from a socket at once
UNSENT = 4 * 1024 * 1024  # bytes that a warden may leave unread, beyond which it is not one
STRANGERS = 16  # connections of one sandbox that have not greeted
GREETING = 5.0  # seconds
TICK = 1.0
QUIET, SILENT = 10, 20  # ticks without a byte until a PING, and until it is given up
SOCKET = "link.sock"

log = structlog.get_logger(__name__)


class WardenLinks:
    def __init__(self) -> None:
        self._links: dict[str, WardenLink] = {}
        # One buffer for all: what arrives is consumed before the next read, and the rest of a frame copied.
        self._buffer = memoryview(bytearray(READ))
        self._ticking: asyncio.TimerHandle | None = None

    async def listen(self, sandbox: str, folder: Path, key: bytes, ledger: Ledger) -> None:
        await self.forget(sandbox)
        link = WardenLink(sandbox, key, ledger, self._buffer)
        self._links[sandbox] = link
        await link.listen(folder)
        if self._ticking is None:
            self._tick()

    async def link(self, sandbox: str, within: float = 10.0) -> "WardenLink":
        link = self._links.get(sandbox)
        if link is None:
            raise Unavailable(f"nobody listens for sandbox {sandbox}: start it first", code="sandbox_unreachable")
        await link.until_live(within)
        return link

    async def forget(self, sandbox: str) -> None:
        link = self._links.pop(sandbox, None)
        if link is not None:
            link.close(lose=True)

    async def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        links, self._links = self._links, {}
        for link in links.values():
            link.close(lose=False)

    def suspend(self, sandbox: str) -> None:
        if sandbox in self._links:
            self._links[sandbox].suspended = True

    def resume(self, sandbox: str) -> None:
        if sandbox in self._links:
            self._links[sandbox].resume()

    def _tick(self) -> None:
        for link in self._links.values():
            link.tick()
        self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)


class WardenLink:
    def __init__(self, sandbox: str, key: bytes, ledger: Ledger, buffer: memoryview) -> None:
        if len(key) != frames.KEY:
            raise ValueError(f"a link's key has {frames.KEY} bytes")
        self.sandbox = sandbox
        self.core = Core(ledger.stored)
        self.suspended = False
        self.strangers: dict[Connection, None] = {}  # oldest first
        self._key, self._ledger, self._buffer = key, ledger, buffer
        self._sessions: dict[bytes, WardenSession] = {}
        self._connection: Connection | None = None
        self._live = asyncio.Event()
        self._writable = asyncio.Event()
        self._closed = False
        self._server: asyncio.Server | None = None
        self._folder: Path | None = None

    async def listen(self, folder: Path) -> None:
        self._folder = folder
        self._server = await asyncio.get_running_loop().create_unix_server(self._answer, sock=bind(folder), backlog=16)

    def close(self, *, lose: bool) -> None:
        self._closed = True
        if self._server is not None and self._folder is not None:
            self._server.close()
            (self._folder / SOCKET).unlink(missing_ok=True)
        for connection in [*self.strangers, *filter(None, [self._connection])]:
            connection.abort()
        self._connection = None
        self._live.set()  # whoever waits for it need not wait any longer
        self._writable.set()
        if lose:
            self.handle(self.core.lose())

    def sessions(self) -> "list[WardenSession]":
        return list(self._sessions.values())

    async def until_live(self, within: float) -> None:
        if not self._live.is_set():
            try:
                await asyncio.wait_for(self._live.wait(), within)
            except TimeoutError:
                raise Unavailable(
                    f"the warden of sandbox {self.sandbox} did not call within {within:g} s", code="sandbox_unreachable"
                ) from None
        if self._closed:
            raise Unavailable(f"sandbox {self.sandbox} does not run any more", code="sandbox_unreachable")

    async def start(self, start: Start, ledger: Ledger | None = None) -> "WardenSession":
        wrong = frames.check_start(start)
        if wrong is not None:
            raise Invalid(wrong, code="invalid_command")
        await self.until_live(10.0)
        if not self._writable.is_set():
            await self.until_writable()
        known = self._sessions.get(start.id)
        if known is not None:
            return known
        if start.id in self.core.runs:
            raise Conflict("this session was started before, and has ended", code="session_ended", subject=self.sandbox)
        try:
            run = self.core.start(start)
        except Full as error:
            raise Conflict(str(error), code="too_many_sessions", subject=self.sandbox) from None
        session = self._sessions[start.id] = WardenSession(self, run, ledger)
        self.flush()
        return session

    async def until_writable(self) -> None:
        await self._writable.wait()
        if self._closed:
            raise Unavailable(f"sandbox {self.sandbox} does not run any more", code="sandbox_unreachable")

    def resume(self) -> None:
        self.suspended = False
        if self._connection is not None:
            self._connection.quiet = 0

    def tick(self) -> None:
        connection = self._connection
        if connection is None or self.suspended:
            return
        connection.quiet += 1
        if connection.quiet == QUIET:
            self.core.ping(secrets.token_bytes(8))
            self.flush()
        elif connection.quiet >= SILENT:
            log.warning("link_silent", sandbox=self.sandbox)
            connection.abort()

    # Connections --------------------------------------------------------------------------------------------------

    def _answer(self) -> "Connection":
        while len(self.strangers) >= STRANGERS:
            next(iter(self.strangers)).abort()
        return Connection(self, Conversation(self.core, self._key, secrets.token_bytes(frames.NONCE)), self._buffer)

    def arrived(self, connection: "Connection") -> None:
        """Its greeting was right: it is the link, and an older one is not."""
        self.strangers.pop(connection, None)
        older, self._connection = self._connection, connection
        if older is not None:
            older.abort()
        self._live.set()
        self._writable.set()

    def left(self, connection: "Connection") -> None:
        self.strangers.pop(connection, None)
        if self._connection is connection and not self._closed:
            self._connection = None
            self._live.clear()
            self._writable.set()  # input goes into what is sent again

    def wrote(self, connection: "Connection", *, may: bool) -> None:
        if connection is not self._connection:
            return
        if may:
            self._writable.set()
        else:
            self._writable.clear()

    def flush(self) -> None:
        if self._connection is not None:
            self._connection.flush()

    # What the core says -------------------------------------------------------------------------------------------

    def handle(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Said(run, channel, data):
                    self._sessions[run.id].said(channel, data)
                case Room(run):
                    self._sessions[run.id].wake()
                case Began(run):
                    self._sessions[run.id].began()
                case Ended(run, exit):
                    session = self._sessions.pop(run.id, None)
                    if session is not None:
                        session.ended(exit)
                case Returned(run):
                    self._sessions[run.id] = WardenSession(self, run, self._ledger)
                case Greeted(_, held):
                    self._ledger.greeted(self.sandbox, held)


class WardenSession:
    def __init__(self, link: WardenLink, run: Run, ledger: Ledger | None) -> None:
        self.id = run.id
        self._link, self._run, self._ledger = link, run, ledger
        self._durable = [0, run.out.told, run.err.told]  # by channel
        self._exit: Exit | None = None
        self._changed = asyncio.Event()  # room for input, or its end
        self._began = asyncio.Event()
        self._over = asyncio.Event()
        self._sending = asyncio.Lock()
        self._taps: list[Tap] = []
        self._first: Tap | None = None
        if ledger is None:
            self._first = Tap(self)
            self._taps.append(self._first)

    @property
    def pid(self) -> int | None:
        return self._run.pid

    @property
    def input_offset(self) -> int:
        return self._run.sent

    async def send(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        async with self._sending:  # two senders do not mix their bytes
            while view:
                if self._exit is not None:
                    raise InputClosed("this session has ended: nobody reads its input")
                view = view[self._link.core.write(self._run, view) :]
                self._link.flush()
                if view:
                    self._changed.clear()
                    await self._changed.wait()
            await self._link.until_writable()

    async def end_input(self) -> None:
        async with self._sending:
            self._link.core.end_input(self._run)
            self._link.flush()

    def signal(self, number: int, whom: Whom = Whom.ALL) -> None:
        if not 1 <= number <= 64:
            raise Invalid(f"{number} is not the number of a signal: 1 to 64 are", code="invalid_signal")
        if self._exit is None:
            self._link.core.signal(self._run, number, whom)
            self._link.flush()

    def resize(self, rows: int, columns: int) -> None:
        if not (1 <= rows <= 65535 and 1 <= columns <= 65535):
            raise Invalid("a terminal has 1 to 65535 rows and columns", code="invalid_size")
        if self._exit is None:
            self._link.core.resize(self._run, rows, columns)
            self._link.flush()

    def output(self) -> "Tap":
        if self._first is not None:
            tap, self._first = self._first, None
            return tap
        tap = Tap(self)
        if self._exit is not None:
            tap.finish()
        else:
            self._taps.append(tap)
        return tap

    async def begun(self) -> None:
        await self._began.wait()

    async def exit(self) -> Exit:
        await self._over.wait()
        assert self._exit is not None
        return self._exit

    # Called by the link and the taps ------------------------------------------------------------------------------

    def said(self, channel: Channel, data: memoryview) -> None:
        if self._ledger is not None:
            self._durable[channel] = self._ledger.keep(self.id, channel, data)
        if self._taps:
            chunk = bytes(data)
            for tap in self._taps:
                tap.put(channel, chunk)
        self.settle(channel)

    def settle(self, channel: Channel) -> None:
        """Let the warden forget what is kept and was read."""
        delivered = self._run.flow(channel).delivered
        offset = delivered if self._ledger is None else self._durable[channel]
        for tap in self._taps:
            offset = min(offset, delivered - tap.waiting[channel])
        self._link.core.credit(self._run, channel, offset)

    def began(self) -> None:
        self._began.set()

    def wake(self) -> None:
        self._changed.set()

    def ended(self, exit: Exit) -> None:
        self._exit = exit
        self._began.set()
        self._changed.set()
        self._over.set()
        for tap in self._taps:
            tap.finish()
        self._taps.clear()
        if self._ledger is None:
            self._forget()
        else:
            self._ledger.ended(self.id, exit, self._forget)

    def close(self, tap: "Tap") -> None:
        if tap in self._taps:
            self._taps.remove(tap)
            self.settle(Channel.OUT)
            self.settle(Channel.ERR)
            self._link.flush()

    def consumed(self, channel: Channel) -> None:
        self.settle(channel)
        self._link.flush()

    def _forget(self) -> None:
        self._link.core.forget(self._run)
        self._link.flush()


class Tap:
    """One reader of a session's output. What it has not read is bounded by the ring, for no more is STORED."""

    def __init__(self, session: WardenSession) -> None:
        self.waiting = [0, 0, 0]  # bytes, by channel: not read, or not done with
        self._session = session
        self._chunks: deque[tuple[Channel, bytes]] = deque()
        self._given: tuple[Channel, int] | None = None
        self._more = asyncio.Event()
        self._finished = False

    def put(self, channel: Channel, chunk: bytes) -> None:
        self._chunks.append((channel, chunk))
        self.waiting[channel] += len(chunk)
        self._more.set()

    def finish(self) -> None:
        self._finished = True
        self._more.set()

    def __aiter__(self) -> "Tap":
        return self

    async def __anext__(self) -> tuple[Channel, bytes]:
        self._settle()
        while not self._chunks:
            if self._finished:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        channel, chunk = self._chunks.popleft()
        self._given = channel, len(chunk)
        return channel, chunk

    def close(self) -> None:
        self._finished = True
        self._chunks.clear()
        self._more.set()
        self._session.close(self)

    def _settle(self) -> None:
        if self._given is not None:
            channel, length = self._given
            self._given = None
            self.waiting[channel] -= length
            if not self._finished:
                self._session.consumed(channel)


class Connection(asyncio.BufferedProtocol):
    def __init__(self, link: WardenLink, conversation: Conversation, buffer: memoryview) -> None:
        self.quiet = 0  # ticks since it said anything
        self._link, self._conversation, self._buffer = link, conversation, buffer
        self._transport: asyncio.Transport | None = None
        self._greeting: asyncio.TimerHandle | None = None
        self._again: asyncio.Handle | None = None
        link.strangers[self] = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's are of no class of asyncio's
        transport.set_write_buffer_limits(high=READ)
        self._greeting = asyncio.get_running_loop().call_later(GREETING, self.abort)
        if self not in self._link.strangers:  # there were too many meanwhile
            self.abort()
            return
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._conversation.close()
        self._link.left(self)
        for handle in (self._greeting, self._again):
            if handle is not None:
                handle.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.quiet = 0
        self._receive(self._buffer[:nbytes])

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._link.wrote(self, may=False)

    def resume_writing(self) -> None:
        self._link.wrote(self, may=True)

    def abort(self) -> None:
        self._link.strangers.pop(self, None)
        self._conversation.close()
        if self._transport is not None:
            self._transport.abort()

    def flush(self) -> None:
        outgoing, transport = self._conversation.outgoing, self._transport
        if not outgoing or transport is None or transport.is_closing():
            return
        data = outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)
        outgoing.clear()
        transport.write(data)
        if transport.get_write_buffer_size() > UNSENT:
            log.warning("link_unread", sandbox=self._link.sandbox)
            self.abort()

    def _receive(self, data: memoryview | bytes) -> None:
        conversation, stranger = self._conversation, not self._conversation.greeted
        events = conversation.receive(data)
        if stranger and conversation.greeted:
            if self._greeting is not None:
                self._greeting.cancel()
            self._link.arrived(self)
        self._link.handle(events)
        if conversation.violation is not None:
            what = str(conversation.violation)
            log.warning("link_violation", sandbox=self._link.sandbox, what=what, greeted=conversation.greeted)
            self.abort()
            return
        self.flush()
        if conversation.more and self._transport is not None and not self._transport.is_closing():
            self._pause()

    def _pause(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()
        self._again = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()
        self._receive(b"")


def bind(folder: Path) -> socket.socket:
    """A socket that listens as `folder`/link.sock from the moment that name is there.

    Anybody may connect to it: the folder is for one sandbox alone, whose ids this end need not know, and what counts is
    the greeting. By way of a descriptor, because an address has 108 bytes and a folder's name may have more.
    """
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        beside = f".{SOCKET}"
        try:
            os.unlink(beside, dir_fd=place)
        except FileNotFoundError:
            pass
        listening.bind(f"/proc/self/fd/{place}/{beside}")
        os.chmod(beside, 0o666, dir_fd=place)  # noqa: S103  as said above
        listening.listen(16)
        os.rename(beside, SOCKET, src_dir_fd=place, dst_dir_fd=place)
        return listening
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(place)
