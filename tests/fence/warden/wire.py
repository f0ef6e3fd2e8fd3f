"""A small server end of docs/link.md, for tests that say to a warden exactly what they mean, wrong things too."""

import hashlib
import hmac
import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgpack

DEADLINE = 20.0


class Type(IntEnum):
    CHALLENGE = 0x01
    HELLO = 0x02
    WELCOME = 0x03
    PING = 0x04
    PONG = 0x05
    START = 0x10
    STARTED = 0x11
    OUTPUT = 0x12
    STORED = 0x13
    INPUT = 0x14
    INPUT_END = 0x15
    TAKEN = 0x16
    SIGNAL = 0x17
    RESIZE = 0x18
    EXITED = 0x19
    FORGET = 0x1A


@dataclass
class Frame:
    type: Type
    stream: int
    payload: bytes

    @property
    def map(self) -> dict[str, Any]:
        found = msgpack.unpackb(self.payload)
        assert isinstance(found, dict)
        return found


class Closed(Exception):
    """The warden ended the connection."""


class Wire:
    """One connection: frames out, frames in."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.held = bytearray()

    def send(self, type: int, stream: int = 0, payload: bytes = b"") -> None:
        self.socket.settimeout(DEADLINE)
        try:
            self.socket.sendall(struct.pack(">IBI", len(payload), type, stream) + payload)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def send_map(self, type: int, stream: int, **keys: Any) -> None:
        self.send(type, stream, msgpack.packb(keys))

    def next(self, within: float = DEADLINE) -> Frame:
        until = time.monotonic() + within
        while True:
            if len(self.held) >= 9:
                size, type, stream = struct.unpack_from(">IBI", self.held)
                assert size <= 262_144, "the warden sent a frame that is too long"
                if len(self.held) >= 9 + size:
                    payload = bytes(self.held[9 : 9 + size])
                    del self.held[: 9 + size]
                    return Frame(Type(type), stream, payload)
            self.socket.settimeout(max(until - time.monotonic(), 0.001))
            try:
                got = self.socket.recv(1 << 18)
            except ConnectionResetError as error:
                raise Closed from error
            if not got:
                raise Closed
            self.held += got

    def close(self) -> None:
        self.socket.close()


@dataclass
class Outcome:
    """All that a session said."""

    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    pid: int | None = None
    taken: int = 0
    end: dict[str, Any] | None = None

    @property
    def ended(self) -> dict[str, Any]:
        assert self.end is not None, "it has not ended"
        return self.end


class Server:
    """What a server does of the link: greets, starts, stores, and remembers what each session said."""

    def __init__(self, wire: Wire, hello: dict[str, Any]) -> None:
        self.wire = wire
        self.hello = hello
        self.heard: dict[int, Outcome] = {}
        self.stream: int = hello["next"]
        self.stores = True
        self.forgets = True

    def start(self, *argv: str | bytes, id: bytes | None = None, **keys: Any) -> int:
        stream = self.stream
        self.stream += 1
        if argv:
            keys["argv"] = [a.encode() if isinstance(a, str) else a for a in argv]
        keys.setdefault("env", [b"PATH=/usr/local/bin:/usr/bin:/bin"])
        self.heard[stream] = Outcome()
        self.wire.send_map(Type.START, stream, id=id or os.urandom(16), **keys)
        return stream

    def input(self, stream: int, offset: int, data: bytes) -> None:
        self.wire.send(Type.INPUT, stream, struct.pack(">Q", offset) + data)

    def end_input(self, stream: int, offset: int) -> None:
        self.wire.send(Type.INPUT_END, stream, struct.pack(">Q", offset))

    def signal(self, stream: int, number: int, whom: int = 1) -> None:
        self.wire.send(Type.SIGNAL, stream, bytes([number, whom]))

    def stored(self, stream: int, channel: int, offset: int) -> None:
        self.wire.send(Type.STORED, stream, struct.pack(">BQ", channel, offset))

    def step(self, within: float = DEADLINE) -> Frame:
        """Hear one frame."""
        frame = self.wire.next(within)
        outcome = self.heard.setdefault(frame.stream, Outcome())
        match frame.type:
            case Type.STARTED:
                outcome.pid = frame.map["pid"]
            case Type.OUTPUT:
                channel, offset = struct.unpack_from(">BQ", frame.payload)
                into = outcome.out if channel == 1 else outcome.err
                assert offset == len(into), "output with a gap, or a repeat"
                into += frame.payload[9:]
                if self.stores:
                    self.stored(frame.stream, channel, len(into))
            case Type.TAKEN:
                (outcome.taken,) = struct.unpack(">Q", frame.payload)
            case Type.EXITED:
                outcome.end = frame.map
                if self.forgets:
                    self.wire.send(Type.FORGET, frame.stream)
        return frame

    def until(self, done: Callable[[], object], within: float = DEADLINE) -> None:
        until = time.monotonic() + within
        while not done():
            self.step(max(until - time.monotonic(), 0.001))

    def finish(self, stream: int, within: float = DEADLINE) -> Outcome:
        self.until(lambda: self.heard[stream].end is not None, within)
        return self.heard[stream]

    def run(self, *argv: str | bytes, within: float = DEADLINE, **keys: Any) -> Outcome:
        return self.finish(self.start(*argv, **keys), within)

    def shell(self, script: str, within: float = DEADLINE, **keys: Any) -> Outcome:
        return self.run("sh", "-c", script, within=within, **keys)

    def act(self, do: str, data: bytes | None = None, within: float = DEADLINE, **keys: Any) -> Outcome:
        """Do an act, with all of `data` as its input."""
        stream = self.start(do=do, **keys)
        outcome = self.heard[stream]
        if data is not None:
            sent = 0
            while sent < len(data) and outcome.end is None:
                if sent - outcome.taken < 65_536:
                    piece = data[sent : min(sent + 65_536 - (sent - outcome.taken), sent + 65_536)]
                    self.input(stream, sent, piece)
                    sent += len(piece)
                else:
                    self.step()
            self.end_input(stream, sent)
        return self.finish(stream, within)


class Warden:
    """A real warden in a real bubblewrap."""

    def __init__(
        self, binary: Path, bwrap: Path, folder: Path, *, user: int | None = None, options: tuple[str, ...] = ()
    ) -> None:
        self.key = os.urandom(32)
        self.folder = folder
        self.listener = listen(folder / "link.sock", user)
        self.socket, key = socket.socketpair()
        self.socket.send(self.key)
        command = [
            *(str(bwrap), *bubblewrap(folder), "--ro-bind", str(binary), "/run/warden"),
            *(*options, "/run/warden", str(key.fileno()), "agent"),
        ]
        if user is not None:
            command = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *command]
        self.process = subprocess.Popen(
            command,
            pass_fds=(key.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=key.fileno(),
        )
        key.close()

    def said(self, within: float = DEADLINE) -> bytes:
        """What it and bubblewrap said until it was ready, with a NUL when it was, or to their end."""
        self.socket.settimeout(within)
        said = b""
        while not said.endswith(b"\0") and (got := self.socket.recv(4096)):
            said += got
        return said

    def accept(self, within: float = DEADLINE) -> Wire:
        self.listener.settimeout(0.2)
        until = time.monotonic() + within
        while time.monotonic() < until and self.process.poll() is None:
            try:
                return Wire(self.listener.accept()[0])
            except TimeoutError:
                continue
        raise AssertionError(f"no warden dialled: {self.process.returncode} {self.said(1)!r}")

    def greet(self, keep: Callable[[dict[str, Any]], list[Any]] | None = None) -> Server:
        """Take its next connection to where sessions may be started."""
        wire = self.accept()
        nonce = os.urandom(32)
        wire.send_map(Type.CHALLENGE, 0, v=1, nonce=nonce)
        frame = wire.next()
        assert frame.type is Type.HELLO
        hello = frame.map
        expected = hmac.new(self.key, b"ringfence link 1\n" + nonce + hello["boot"], hashlib.sha256).digest()
        assert hello["mac"] == expected
        wire.send_map(Type.WELCOME, 0, keep=keep(hello) if keep else [])
        return Server(wire, hello)

    def pids(self) -> list[int]:
        """The host's numbers of all processes in the sandbox, the warden first."""
        found = [self.process.pid]
        for pid in found:
            with suppress(OSError):  # it may end while we look
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found[1:]

    def stop(self) -> None:
        for pid in self.pids()[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.process.kill()
        self.process.wait(DEADLINE)
        self.listener.close()
        self.socket.close()


def listen(path: Path, user: int | None) -> socket.socket:
    """Bound through the folder's descriptor, since a socket's path is short and a test's folder is not."""
    listener = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    path.chmod(0o666)
    listener.listen(16)
    return listener


def bubblewrap(folder: Path) -> list[str]:
    """DESIGN.md section 5, with this machine's own files as the root."""
    return [
        "--unshare-user", "--unshare-all", "--uid", "0", "--gid", "0", "--as-pid-1",
        "--cap-drop", "ALL", "--cap-add", "CAP_NET_ADMIN", "--cap-add", "CAP_SETFCAP", "--die-with-parent",
        "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
        "--tmpfs", "/tmp", "--tmpfs", "/home", "--tmpfs", "/run",
        "--ro-bind", str(folder), "/run/ringfence", "--chdir", "/",
        "--size", "1048576", "--tmpfs", "/run/small",
    ]  # fmt: skip
