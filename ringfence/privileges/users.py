"""Which user of the host the server is, when root starts it."""

import contextlib
import grp
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NAME = "ringfence"
FIXED = 1_899_990_001  # where there is no user of that name; below the sandboxes' ranges


class NoUser(Exception):
    """There is none that could be the server's: the message says what to do."""


@dataclass(frozen=True, slots=True)
class User:
    uid: int
    gid: int


def servers() -> User | None:
    """The user of the server; None: it is whoever starts it."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        found = pwd.getpwnam(NAME)
        if found.pw_uid == 0 or found.pw_gid == 0:
            raise NoUser(f"the user {NAME!r} of this host is root: the server needs one without rights")
        return User(found.pw_uid, found.pw_gid)
    if (holder := _holder(FIXED)) is not None:
        raise NoUser(f"{holder} has the id {FIXED}, which the server would use: `useradd --system {NAME}`")
    if not _is_mapped(FIXED):
        raise NoUser(f"the id {FIXED}, which the server would use, is not to be had here: `useradd --system {NAME}`")
    return User(FIXED, FIXED)


def _holder(number: int) -> str | None:
    with contextlib.suppress(KeyError):
        return f"the user {pwd.getpwuid(number).pw_name!r}"
    with contextlib.suppress(KeyError):
        return f"the group {grp.getgrgid(number).gr_name!r}"
    for file, start, count in reserved():
        if start <= number < start + count:
            return file
    return None


def reserved() -> Iterator[tuple[str, int, int]]:
    """What /etc/subuid and /etc/subgid give to others: the file, the first id, how many."""
    for file in ("/etc/subuid", "/etc/subgid"):
        with contextlib.suppress(OSError):
            for line in Path(file).read_text().splitlines():
                _, _, span = line.partition(":")
                start, _, count = span.partition(":")
                if start.isdigit() and count.isdigit():
                    yield file, int(start), int(count)


def _is_mapped(number: int) -> bool:
    """In a container, root may have only some of the host's ids."""
    with contextlib.suppress(OSError):
        spans = (line.split() for line in Path("/proc/self/uid_map").read_text().splitlines())
        return any(int(first) <= number < int(first) + int(count) for first, _, count in spans)
    return True
