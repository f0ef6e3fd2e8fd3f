"""What the server may ask of the spawner: each operation with what it takes and gives, checked on both sides.

One datagram each way on a socket pair (SOCK_SEQPACKET), in msgpack:

    request   [VERSION, number, operation, argument, …]
    answer    [number, "done", what it gives]    or    [number, kind of error, message, code or errno, details]

The spawner is root, and takes the server for hostile. So a request holds ids and sizes, never a path, a descriptor, an
environment, or anything that an agent wrote; every field must be there, be of its type and in its bounds, and nothing
may be there besides. A sandbox that is to be found, made or ended is named by its id alone.
"""

import math
import types
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgpack

from ringfence.fence.model import (
    LIMITS,
    OWN_IMAGE,
    Blueprint,
    Cause,
    Enforced,
    Image,
    Life,
    Limits,
    Stats,
    check_image_name,
)
from ringfence.fence.runtimes.model import Capabilities, Found, Unsupported
from ringfence.fence.runtimes.native.box import NAME
from ringfence.fence.runtimes.native.boxes import HOSTNAME
from ringfence.kernel.errors import Conflict, Invalid, NotFound, RingfenceError, StorageFull, Unavailable
from ringfence.supervisor import PAIRS

VERSION = 1
AT_ONCE = PAIRS  # an act waits more than it works
REQUEST_MOST, ANSWER_MOST = 16 << 10, 160 << 10
TEXT_MOST, ITEMS_MOST = 32 << 10, 1024
PAGE = 256  # sandboxes in one answer
DONE = "done"
_MOST = {"memory": 1 << 50, "cpus": 4096, "pids": 4_194_304, "disk": 1 << 50}


# What is asked --------------------------------------------------------------------------------------------------------


