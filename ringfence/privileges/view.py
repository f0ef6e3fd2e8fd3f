"""Becoming the server's user, for good; and what is reached from there.

The program may lie where only root may look: a clone in /root, an interpreter in /root/.pyenv. A process that is to run
it as somebody else gets a mount namespace of its own, in which such a closed folder is empty but for what it needs, at
the same path. That also hides the rest of root's home.

    /root                      closed to others        tmpfs
    /root/ringfence            not needed              an empty folder on the way
    /root/ringfence/ringfence  the package             bound, read-only
    /root/ringfence/.venv      its environment         bound, read-only
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ringfence
from ringfence.privileges.users import User

_NEW_MOUNTS = 0x20000
_READ_ONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
_BOUNDING_DROP, _NO_NEW_PRIVS = 24, 38
_CAPABILITIES_3 = 0x20080522


@dataclass(frozen=True, slots=True)
class Needed:
    path: Path
    writable: bool = False


def program() -> list[Needed]:
    """What running this program again takes."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(ringfence.__file__).parent]
    link = Path(sys.executable)
    while link.is_symlink():
        link = link.parent / link.readlink()
        found.append(Path(os.path.normpath(link)).parent)
    return [Needed(path) for path in dict.fromkeys(found)]


def closed(path: Path) -> Path | None:
    """The first folder on the way to it that others may not pass through."""
    return next((parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), None)


def enter(needed: Sequence[Needed]) -> None:
    """A mount namespace of our own in which others reach what is needed; none, where they do anyway."""
    needed = [*needed, *(Needed(each.path.resolve(), each.writable) for each in needed)]
    hidden = {shut: [each for each in needed if closed(each.path) == shut] for shut in _closed(needed)}
    if not hidden:
        return
    os.umask(0o022)
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.unshare(_NEW_MOUNTS), "a mount namespace")
    _mount(libc, None, "/", None, _REC | _SLAVE)
    for shut, wanted in hidden.items():
        with contextlib.ExitStack() as opened:
            sources = [(each, opened.enter_context(_opened(each.path))) for each in _outermost(wanted)]
            _mount(libc, "tmpfs", str(shut), "tmpfs", _NOSUID | _NODEV, "mode=0755,size=256k")
            for each, source in sources:
                each.path.mkdir(mode=0o755, parents=True, exist_ok=True)
                _mount(libc, f"/proc/self/fd/{source}", str(each.path), None, _BIND | _REC)
                if not each.writable:
                    _mount(libc, None, str(each.path), None, _REMOUNT | _BIND | _READ_ONLY | _NOSUID | _NODEV)


def _closed(needed: Sequence[Needed]) -> list[Path]:
    found = {shut for each in needed if (shut := closed(each.path)) is not None}
    return sorted(found)


def _outermost(needed: Sequence[Needed]) -> list[Needed]:
    """What lies in a folder that is shown anyway need not be shown again, unless more is allowed there."""
    found: list[Needed] = []
    for each in sorted(needed, key=lambda it: len(it.path.parts)):
        if not any(each.path.is_relative_to(other.path) and other.writable >= each.writable for other in found):
            found.append(each)
    return found


def become(user: User) -> None:
    """For good: no group but its own, no capability, none to be had again, and no program that could give one."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        if libc.prctl(_BOUNDING_DROP, capability, 0, 0, 0):
            break  # this kernel has no more
    os.setgroups([])
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
    _done(libc.capset(header, none), "giving the capabilities up")
    _done(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    os.umask(0o077)
    os.chdir("/")


def check_readable(user: User, needed: Sequence[Needed]) -> None:
    """The program as that user: a checkout made under a strict umask is for its owner alone."""
    for each in needed:
        if not os.access(each.path, os.R_OK | os.X_OK):
            raise PermissionError(
                f"the server runs as user {user.uid}, who cannot read {each.path}: `chmod -R go+rX {each.path}`"
            )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _done(libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mounting {target}")


def _done(status: int, what: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
