"""The frames of docs/link.md: cut out of a stream of bytes, understood, written. For both ends; no state, no I/O.

    bytes ──► Splitter ──► Frame ──► to_server / to_warden ──► Hello, Output, Exited …

Whatever is not as that page says is a `Violation`: it ends the connection.
"""

import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, cast

import msgpack

from ringfence.fence.link.model import Channel, Exit, Start, Whom, Why

VERSION = 1
PAYLOAD = 262_144
OUTPUT = 131_072  # bytes in one OUTPUT
INPUT = 65_536  # bytes in one INPUT, and beyond TAKEN
RING = 1_048_576  # bytes a warden keeps that are not STORED
SESSIONS = 128
GREETING = 32_768  # bytes of a HELLO
ENDING = 32_768  # bytes of an EXITED
STARTING = 1_024  # bytes of a STARTED
STRINGS = 131_072  # bytes of all strings of a START
STRING = 65_536
WORDS = 1_024  # of argv, of env
PATH = 4_096
ERROR = 1_024
KEY = 32
NONCE = 32
BOOT = 16
ID = 16
U32 = 0xFFFF_FFFF
U64 = 0xFFFF_FFFF_FFFF_FFFF
_GREETING = b"ringfence link 1\n"

HEADER = struct.Struct(">IBI")
_OUTPUT = struct.Struct(">BQ")
_OFFSET = struct.Struct(">Q")
_SIGNAL = struct.Struct(">BB")
_SIZE = struct.Struct(">HH")

Bytes = bytes | bytearray | memoryview


class Violation(Exception):
    """A frame that is not as docs/link.md says."""


class Kind(IntEnum):
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


_MOST = {Kind.HELLO: GREETING, Kind.STARTED: STARTING, Kind.EXITED: ENDING, Kind.OUTPUT: _OUTPUT.size + OUTPUT}


class Frame(NamedTuple):
    kind: int
    stream: int
    payload: memoryview


