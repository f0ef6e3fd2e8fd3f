"""A warden in Python: the other end of docs/link.md, with programs that are coroutines and files that are in memory.

    async def cat(process):
        while data := await process.read():
            await process.write(data)
        return 0

    async with FakeWarden(folder / "link.sock", key, {b"cat": cat}) as warden: ...

It does what the real one does, offsets, rings, repeats and all, so that whatever holds with it is worth trying with
the real one; a test may also lie through it (`send`). It outlives its connections: `cut()` breaks one.
"""

import asyncio
import errno
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ringfence.fence.link import frames
from ringfence.fence.link.frames import (
    Begin,
    Challenge,
    Forget,
    Input,
    InputEnd,
    Ping,
    Pong,
    Resize,
    Signal,
    Stored,
    Welcome,
)
from ringfence.fence.link.model import Channel, Exit, Start, Whom, Why
from tests.fence.fake_files import ACTS, ActFailed, Files

READ = 256 * 1024
BACKOFF = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)


class Ring:
    """What one channel said and is not STORED."""

    def __init__(self) -> None:
        self.first = 0
        self.data = bytearray()
        self.sent = 0  # on this connection
        self.space = asyncio.Event()

    @property
    def end(self) -> int:
        return self.first + len(self.data)

    def forget(self, offset: int) -> None:
        if not self.first <= offset <= self.end:
            raise frames.Violation(f"stored up to {offset} of {self.first} to {self.end}")
        del self.data[: offset - self.first]
        self.first = offset
        self.space.set()


class Process:
    """What a program sees of itself."""

    def __init__(self, warden: "FakeWarden", stream: int, start: Start) -> None:
        self.stream, self.start = stream, start
        self.argv, self.env, self.cwd = start.argv, dict(one.split(b"=", 1) for one in start.env), start.cwd
        self.size = start.pty
        self.signals: asyncio.Queue[int] = asyncio.Queue()
        self.handled: set[int] = set()  # signals that do not end it
        self.result: dict[str, object] = {}
        self.pid = 100 + stream
        self.rings = {Channel.OUT: Ring(), Channel.ERR: Ring()}
        self.taken = 0
        self.seen = 0
        self.begun = False  # STARTED was told
        self.ended: Exit | None = None
        self.told = False  # EXITED, on this connection
        self.task: asyncio.Task[None] | None = None
        self.running = False
        self.verdict: Exit | None = None  # why it is being ended
        self._warden = warden
        self._input = bytearray()
        self._input_end: int | None = None
        self._input_more = asyncio.Event()

    def ready(self) -> None:
        """What was asked for can begin."""
        if not self.begun:
            self.begun = True
            self._warden.send(frames.packed(frames.Kind.STARTED, self.stream, {"pid": self.pid}))

    async def write(self, data: bytes, channel: Channel = Channel.OUT) -> None:
        ring = self.rings[channel]
        view = memoryview(data)
        while view:
            room = frames.RING - len(ring.data)
            if not room:
                ring.space.clear()
                await ring.space.wait()
                continue
            ring.data += view[:room]
            view = view[room:]
            self._warden.more()

    async def read(self, most: int = READ) -> bytes:
        """Its input; nothing at the end."""
        if not (self.start.stdin or self.start.pty):
            return b""
        while not self._input:
            if self._input_end == self.taken:
                return b""
            self._input_more.clear()
            await self._input_more.wait()
        data = bytes(self._input[:most])
        del self._input[: len(data)]
        self.taken += len(data)
        self._warden.send(frames.frame(frames.Kind.TAKEN, self.stream, self.taken.to_bytes(8, "big")))
        return data

    # The warden's side of it --------------------------------------------------------------------------------------

    def feed(self, offset: int, data: bytes) -> None:
        if offset > self.seen:
            raise frames.Violation(f"a gap in the input: {offset} after {self.seen}")
        new = data[self.seen - offset :]
        self.seen += len(new)
        if self.seen > self.taken + frames.INPUT:
            raise frames.Violation("more input than may be under way")
        self._input += new
        self._input_more.set()

    def end_input(self, offset: int) -> None:
        if offset != self.seen:
            raise frames.Violation(f"input ends at {offset}, and {self.seen} bytes came")
        self._input_end = offset
        self._input_more.set()

    def signal(self, number: int, whom: Whom) -> None:
        if number == signal.SIGKILL:
            self.finish(Exit(why=Why.KILLED if whom is Whom.ALL else Why.SIGNALLED, code=137, signal=9))
        elif number in self.handled:
            self.signals.put_nowait(number)
        else:
            self.finish(Exit(why=Why.SIGNALLED, code=128 + number, signal=number))

    def finish(self, verdict: Exit) -> None:
        if self.ended is None and self.verdict is None:
            self.verdict = verdict
            if self.task is not None and self.running:
                self.task.cancel()


