"""Files in a sandbox, as its warden tells of them; and what it means when an act fails.

A name is bytes: whatever an agent called a file. What a warden answers is from inside a sandbox, so nothing of it is
believed before it was looked at.
"""

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import msgpack

from ringfence.fence.link.model import Exit, Why
from ringfence.fence.runtimes.model import Unsupported
from ringfence.kernel.errors import Conflict, Forbidden, Invalid, NotFound, RingfenceError, StorageFull, Unavailable

WORKSPACE = b"/workspace"
PATH = 4096  # bytes of a path
LISTED = 100_000  # entries of one list
KINDS = frozenset({"file", "directory", "link", "fifo", "socket", "device"})
CHANGES = frozenset({"created", "written", "removed", "moved", "attributes", "lost"})
RELATIVE = 192 << 10  # bytes of a name below what was listed or watched, or of both names of a move
U64 = (1 << 64) - 1
LISTENING = "0A"  # a state of /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Entry:
    name: bytes  # relative to what was asked for; `.` is that itself
    kind: str
    size: int
    mode: int
    uid: int
    gid: int
    modified: int  # microseconds
    target: bytes | None = None  # of a link


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened below a folder. `lost`: there was more than could be told; look anew."""

    event: str
    path: bytes  # relative to what is watched
    directory: bool
    to: bytes | None = None  # of a move


@dataclass(frozen=True, slots=True)
class Port:
    """A TCP port on which something listens."""

    port: int
    addresses: tuple[str, ...]

    @property
    def reachable(self) -> bool:
        """By a connection to 127.0.0.1, which is what a forward makes."""
        return not {"127.0.0.1", "0.0.0.0", "::"}.isdisjoint(self.addresses)  # noqa: S104  it is looked at, not bound


class Confused(Unavailable):
    default_code = "sandbox_confused"

    def __init__(self) -> None:
        super().__init__("the sandbox answered with what is no answer: recreate it")


def absolute(path: bytes) -> bytes:
    """A relative path counts from the workspace."""
    if not path or b"\0" in path:
        raise Invalid("give a path: absolute, or relative to /workspace", code="invalid_path")
    whole = path if path.startswith(b"/") else WORKSPACE + b"/" + path
    if len(whole) > PATH:
        raise Invalid(f"a path of {len(whole)} bytes is too long: at most {PATH}", code="invalid_path")
    return whole


def shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


# What an act answers --------------------------------------------------------------------------------------------------


class Maps:
    """The msgpack maps of a list or a watch, however their bytes are cut."""

    def __init__(self) -> None:
        self._unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=4 << 20)

    def feed(self, piece: bytes) -> Iterator[Mapping[str, Any]]:
        try:
            self._unpacker.feed(piece)
            for found in self._unpacker:
                yield named(found)
        except RingfenceError:
            raise
        except Exception:  # it raises whatever its parser meets
            raise Confused from None


def named(found: object) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise Confused
    return {key.decode("ascii", "replace") if isinstance(key, bytes) else str(key): it for key, it in found.items()}


def entry(it: Mapping[str, Any]) -> Entry:
    kind = _word(it, "kind", KINDS)
    target = _octets(it, "target", PATH) if "target" in it else None
    return Entry(
        _octets(it, "name", RELATIVE), kind, number(it, "size"), number(it, "mode") & 0o7777, number(it, "uid"),
        number(it, "gid"), number(it, "modified") // 1000, target,
    )  # fmt: skip


def change(it: Mapping[str, Any]) -> Change:
    to = _octets(it, "to", RELATIVE) if "to" in it else None
    return Change(_word(it, "event", CHANGES), _octets(it, "path", RELATIVE), it.get("directory") is True, to)


def number(it: Mapping[str, Any], name: str) -> int:
    value = it.get(name)
    if type(value) is not int or not 0 <= value <= U64:
        raise Confused
    return value


def _octets(it: Mapping[str, Any], name: str, most: int) -> bytes:
    value = it.get(name)
    if type(value) is not bytes or len(value) > most:
        raise Confused
    return value


def _word(it: Mapping[str, Any], name: str, known: frozenset[str]) -> str:
    value = _octets(it, name, 16).decode("ascii", "replace")
    if value not in known:
        raise Confused
    return value


# What went wrong ------------------------------------------------------------------------------------------------------

_CONFLICTS = {
    errno.EEXIST: ("file_exists", "is there already"),
    errno.ENOTEMPTY: ("not_empty", "is not empty: remove it recursively"),
    errno.EISDIR: ("is_a_directory", "is a directory"),
    errno.ENOTDIR: ("not_a_directory", "is not a directory, or leads through what is none"),
    errno.EBUSY: ("file_busy", "is in use, or was changed meanwhile"),
    errno.ETXTBSY: ("file_busy", "is a program that runs"),
    errno.EXDEV: ("another_filesystem", "and where it is to go lie on two filesystems: copy it"),
    errno.ENXIO: ("not_a_file", "is not a regular file"),
    errno.ECONNREFUSED: ("port_closed", "does not answer: nothing listens there on 127.0.0.1"),
    errno.ESTALE: ("file_changed", "was changed meanwhile"),
}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LATER = {errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.EINTR}


def failure(exit: Exit, what: str, sandbox: str) -> RingfenceError | None:
    """Why an act did not do what was asked; None: it did."""
    if exit.why is Why.EXITED and exit.code == 0:
        return None
    if exit.why is Why.FAILED:
        return _failed(exit, what, sandbox)
    if exit.why is Why.LOST:
        return Unavailable(f"the sandbox ended before {what} was done with", code="sandbox_unreachable")
    return Unavailable(
        f"what was done with {what} was killed in the sandbox (signal {exit.signal}): is its memory full?",
        code="act_killed",
    )


def _failed(exit: Exit, what: str, sandbox: str) -> RingfenceError:
    number, said = exit.errno, exit.error[:500]
    if number == errno.ENOENT:
        return NotFound(f"there is no {what} in the sandbox", code="no_such_file")
    if number in _CONFLICTS:
        code, why = _CONFLICTS[number]
        return Conflict(f"{what} {why}", code=code, subject=sandbox)
    if number in _FORBIDDEN:
        return Forbidden(
            f"the sandbox does not let its user do that with {what}: {said}",
            code="read_only" if number == errno.EROFS else "permission_denied", subject=sandbox,
        )  # fmt: skip
    if number in _FULL:
        return StorageFull(f"there is no room for {what} in the sandbox: {os.strerror(number)}", code="no_space")
    if number in _LATER:
        return Unavailable(f"{what}: {said}", code="file_failed")
    if number == errno.ENOSYS:
        return Unsupported(f"this sandbox's warden cannot do that with {what}: {said}", code="unsupported")
    return Invalid(f"{what}: {said or os.strerror(number)}", code="invalid_path")


# Ports ----------------------------------------------------------------------------------------------------------------


def listening(*tables: bytes) -> list[Port]:
    """From /proc/net/tcp and tcp6."""
    found: dict[int, set[str]] = {}
    for table in tables:
        for line in table.decode("ascii", "replace").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == LISTENING:
                address, _, port = words[1].partition(":")
                try:
                    found.setdefault(int(port, 16), set()).add(_address(bytes.fromhex(address)))
                except ValueError:
                    raise Confused from None
    return [Port(port, tuple(sorted(found[port]))) for port in sorted(found)]


def _address(raw: bytes) -> str:
    """Words of 32 bits as this machine keeps them: a sandbox has its host's order of bytes."""
    words = [raw[at : at + 4] for at in range(0, len(raw), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    address = ip_address(b"".join(words))
    return str((address.version == 6 and address.ipv4_mapped) or address)
