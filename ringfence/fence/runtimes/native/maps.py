"""Which ids of the host the ids in a user namespace are, and work that is done under such a map.

    root          0 … 65535 are a range that nothing else has (ids.py)
    a user with   0 is the user, 1 … 65535 are from /etc/subuid and /etc/subgid, mapped by newuidmap and newgidmap
    another user  0 is the user, and there is no other id

Whatever a stranger wrote, an archive or a sandbox's files, is opened by a process that is root there and nobody
outside.
"""

import contextlib
import ctypes
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringfence.fence.runtimes.native.ids import RANGE
from ringfence.kernel.errors import Invalid, StorageFull, TooLarge, Unavailable

INSIDE = "ringfence.fence.runtimes.native.mapped"
START_WITHIN = 30.0
MOST_ANSWER = 4 << 20
Span = tuple[int, int, int]  # the first id inside, what it is outside, how many


@dataclass(frozen=True, slots=True)
class Map:
    uids: tuple[Span, ...]
    gids: tuple[Span, ...]

    @property
    def is_range(self) -> bool:
        return sum(count for _, _, count in self.uids) >= RANGE

    def give(self, pid: int) -> None:
        """To a process that has just made a user namespace."""
        if os.geteuid() != 0 and self.is_range:
            for program, spans in (("newuidmap", self.uids), ("newgidmap", self.gids)):
                words = [str(number) for span in spans for number in span]
                done = subprocess.run([program, str(pid), *words], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Unavailable(f"{program} did not map the ids of a sandbox: {done.stderr.strip()[:200]}")
            return
        if os.geteuid() != 0:
            Path(f"/proc/{pid}/setgroups").write_text("deny")
        for name, spans in (("uid_map", self.uids), ("gid_map", self.gids)):
            Path(f"/proc/{pid}/{name}").write_text("".join("{} {} {}\n".format(*span) for span in spans))


def of_range(*firsts: int) -> Map:
    """Root's: the ranges that begin with these, one after another."""
    spans = tuple((at * RANGE, first, RANGE) for at, first in enumerate(firsts))
    return Map(spans, spans)


def own() -> Map:
    """An ordinary user's: with every id where that is possible."""
    uid, gid = os.geteuid(), os.getegid()
    first, first_group = _sub(Path("/etc/subuid"), uid), _sub(Path("/etc/subgid"), uid)
    if first is None or first_group is None or not all(map(shutil.which, ("newuidmap", "newgidmap"))):
        return Map(((0, uid, 1),), ((0, gid, 1),))
    return Map(((0, uid, 1), (1, first, RANGE - 1)), ((0, gid, 1), (1, first_group, RANGE - 1)))


def _sub(path: Path, uid: int) -> int | None:
    """The first of enough ids that are given to this user."""
    names = {str(uid)}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(uid).pw_name)
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            name, _, span = line.partition(":")
            first, _, count = span.partition(":")
            if name in names and first.isdigit() and count.isdigit() and int(count) >= RANGE - 1:
                return int(first)
    return None


def do(act: str, under: Map, descriptors: Sequence[int], asked: Mapping[str, object], within: float) -> dict[str, Any]:
    """What a process under this map answers to `asked`; it has these descriptors, and sees no file but through them."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = subprocess.Popen(
                [sys.executable, "-I", "-m", INSIDE, act, str(theirs.fileno()), *map(str, descriptors)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", env={},
                pass_fds=(theirs.fileno(), *descriptors),
            )  # fmt: skip
        try:
            ours.settimeout(START_WITHIN)
            if ours.recv(1):
                under.give(child.pid)
                ours.sendall(json.dumps(asked).encode())
                ours.shutdown(socket.SHUT_WR)
            ours.settimeout(within)
            answer = _all_of(ours)
        except TimeoutError:
            raise Unavailable(f"it took more than {within:.0f} s: the machine is too busy, or it is too much") from None
        finally:
            child.kill()
            _, said = child.communicate()
    return _told(answer, said)


def _all_of(ours: socket.socket) -> bytes:
    answer = b""
    while chunk := ours.recv(1 << 16):
        answer += chunk
        if len(answer) > MOST_ANSWER:
            raise Invalid("what it holds cannot be told in so many bytes as are taken here")
    return answer


_RAISED = {"invalid": Invalid, "too_large": TooLarge, "full": StorageFull}


def _told(answer: bytes, said: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(
            f"a process of Ringfence ended before it was done: {last[:300] or 'without a word'}"
        ) from None
    assert isinstance(found, dict)
    if (kind := found.get("refused")) is not None:
        raise _RAISED[kind](str(found["why"]))
    return found


def to_disk(folder: int) -> None:
    if ctypes.CDLL(None, use_errno=True).syncfs(folder):
        raise StorageFull(f"it could not be written to the disk: {os.strerror(ctypes.get_errno())}")