def _sandbox(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Invalid(f"{name!r:.80} is not a sandbox's id")


def _page_start(name: str) -> None:
    if name:
        _sandbox(name)


def _image(name: str) -> None:
    check_image_name(name)


def _archive(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Invalid(f"{name!r:.80} is not the name of an archive")


def _most(size: int) -> None:
    if not 0 <= size <= 1 << 50:
        raise Invalid(f"{size} bytes are not the size of an image")


def _snapshot(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Invalid(f"{name!r:.80} is not a snapshot's id")


def _key(key: bytes) -> None:
    if len(key) != 32:
        raise Invalid("a link's key has 32 bytes")


def _blueprint(plan: Blueprint) -> None:
    _sandbox(plan.id)
    if not HOSTNAME.fullmatch(plan.hostname):
        raise Invalid(f"{plan.hostname!r} is no host name: letters a to z, digits and hyphens, at most 63")
    if plan.image != OWN_IMAGE:
        check_image_name(plan.image)
    if plan.env:
        raise Invalid("an environment is the warden's matter")
    if plan.snapshot is not None:
        _snapshot(plan.snapshot)
    _limits(plan.limits)


def _limits(limits: Limits) -> None:
    for name, most in _MOST.items():
        value = getattr(limits, name)
        if value is not None and not (0 < value <= most):
            raise Invalid(f"limits.{name} is {value}: it must be more than 0, and at most {most}")
    if unknown := limits.requested - set(LIMITS):
        raise Invalid(f"there are no limits {sorted(unknown)}")


def _life(life: Life) -> None:
    if not (0 < life.pid < 1 << 31 and 0 <= life.started < 1 << 63):
        raise Invalid("that is no process")


Sandbox = Annotated[str, _sandbox]
PageStart = Annotated[str, _page_start]
Key = Annotated[bytes, _key]
ImageName = Annotated[str, _image]
Archive = Annotated[str, _archive]
SnapshotName = Annotated[str, _snapshot]
Size = Annotated[int, _most]
Plan = Annotated[Blueprint, _blueprint]
ALife = Annotated[Life, _life]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    folder: str  # of all sandboxes
    capabilities: Capabilities
    images: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    takes: tuple[Any, ...]
    gives: Any
    acts: bool = True  # False: it only looks
    again: bool = True  # harmless when it was done already, so that it is repeated after a death of the spawner
    within: float = 60.0


OPERATIONS = {
    "open": Operation(takes=(), gives=Opened, acts=False),
    "create": Operation(takes=(Plan,), gives=Enforced),
    "start": Operation(takes=(Plan, Key), gives=Life, again=False),
    "stop": Operation(takes=(Sandbox,), gives=None),
    "pause": Operation(takes=(Sandbox,), gives=None),
    "resume": Operation(takes=(Sandbox,), gives=None),
    "destroy": Operation(takes=(Sandbox,), gives=None, within=600.0),
    "found": Operation(takes=(Sandbox,), gives=Found | None, acts=False),
    "find_page": Operation(takes=(PageStart,), gives=list[Found], acts=False),
    "cause": Operation(takes=(Sandbox,), gives=Cause, acts=False),
    "lives": Operation(takes=(ALife,), gives=bool, acts=False),
    "stats": Operation(takes=(Sandbox,), gives=Stats, acts=False),
    "said": Operation(takes=(Sandbox,), gives=bytes, acts=False),
    "import_image": Operation(takes=(ImageName, Archive, Size), gives=Image, again=False, within=3600.0),
    "snapshot": Operation(takes=(Sandbox, SnapshotName), gives=int, again=False, within=3600.0),
    "forget_snapshot": Operation(takes=(SnapshotName,), gives=None, within=600.0),
    "forget_image": Operation(takes=(ImageName,), gives=None, within=600.0),
}


# Datagrams ------------------------------------------------------------------------------------------------------------


class Garbled(Exception):
    """These bytes are no message."""


@dataclass(frozen=True, slots=True)
class Request:
    number: int
    operation: str
    arguments: tuple[Any, ...]


def request(number: int, operation: str, *arguments: object) -> bytes:
    return _packed([VERSION, number, operation, *map(plain, arguments)])


def read_number(raw: bytes) -> tuple[int, list[Any]]:
    """Which request this is, and the rest of it; `Garbled` where nobody could be answered."""
    match _unpacked(raw):
        case [version, int(number), *rest]:
            return number, [version, *rest]
    raise Garbled("that is no request")


def read_request(number: int, rest: list[Any]) -> Request:
    version, *asked = rest
    if version != VERSION:
        raise Unavailable(f"the server speaks version {version!r:.20}, the spawner {VERSION}: restart Ringfence")
    match asked:
        case [str(name), *given] if name in OPERATIONS and len(given) == len(OPERATIONS[name].takes):
            takes = OPERATIONS[name].takes
            return Request(number, name, tuple(read(kind, it) for kind, it in zip(takes, given, strict=True)))
    raise Invalid("there is no such operation")


def done(request: Request, given: object) -> bytes:
    return _packed([request.number, DONE, plain(given)])


def refused(number: int, error: Exception) -> bytes:
    if type(error) in _ERRORS.values() and isinstance(error, RingfenceError):
        details = {name: it for name, it in error.details.items() if isinstance(it, str | int | float | None)}
        return _packed([number, type(error).__name__, error.message[:TEXT_MOST], error.code, details])
    if isinstance(error, OSError):
        return _packed([number, "OSError", str(error.strerror or error)[:TEXT_MOST], error.errno or 0, {}])
    sentence = f"{type(error).__name__}: {error}"
    return _packed([number, Unavailable.__name__, sentence[:TEXT_MOST], Unavailable.default_code, {}])


@dataclass(frozen=True, slots=True)
class Answer:
    given: Any = None
    error: Exception | None = None  # as it was raised


def read_answer(raw: bytes, request: int, operation: str) -> Answer | None:
    """None: it answers an earlier request, for which nobody waits any more."""
    match _unpacked(raw):
        case [int(number), *_] if number != request:
            return None
        case [_, "done", given]:
            return Answer(read(OPERATIONS[operation].gives, given))
        case [_, "OSError", str(message), int(errno), dict()]:
            return Answer(error=OSError(errno, message) if errno else OSError(message))
        case [_, str(kind), str(message), str(code), dict(details)] if kind in _ERRORS:
            return Answer(error=_ERRORS[kind](message, code=code, **details))
    raise Garbled("that is no answer")


_ERRORS: dict[str, type[RingfenceError]] = {
    kind.__name__: kind for kind in (Invalid, Unsupported, NotFound, Conflict, Unavailable, StorageFull)
}


def _packed(message: list[Any]) -> bytes:
    packed: bytes = msgpack.packb(message, unicode_errors="replace")  # a file's name may be no text
    return packed


def _unpacked(raw: bytes) -> Any:
    most = ANSWER_MOST
    try:
        return msgpack.unpackb(
            raw, strict_map_key=True, max_str_len=most, max_bin_len=most, max_array_len=ITEMS_MOST,
            max_map_len=ITEMS_MOST, max_ext_len=0,
        )  # fmt: skip
    except Exception as error:  # its own, and ValueError, OverflowError, RecursionError, UnicodeError
        raise Garbled(f"that is no msgpack: {error!r:.200}") from None


# Typed values, as plain ones and back ---------------------------------------------------------------------------------


def plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain(it) for key, it in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [plain(it) for it in value]
    return str(value) if isinstance(value, StrEnum | Path) else value


def read(kind: Any, value: object) -> Any:
    """`value` as a `kind`, or `Invalid`: nothing is converted, guessed, left out or let in besides."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        found = read(inner[0], value)
        inner[1](found)
        return found
    if origin in (Union, types.UnionType):
        (some,) = (each for each in inner if each is not type(None))
        return None if value is None else read(some, value)
    if origin in (list, frozenset, tuple):
        return origin(read(inner[0], it) for it in _sized(kind, value, list))
    if origin is dict:
        return {read(inner[0], key): read(inner[1], it) for key, it in _sized(kind, value, dict).items()}
    if is_dataclass(kind):
        return _read_fields(kind, value)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if isinstance(value, str) and value in set(kind):
            return kind(value)
    elif kind is float and type(value) in (int, float) and math.isfinite(value):  # type: ignore[arg-type]
        return value
    elif kind is None and value is None:
        return None
    elif type(value) is kind and (kind is not str or len(value) <= TEXT_MOST):  # type: ignore[arg-type]
        return value
    raise _wrong(kind, value)


def _read_fields(kind: Any, value: object) -> Any:
    hints = _hints(kind)
    given = _sized(kind, value, dict)
    if given.keys() != hints.keys():
        raise Invalid(f"a {kind.__name__} has the fields {', '.join(hints)}, no fewer and no others")
    return kind(**{name: read(hint, given[name]) for name, hint in hints.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _sized(kind: Any, value: object, wanted: Callable[..., Any]) -> Any:
    if type(value) is not wanted or len(value) > ITEMS_MOST:  # type: ignore[arg-type]
        raise _wrong(kind, value)
    return value


def _wrong(kind: Any, value: object) -> Invalid:
    return Invalid(f"{value!r:.80} is no {getattr(kind, '__name__', kind)}")