Program = Callable[[Process], Awaitable[int | None]]


class FakeWarden:
    def __init__(
        self,
        path: Path,
        key: bytes,
        programs: Mapping[bytes, Program] | None = None,
        files: Files | None = None,
        ports: Mapping[int, Program] | None = None,
    ) -> None:
        self.path, self.key = path, key
        self.programs = dict(programs or {})
        self.ports = dict(ports or {})
        self.files = files or Files()
        self.boot = os.urandom(16)
        self.sessions: dict[int, Process] = {}
        self.begun: list[Start] = []  # every START that started something
        self.connections = 0  # that were welcomed
        self.refused: list[str] = []  # what the server did that it must not
        self.hearing = asyncio.Event()  # cleared: it reads nothing
        self.hearing.set()
        self.mute = False  # it does not answer PINGs
        self._next = 1
        self._writer: asyncio.StreamWriter | None = None
        self._welcomed = False
        self._more = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "FakeWarden":
        self._running = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """It is gone, and what it ran too."""
        tasks = [task for task in (self._running, *(one.task for one in self.sessions.values())) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self) -> None:
        """Dial for ever."""
        failures = 0
        while True:
            try:
                await self._connected()
                failures = 0
            except OSError:
                pass
            except frames.Violation as violation:
                self.refused.append(str(violation))
            await asyncio.sleep(BACKOFF[min(failures, len(BACKOFF) - 1)])
            failures += 1

    def cut(self) -> None:
        """Break the connection; another is made."""
        if self._writer is not None:
            self._writer.transport.abort()

    def send(self, data: bytes) -> None:
        if self._writer is not None and self._welcomed and not self._writer.transport.is_closing():
            self._writer.write(data)

    def more(self) -> None:
        """There is output to send."""
        self._more.set()

    async def _connected(self) -> None:
        folder = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # its path may be longer than an address
            address = f"/proc/self/fd/{folder}/{self.path.name}"
            reader, writer = await asyncio.open_unix_connection(address, limit=READ)
        finally:
            os.close(folder)
        try:
            splitter = frames.Splitter()
            self._writer, self._welcomed = writer, False
            pump = asyncio.create_task(self._pump(writer))
            try:
                while data := await reader.read(READ):
                    await self.hearing.wait()
                    for frame in splitter.feed(data, 1 << 20):
                        self._take(frame)
            finally:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)
        finally:
            self._writer, self._welcomed = None, False
            writer.transport.abort()

    def _take(self, frame: frames.Frame) -> None:
        said = frames.to_warden(frame)
        match said:
            case Challenge(nonce):
                assert self._writer is not None
                self._writer.write(self._hello(nonce))
                return
            case Welcome(keep):
                self._welcome(keep)
                return
            case Ping(token):
                if not self.mute:
                    self.send(frames.pong(token))
                return
            case Pong():
                return
            case Begin(stream, start):
                self._begin(stream, start)
                return
        process = self.sessions.get(said.stream)
        if process is None:  # it was forgotten
            return
        match said:
            case Stored(_, channel, offset):
                process.rings[channel].forget(offset)
            case Input(_, offset, data):
                process.feed(offset, bytes(data))
            case InputEnd(_, offset):
                process.end_input(offset)
            case Signal(_, number, whom):
                process.signal(number, whom)
            case Resize(_, rows, columns):
                process.size = (rows, columns)
            case Forget():
                self._forget(process)

    def _hello(self, nonce: bytes) -> bytes:
        sessions = [
            {
                "stream": stream,
                "id": one.start.id,
                "pid": one.pid if one.begun and not one.ended else 0,
                "out": [one.rings[Channel.OUT].first, one.rings[Channel.OUT].end],
                "err": [one.rings[Channel.ERR].first, one.rings[Channel.ERR].end],
                "taken": one.taken,
                "seen": one.seen,
                "ended": one.ended is not None,
            }
            for stream, one in self.sessions.items()
        ]
        mac = frames.mac(self.key, nonce, self.boot)
        return frames.packed(
            frames.Kind.HELLO, 0, {"v": 1, "boot": self.boot, "mac": mac, "next": self._next, "sessions": sessions}
        )

    def _welcome(self, keep: tuple[tuple[int, int, int], ...]) -> None:
        named = {stream: (out, err) for stream, out, err in keep}
        for stream, process in list(self.sessions.items()):
            if stream not in named:
                process.finish(Exit(why=Why.KILLED, code=137, signal=9))
                self._forget(process)
                continue
            process.told = False
            for ring, offset in zip(process.rings.values(), named[stream], strict=True):
                ring.forget(offset)
                ring.sent = offset
        self._welcomed = True
        self.connections += 1
        self.more()

    def _begin(self, stream: int, start: Start) -> None:
        known = next((one for one in self.sessions.values() if one.start.id == start.id), None)
        if known is not None:
            known.told = False
            self.send(frames.packed(frames.Kind.STARTED, known.stream, {"pid": known.pid}))
            self.more()
            return
        if stream < self._next:
            raise frames.Violation(f"stream {stream} again")
        self._next = stream + 1
        process = self.sessions[stream] = Process(self, stream, start)
        self.begun.append(start)
        process.task = asyncio.create_task(self._run(process))

    async def _run(self, process: Process) -> None:
        start = process.start
        try:
            async with asyncio.timeout(start.timeout) as deadline:
                process.running = True
                exit = process.verdict or await self._done(process, start)
        except TimeoutError:
            assert deadline.expired()
            exit = Exit(why=Why.TIMEOUT, code=137, signal=9)
        except asyncio.CancelledError:
            if process.verdict is None:
                raise
            exit = process.verdict
        rings = process.rings
        out, err = rings[Channel.OUT].end, rings[Channel.ERR].end
        process.ended = Exit(
            why=exit.why, code=exit.code, signal=exit.signal, out=out, err=err, user_us=1000, system_us=500,
            memory_kib=2048, errno=exit.errno, error=exit.error, result=process.result,
        )  # fmt: skip
        self.more()

    async def _done(self, process: Process, start: Start) -> Exit:
        if start.act is not None:
            program: Program | None = self.files.act(start.act) if start.act in ACTS else None
            if start.act == "dial":
                program = self.ports.get(start.arguments["port"])
                if program is None:
                    return _failed(errno.ECONNREFUSED)
        else:
            program = self.programs.get(start.argv[0])
        if program is None:
            return _failed(errno.ENOENT)
        if start.act in (None, "dial"):
            process.ready()
        try:
            code = await program(process)
            process.ready()
        except ActFailed as failure:
            return _failed(failure.errno)
        return Exit(why=Why.EXITED, code=code or 0)

    def _forget(self, process: Process) -> None:
        self.sessions.pop(process.stream, None)

    async def _pump(self, writer: asyncio.StreamWriter) -> None:
        """Send what the rings hold, and the ends, for as long as there is this connection."""
        while True:
            self._more.clear()
            if self._welcomed:
                for process in list(self.sessions.values()):
                    await self._send_output(process, writer)
            await self._more.wait()

    async def _send_output(self, process: Process, writer: asyncio.StreamWriter) -> None:
        for channel, ring in process.rings.items():
            while ring.sent < ring.end:
                at = ring.sent
                data = bytes(ring.data[at - ring.first : at - ring.first + frames.OUTPUT])
                ring.sent += len(data)
                payload = bytes([channel]) + at.to_bytes(8, "big") + data
                writer.write(frames.frame(frames.Kind.OUTPUT, process.stream, payload))
                await writer.drain()
        if process.ended is not None and not process.told:
            process.told = True
            writer.write(frames.exited(process.stream, process.ended))


def _failed(number: int) -> Exit:
    return Exit(why=Why.FAILED, code=127, errno=number, error=os.strerror(number))