class Splitter:
    """Cuts a stream of bytes into frames, and holds what is not a whole one yet.

    A payload is a view: of what was fed, or of what was held. It is good until the caller reuses the fed buffer.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: Bytes, most: int = 64) -> list[Frame]:
        """At most `most` frames; `feed(b"")` gives more of what is held. `data` is copied only as far as it is left."""
        frames: list[Frame] = []
        view = memoryview(data)
        at = self._complete(view, frames)
        if self._held:
            if at < len(view):  # more came before all that is held was cut
                self._held += view[at:]
            self._cut_held(frames, most)
            return frames
        at = _cut(view, at, frames, most)
        if at < len(view):
            self._held = bytearray(view[at:])
        return frames

    @property
    def has_frame(self) -> bool:
        """Whether `feed(b"")` would give one, or raise."""
        held = self._held
        if len(held) < HEADER.size:
            return False
        length = int.from_bytes(held[:4], "big")
        return length > PAYLOAD or len(held) >= HEADER.size + length

    def _complete(self, view: memoryview, frames: list[Frame]) -> int:
        """Fill up the one frame that is held in part; where `view` goes on after it."""
        held = self._held
        if not held:
            return 0
        at = 0
        if len(held) < HEADER.size:
            at = min(HEADER.size - len(held), len(view))
            held += view[:at]
            if len(held) < HEADER.size:
                return at
        end = HEADER.size + int.from_bytes(held[:4], "big")
        if len(held) >= end or end > HEADER.size + PAYLOAD:  # whole, and still to be cut
            return at
        more = min(end - len(held), len(view) - at)
        held += view[at : at + more]
        if len(held) == end:
            self._held = bytearray()  # views of the old one live on
            _cut(memoryview(held), 0, frames, 1)
        return at + more

    def _cut_held(self, frames: list[Frame], most: int) -> None:
        held = memoryview(self._held)
        at = _cut(held, 0, frames, most)
        if at:
            self._held = bytearray(held[at:])


def _cut(view: memoryview, at: int, frames: list[Frame], most: int) -> int:
    total = len(view)
    unpack, size = HEADER.unpack_from, HEADER.size
    while total - at >= size and len(frames) < most:
        length, kind, stream = unpack(view, at)
        if length > PAYLOAD:
            if frames:  # what came before it counts
                break
            raise Violation(f"a frame of {length} bytes")
        end = at + size + length
        if end > total:
            break
        frames.append(Frame(kind, stream, view[at + size : end]))
        at = end
    return at


# Writing --------------------------------------------------------------------------------------------------------------


def frame(kind: Kind, stream: int, payload: Bytes = b"") -> bytes:
    return b"".join((HEADER.pack(len(payload), kind, stream), payload))


def packed(kind: Kind, stream: int, fields: Mapping[str, Any]) -> bytes:
    return frame(kind, stream, cast(bytes, msgpack.packb(fields)))


def challenge(nonce: bytes) -> bytes:
    return packed(Kind.CHALLENGE, 0, {"v": VERSION, "nonce": nonce})


def welcome(keep: list[tuple[int, int, int]]) -> bytes:
    return packed(Kind.WELCOME, 0, {"keep": keep})


def ping(token: bytes) -> bytes:
    return frame(Kind.PING, 0, token)


def pong(token: Bytes) -> bytes:
    return frame(Kind.PONG, 0, token)


def start(stream: int, it: Start) -> bytes:
    fields: dict[str, Any] = {"id": it.id}
    if it.act is None:
        fields["argv"] = it.argv
        if it.timeout:
            fields["timeout"] = max(1, round(it.timeout * 1000))
    else:
        fields |= it.arguments
        fields["do"] = it.act
    if it.env:
        fields["env"] = it.env
    if it.cwd != b"/":
        fields["cwd"] = it.cwd
    if it.pty is not None:
        fields["pty"] = it.pty
    if it.stdin:
        fields["stdin"] = True
    return packed(Kind.START, stream, fields)


def stored(stream: int, channel: int, offset: int) -> bytes:
    return frame(Kind.STORED, stream, _OUTPUT.pack(channel, offset))


def input_at(stream: int, offset: int, data: Bytes) -> bytes:
    return b"".join((HEADER.pack(_OFFSET.size + len(data), Kind.INPUT, stream), _OFFSET.pack(offset), data))


def input_end(stream: int, offset: int) -> bytes:
    return frame(Kind.INPUT_END, stream, _OFFSET.pack(offset))


def exited(stream: int, exit: Exit) -> bytes:
    fields: dict[str, Any] = {
        "cause": exit.why.value, "code": exit.code, "signal": exit.signal, "out": exit.out, "err": exit.err,
        "user": exit.user_us, "system": exit.system_us, "memory": exit.memory_kib,
    }  # fmt: skip
    if exit.why is Why.FAILED:
        fields |= {"errno": exit.errno, "error": exit.error}
    if exit.result:
        fields["result"] = dict(exit.result)
    return packed(Kind.EXITED, stream, fields)


def signal(stream: int, number: int, whom: Whom) -> bytes:
    return frame(Kind.SIGNAL, stream, _SIGNAL.pack(number, whom))


def resize(stream: int, rows: int, columns: int) -> bytes:
    return frame(Kind.RESIZE, stream, _SIZE.pack(rows, columns))


def forget(stream: int) -> bytes:
    return frame(Kind.FORGET, stream)


def mac(key: bytes, nonce: bytes, boot: bytes) -> bytes:
    return hmac.digest(key, _GREETING + nonce + boot, hashlib.sha256)


def check_start(it: Start) -> str | None:
    """What a START could not carry."""
    words = [*it.argv, *it.env, it.cwd]
    words += [value for value in it.arguments.values() if isinstance(value, bytes)]
    if len(it.argv) > WORDS or len(it.env) > WORDS:
        return f"a command has at most {WORDS} arguments, and as many variables"
    if any(len(word) > STRING for word in words):
        return f"an argument, a variable or a path has at most {STRING} bytes"
    if sum(map(len, words)) > STRINGS:
        return f"arguments and environment have at most {STRINGS} bytes together"
    if any(b"\0" in word for word in words):
        return "arguments, variables and paths cannot hold a zero byte"
    return None


# Reading --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """A session that a warden comes back with."""

    stream: int
    id: bytes
    pid: int | None
    out: tuple[int, int]  # first kept offset, end
    err: tuple[int, int]
    taken: int
    seen: int
    ended: bool


@dataclass(frozen=True, slots=True)
class Hello:
    boot: bytes
    mac: bytes
    next: int
    sessions: tuple[Held, ...]

    def is_right(self, key: bytes, nonce: bytes) -> bool:
        return hmac.compare_digest(self.mac, mac(key, nonce, self.boot))


@dataclass(frozen=True, slots=True)
class Ping:
    token: bytes


@dataclass(frozen=True, slots=True)
class Pong:
    token: bytes


@dataclass(frozen=True, slots=True)
class Started:
    stream: int
    pid: int


@dataclass(frozen=True, slots=True)
class Output:
    stream: int
    channel: Channel
    offset: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Taken:
    stream: int
    offset: int


@dataclass(frozen=True, slots=True)
class Exited:
    stream: int
    exit: Exit


ToServer = Hello | Ping | Pong | Started | Output | Taken | Exited
_CHANNELS = {1: Channel.OUT, 2: Channel.ERR}
_WHY = {why.value.encode(): why for why in Why if why is not Why.LOST}


def to_server(it: Frame) -> ToServer:
    """What a warden said."""
    kind, stream, payload = it
    if kind == Kind.OUTPUT:
        if not 9 < len(payload) <= 9 + OUTPUT or not stream:
            raise Violation(f"an OUTPUT of {len(payload)} bytes on stream {stream}")
        number, offset = _OUTPUT.unpack_from(payload)
        channel = _CHANNELS.get(number)
        if channel is None:
            raise Violation(f"output on channel {number}")
        return Output(stream, channel, offset, payload[9:])
    if len(payload) > _MOST.get(cast(Kind, kind), PAYLOAD):
        raise Violation(f"a frame of kind {kind:#x} with {len(payload)} bytes")
    if (stream == 0) != (kind in (Kind.HELLO, Kind.PING, Kind.PONG)):
        raise Violation(f"a frame of kind {kind:#x} on stream {stream}")
    match kind:
        case Kind.TAKEN:
            return Taken(stream, _offset(payload))
        case Kind.STARTED:
            return Started(stream, Fields(payload).integer("pid", U32))
        case Kind.EXITED:
            return Exited(stream, _exit(Fields(payload)))
        case Kind.PING | Kind.PONG:
            if len(payload) != 8:
                raise Violation(f"a ping of {len(payload)} bytes")
            return (Ping if kind == Kind.PING else Pong)(bytes(payload))
        case Kind.HELLO:
            return _hello(Fields(payload))
    raise Violation(f"a frame of kind {kind:#x} from a warden")


class Fields:
    """A msgpack map with every field checked as it is read."""

    def __init__(self, payload: Bytes) -> None:
        try:
            found = msgpack.unpackb(payload, raw=True, strict_map_key=False)
        except Exception as error:  # it raises whatever its parser meets
            raise Violation(f"not msgpack: {error!r:.80}") from None
        self._of(found)

    def _of(self, found: object) -> None:
        if not isinstance(found, dict):
            raise Violation("not a map")
        self._fields: dict[object, object] = found

    @classmethod
    def of(cls, found: object) -> "Fields":
        fields = cls.__new__(cls)
        fields._of(found)
        return fields

    def integer(self, name: str, most: int, default: int | None = None) -> int:
        value = self._fields.get(name.encode(), default)
        if type(value) is not int or not 0 <= value <= most:
            raise Violation(f"{name} is {value!r:.80}")
        return value

    def boolean(self, name: str, default: bool = False) -> bool:
        value = self._fields.get(name.encode(), default)
        if type(value) is not bool:
            raise Violation(f"{name} is {value!r:.80}")
        return value

    def octets(self, name: str, most: int, least: int = 0, default: bytes | None = None) -> bytes:
        value = self._fields.get(name.encode(), default)
        if type(value) is not bytes or not least <= len(value) <= most:
            raise Violation(f"{name} is {value!r:.80}")
        return value

    def array(self, name: str, most: int, least: int = 0, default: list[object] | None = None) -> list[object]:
        value = self._fields.get(name.encode(), default)
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise Violation(f"{name} is {value!r:.80}")
        return value

    def map(self, name: str) -> "Fields | None":
        value = self._fields.get(name.encode())
        return None if value is None else Fields.of(value)

    def pair(self, name: str, most: int) -> tuple[int, int]:
        first, last = self.array(name, 2, 2)
        if type(first) is not int or type(last) is not int or not 0 <= first <= last <= most:
            raise Violation(f"{name} is {[first, last]!r:.80}")
        return first, last

    def words(self, name: str) -> tuple[bytes, ...]:
        value = self.array(name, WORDS, default=[])
        if not all(type(word) is bytes and len(word) <= STRING for word in value):
            raise Violation(f"{name} holds what is not a string")
        return tuple(cast(list[bytes], value))

    def flat(self, known: frozenset[str] = frozenset()) -> dict[str, Any]:
        """All but the known ones: numbers, strings and flags under short names."""
        flat: dict[str, Any] = {}
        for key, value in self._fields.items():
            if not isinstance(key, bytes) or len(key) > 32 or not key.isascii():
                raise Violation(f"a field named {key!r:.80}")
            name = key.decode()
            if name in known:
                continue
            if not isinstance(value, int | bytes) or (type(value) is int and not -U64 <= value <= U64):
                raise Violation(f"{name} is {value!r:.80}")
            flat[name] = value
        return flat


def _offset(payload: memoryview) -> int:
    if len(payload) != _OFFSET.size:
        raise Violation(f"an offset of {len(payload)} bytes")
    return int(_OFFSET.unpack(payload)[0])


def _hello(fields: Fields) -> Hello:
    version = fields.integer("v", U32)
    if version != VERSION:
        raise Violation(f"version {version} of the link")
    held = tuple(_held(Fields.of(one)) for one in fields.array("sessions", SESSIONS))
    if len({one.stream for one in held}) < len(held) or len({one.id for one in held}) < len(held):
        raise Violation("a session twice in one greeting")
    following = fields.integer("next", U32)
    if any(one.stream >= following for one in held):
        raise Violation("a session on a stream that was not used")
    return Hello(fields.octets("boot", BOOT, BOOT), fields.octets("mac", 32, 32), following, held)


def _held(fields: Fields) -> Held:
    stream = fields.integer("stream", U32)
    taken = fields.integer("taken", U64)
    seen = fields.integer("seen", U64)
    if not stream or not taken <= seen <= taken + INPUT:
        raise Violation(f"a session on stream {stream} that took {taken} of {seen} bytes")
    out, err = fields.pair("out", U64), fields.pair("err", U64)
    if max(out[1] - out[0], err[1] - err[0]) > RING:
        raise Violation("a session with more output than a warden keeps")
    return Held(
        stream, fields.octets("id", ID, ID), fields.integer("pid", U32) or None, out, err, taken, seen,
        fields.boolean("ended"),
    )  # fmt: skip


def _exit(fields: Fields) -> Exit:
    cause = fields.octets("cause", 16)
    why = _WHY.get(cause)
    if why is None:
        raise Violation(f"a session ended by {cause!r}")
    result = fields.map("result")
    return Exit(
        why=why,
        code=fields.integer("code", 255),
        signal=fields.integer("signal", 64, 0),
        out=fields.integer("out", U64),
        err=fields.integer("err", U64),
        user_us=fields.integer("user", U64, 0),
        system_us=fields.integer("system", U64, 0),
        memory_kib=fields.integer("memory", U64, 0),
        errno=fields.integer("errno", 4095, 0),
        error=fields.octets("error", ERROR, 0, b"").decode(errors="replace"),
        result={} if result is None else result.flat(),
    )


# Reading at the other end: what a server said -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Challenge:
    nonce: bytes


@dataclass(frozen=True, slots=True)
class Welcome:
    keep: tuple[tuple[int, int, int], ...]  # stream, out, err


@dataclass(frozen=True, slots=True)
class Begin:
    stream: int
    start: Start


@dataclass(frozen=True, slots=True)
class Stored:
    stream: int
    channel: Channel
    offset: int


@dataclass(frozen=True, slots=True)
class Input:
    stream: int
    offset: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class InputEnd:
    stream: int
    offset: int


@dataclass(frozen=True, slots=True)
class Signal:
    stream: int
    number: int
    whom: Whom


@dataclass(frozen=True, slots=True)
class Resize:
    stream: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Forget:
    stream: int


ToWarden = Challenge | Welcome | Ping | Pong | Begin | Stored | Input | InputEnd | Signal | Resize | Forget
_CONNECTION = (Kind.CHALLENGE, Kind.WELCOME, Kind.PING, Kind.PONG)
_STARTS = frozenset({"id", "argv", "do", "env", "cwd", "pty", "stdin", "timeout"})


def to_warden(it: Frame) -> ToWarden:
    try:
        return _to_warden(it)
    except (struct.error, ValueError, TypeError) as error:
        raise Violation(f"a frame of kind {it.kind:#x}: {error}") from None


def _to_warden(it: Frame) -> ToWarden:
    kind, stream, payload = it
    if (stream == 0) != (kind in _CONNECTION):
        raise Violation(f"a frame of kind {kind:#x} on stream {stream}")
    match kind:
        case Kind.CHALLENGE:
            return Challenge(Fields(payload).octets("nonce", NONCE, NONCE))
        case Kind.WELCOME:
            return Welcome(tuple(_offsets(one) for one in Fields(payload).array("keep", SESSIONS)))
        case Kind.PING | Kind.PONG:
            return (Ping if kind == Kind.PING else Pong)(bytes(payload))
        case Kind.START:
            return Begin(stream, _start(Fields(payload)))
        case Kind.STORED:
            number, offset = _OUTPUT.unpack(payload)
            return Stored(stream, Channel(number), offset)
        case Kind.INPUT:
            if not _OFFSET.size < len(payload) <= _OFFSET.size + INPUT:
                raise Violation(f"an INPUT of {len(payload)} bytes")
            return Input(stream, _offset(payload[:8]), payload[8:])
        case Kind.INPUT_END:
            return InputEnd(stream, _offset(payload))
        case Kind.SIGNAL:
            number, whom = _SIGNAL.unpack(payload)
            return Signal(stream, number, Whom(whom))
        case Kind.RESIZE:
            return Resize(stream, *_SIZE.unpack(payload))
        case Kind.FORGET:
            return Forget(stream)
    raise Violation(f"a frame of kind {kind:#x} from a server")


def _offsets(found: object) -> tuple[int, int, int]:
    if not isinstance(found, list) or not all(type(number) is int and 0 <= number <= U64 for number in found):
        raise Violation("not offsets")
    stream, out, err = found
    return stream, out, err


def _start(fields: Fields) -> Start:
    rows, columns = cast(list[int], fields.array("pty", 2, 2, [0, 0]))
    act = fields.octets("do", 16, 0, b"").decode("ascii") or None
    return Start(
        id=fields.octets("id", ID, ID),
        argv=fields.words("argv"),
        act=act,
        arguments=fields.flat(_STARTS) if act else {},
        env=fields.words("env"),
        cwd=fields.octets("cwd", PATH, 1, b"/"),
        pty=(rows, columns) if rows or columns else None,
        stdin=fields.boolean("stdin"),
        timeout=fields.integer("timeout", U32, 0) / 1000 or None,
    )
