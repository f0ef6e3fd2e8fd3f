"""A sandbox's folder, its lock, and what says that it lives.

    boxes/ID/            the server's; its group is the sandbox's, which may pass through
      record.json        what it was made as: written last, so that a folder without it is half made
      lock               held by an open descriptor that the warden inherits; says which process that is
      stopping           we are ending it, or have
      said               what bubblewrap and the warden had to say when it was started last
      run/               its /run/ringfence: the server listens there, the sandbox only reads
      disk/upper, work   what it writes, and overlay's own; the sandbox's alone

The lock is what tells truly: the kernel drops it with the last process that holds it. What is written in it tells whom
to kill and to watch, and is believed only when that process's start time and this boot agree.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringfence.fence.model import Life
from ringfence.fence.runtimes.native.bwrap import marker
from ringfence.fence.runtimes.native.cgroups import Group
from ringfence.kernel.processes import boot_id, process_fields, process_started

SAID_MOST = 64 << 10

NAME = re.compile(r"[a-z]{2,8}_[0-9a-z]{4,40}")
GONE_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Holder:
    """What the lock says."""

    life: Life | None  # None: not known, it was interrupted while it started
    group: Group | None


@dataclass(frozen=True, slots=True)
class Box:
    folder: Path

    @property
    def sandbox(self) -> str:
        return self.folder.name

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def upper(self) -> Path:
        return self.disk / "upper"

    @property
    def owner(self) -> int:
        """The host's user that it runs as: whose its group is; our own where there are no others."""
        return self.folder.stat().st_gid if os.geteuid() == 0 else os.geteuid()

    # Its record

    @property
    def record(self) -> dict[str, Any] | None:
        try:
            return json.loads((self.folder / "record.json").read_bytes())  # type: ignore[no-any-return]
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def write_record(self, record: dict[str, Any]) -> None:
        new = self.folder / ".record.json"
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self.folder / "record.json")

    # What was said when it was started last

    def said(self) -> bytes:
        try:
            return (self.folder / "said").read_bytes()[-SAID_MOST:]
        except FileNotFoundError:
            return b""

    def write_said(self, said: bytes) -> None:
        (self.folder / "said").write_bytes(said[-SAID_MOST:])

    # Its life

    def take_lock(self) -> int | None:
        """A descriptor that holds it; None: something of it lives."""
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def is_locked(self) -> bool:
        try:
            fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def holder(self) -> Holder:
        try:
            said = json.loads((self.folder / "lock").read_bytes())
            group = Group.from_kept(said["cgroup"]) if said.get("cgroup") else None
            life = Life(**said["life"]) if said.get("life") else None
        except (OSError, ValueError, TypeError, KeyError):
            return Holder(None, None)
        return Holder(life if life is not None and is_alive(life) else None, group)

    def life(self) -> Life | None:
        """Which process its warden is, if one lives."""
        if (life := self.holder().life) is not None:
            return life
        if not self.is_locked():
            return None
        wardens = (pid for pid in self.processes() if _is_first_inside(pid))
        return next((life for life in map(life_of, wardens) if life is not None), None)

    def processes(self) -> list[int]:
        """Its warden and bubblewrap by what they were called with: slow, and for when the lock does not say."""
        wanted = marker(self.sandbox).encode()
        found = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in Path(entry.path, "cmdline").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    # Its end

    def kill(self) -> None:
        """Everything that runs in it; done when the kernel has dropped the lock."""
        holder = self.holder()
        group, life = holder.group, holder.life
        if life is not None:
            kill(life.pid)
        if group is not None:
            group.kill()
        give_up = time.monotonic() + GONE_WITHIN
        look_closer = time.monotonic() + (0.0 if life is None else 0.3)
        ending = {life} if life is not None else set()
        # A dying warden drops the lock first, and is itself gone when everything in its namespace is.
        while self.is_locked() or any(map(is_alive, ending)):
            if (now := time.monotonic()) > give_up:
                raise TimeoutError(f"processes of sandbox {self.sandbox} did not end within {GONE_WITHIN:.0f} s")
            if now > look_closer:
                look_closer = now + 0.3
                for pid in self.processes():
                    ending |= {one} if (one := life_of(pid)) is not None else set()
                    kill(pid)
                if group is not None:
                    group.kill()
            time.sleep(0.001)
        if group is not None:
            group.remove()


def life_of(pid: int) -> Life | None:
    started = process_started(pid)
    return None if started is None else Life(pid=pid, started=started, boot=boot_id())


def is_alive(life: Life) -> bool:
    return life.boot == boot_id() and process_started(life.pid) == life.started


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGCONT)


def _is_first_inside(pid: int) -> bool:
    """A warden: process 1 of a namespace of its own. Bubblewrap outside, called with the same name, is not."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1] == "1" and len(line.split()) > 2
    return False


# Without a freezer ----------------------------------------------------------------------------------------------------


def descendants(pid: int) -> list[int]:
    """It, and everything under it: all there is in a sandbox, when it is a warden."""
    found, waiting = [], [pid]
    while waiting:
        found.append(one := waiting.pop())
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                with contextlib.suppress(OSError):
                    waiting += map(int, (task / "children").read_bytes().split())
    return found


def suspend(life: Life) -> None:
    """Stop the tree, its root first; whoever forks meanwhile is caught by the next look."""
    give_up = time.monotonic() + GONE_WITHIN
    while moving := [pid for pid in descendants(life.pid) if not _is_still(pid)]:
        if time.monotonic() > give_up:
            resume(life)
            raise TimeoutError("its processes could not be stopped within 10 s")
        for pid in moving:
            _signal(pid, signal.SIGSTOP)
        time.sleep(0.0005)


def resume(life: Life) -> None:
    for pid in reversed(descendants(life.pid)):
        _signal(pid, signal.SIGCONT)


def is_suspended(life: Life) -> bool:
    fields = process_fields(life.pid)
    return fields is not None and fields[0] == b"T"


def _is_still(pid: int) -> bool:
    fields = process_fields(pid)
    if fields is None or fields[0] in (b"T", b"t", b"Z", b"X"):
        return True
    # Whoever waits for a child of vfork that was stopped before it executed cannot stop, nor do anything else.
    return fields[0] == b"D" and _stop_waits(pid)


def _stop_waits(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(("SigPnd:", "ShdPnd:")) and int(line.split()[1], 16) >> (signal.SIGSTOP - 1) & 1:
                return True
    return False


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except OSError as error:
        if error.errno != errno.ESRCH:
            raise
