"""Control groups, one for each sandbox: its limits, its freezer and what it uses. v2, and the older v1.

`Cgroups.find` tells what this process may use: on v2 a group that is delegated to it, on v1 each controller's own
tree. A `Group` is a sandbox's; what it needs to be found again after a restart is `kept`, and lies with its lock.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ringfence.fence.model import Limits, Stats

V1_CONTROLLERS = ("memory", "cpu", "cpuacct", "pids", "freezer", "blkio")
CPU_PERIOD = 100_000  # microseconds
OWN_PROCESSES = 2  # bubblewrap while it starts, and the warden, count as well
EMPTY_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Group:
    """A sandbox's control group: one folder for each controller on v1 (`memory`, …), one in all on v2 (`""`)."""

    folders: dict[str, Path]

    @property
    def is_v2(self) -> bool:
        return "" in self.folders

    @property
    def kept(self) -> dict[str, str]:
        return {controller: str(folder) for controller, folder in self.folders.items()}

    @classmethod
    def from_kept(cls, kept: Mapping[str, str]) -> "Group":
        return cls({controller: Path(folder) for controller, folder in kept.items()})

    def doors(self) -> list[Path]:
        """The files a process writes itself to, to join."""
        return [folder / "cgroup.procs" for folder in dict.fromkeys(self.folders.values())]

    def make(self, limits: Limits) -> None:
        for folder in dict.fromkeys(self.folders.values()):
            folder.mkdir(parents=True, exist_ok=True)
        for name, value in self._settings(limits):
            (self._folder_of(name) / name).write_text(str(value))

    def _settings(self, limits: Limits) -> Iterator[tuple[str, object]]:
        if limits.memory is not None:
            yield from self._memory(limits.memory)
        if limits.pids is not None and self._folder_of("pids.max").is_dir():
            yield "pids.max", limits.pids + OWN_PROCESSES
        if limits.cpus is not None:
            quota = max(1000, int(limits.cpus * CPU_PERIOD))
            if self.is_v2:
                yield "cpu.max", f"{quota} {CPU_PERIOD}"
            elif "cpu" in self.folders:
                yield "cpu.cfs_period_us", CPU_PERIOD
                yield "cpu.cfs_quota_us", quota

    def _memory(self, limit: int) -> Iterator[tuple[str, object]]:
        """Swap is no way around it."""
        if self.is_v2:
            yield "memory.max", limit
            if (self.folders[""] / "memory.swap.max").exists():
                yield "memory.swap.max", 0
        elif "memory" in self.folders:
            # The larger of the two first: neither may pass the other on the way.
            both = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            now = self._number("memory.limit_in_bytes") or 0
            for name in both if limit < now else reversed(both):
                if (self.folders["memory"] / name).exists():
                    yield name, limit
            yield "memory.swappiness", 0

    def _folder_of(self, name: str) -> Path:
        return self.folders[""] if self.is_v2 else self.folders.get(name.partition(".")[0], Path("/nonexistent"))

    # Its processes

    def pids(self) -> set[int]:
        found: set[int] = set()
        for door in self.doors():
            with contextlib.suppress(OSError):
                found.update(int(line) for line in door.read_text().split())
        return found - {0}

    def kill(self) -> None:
        """Everything in it, frozen or not: a kill waits in a frozen group until the thaw."""
        if self.is_v2:
            with contextlib.suppress(OSError):
                (self.folders[""] / "cgroup.kill").write_text("1")
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self.thaw()

    def remove(self) -> None:
        """Kill what is in it until it can be removed."""
        give_up = time.monotonic() + EMPTY_WITHIN
        for folder in dict.fromkeys(self.folders.values()):
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > give_up:
                        raise
                    self.kill()
                    time.sleep(0.002)

    # The freezer

    @property
    def can_freeze(self) -> bool:
        return self.is_v2 or "freezer" in self.folders

    def freeze(self) -> None:
        name, word = ("cgroup.freeze", "1") if self.is_v2 else ("freezer.state", "FROZEN")
        give_up = time.monotonic() + EMPTY_WITHIN
        (self._freezer / name).write_text(word)
        while not self.frozen():
            if time.monotonic() > give_up:
                self.thaw()
                raise TimeoutError("the kernel did not freeze every process within 5 s")
            time.sleep(0.0005)
            if not self.is_v2:  # a process that was being born is only caught by another try
                (self._freezer / name).write_text(word)

    def thaw(self) -> None:
        if self.can_freeze:
            name, word = ("cgroup.freeze", "0") if self.is_v2 else ("freezer.state", "THAWED")
            with contextlib.suppress(FileNotFoundError):
                (self._freezer / name).write_text(word)

    def frozen(self) -> bool:
        with contextlib.suppress(OSError):
            if self.is_v2:
                return _table(self._freezer / "cgroup.events").get("frozen") == 1
            if "freezer" in self.folders:
                return (self._freezer / "freezer.state").read_text().strip() == "FROZEN"
        return False

    @property
    def _freezer(self) -> Path:
        return self.folders["" if self.is_v2 else "freezer"]

    # What it uses

    def memory_kills(self) -> int | None:
        name = "memory.events" if self.is_v2 else "memory.oom_control"
        return _table(self._folder_of(name) / name).get("oom_kill")

    def stats(self) -> Stats:
        if self.is_v2:
            cpu_us = _table(self.folders[""] / "cpu.stat").get("usage_usec")
            memory, peak, io = "memory.current", "memory.peak", "io.stat"
        else:
            cpu_ns = self._number("cpuacct.usage")
            cpu_us = None if cpu_ns is None else cpu_ns // 1000
            memory, peak = "memory.usage_in_bytes", "memory.max_usage_in_bytes"
            io = "blkio.throttle.io_service_bytes_recursive"
        read, written = _io(self._folder_of(io) / io)
        return Stats(
            cpu_us=cpu_us,
            memory=self._number(memory),
            memory_peak=self._number(peak),
            memory_kills=self.memory_kills(),
            pids=self._number("pids.current"),
            read_bytes=read,
            written_bytes=written,
        )

    def _number(self, name: str) -> int | None:
        try:
            return int((self._folder_of(name) / name).read_text())
        except (OSError, ValueError):
            return None


def _table(path: Path) -> dict[str, int]:
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
    except OSError:
        return {}


def _io(path: Path) -> tuple[int | None, int | None]:
    try:
        text = path.read_text()
    except OSError:
        return None, None
    read = written = 0
    for line in text.splitlines():
        for one in line.split()[1:] if "=" in line else (f"{'='.join(line.split()[1:])}",):
            key, _, value = one.partition("=")
            if key in ("rbytes", "Read"):
                read += int(value)
            elif key in ("wbytes", "Write"):
                written += int(value)
    return read, written


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where sandboxes' groups may be made here, and what they can hold up."""

    parents: dict[str, Path] = field(default_factory=dict)  # as `Group.folders`; empty: none at all

    @property
    def version(self) -> str:
        return "" if not self.parents else "cgroup v2" if "" in self.parents else "cgroup v1"

    def can_limit(self) -> set[str]:
        """Of `Limits`: which can be held up."""
        if "" in self.parents:
            enabled = (self.parents[""] / "cgroup.subtree_control").read_text().split()
        else:
            enabled = list(self.parents)
        return {limit for limit, name in (("memory", "memory"), ("cpus", "cpu"), ("pids", "pids")) if name in enabled}

    def group(self, sandbox: str) -> Group | None:
        return Group({name: folder / sandbox for name, folder in self.parents.items()}) if self.parents else None

    def names(self) -> set[str]:
        """The sandboxes that have a group here."""
        found: set[str] = set()
        for parent in dict.fromkeys(self.parents.values()):
            with contextlib.suppress(FileNotFoundError):
                found.update(entry.name for entry in parent.iterdir() if entry.is_dir())
        return found

    @classmethod
    def find(cls, name: str) -> "Cgroups":
        """`name` tells our groups from those of another Ringfence on this host."""
        mounts, own = _mounts(), _own_groups()
        found: dict[str, Path] = {}
        for controller in V1_CONTROLLERS:
            if controller in mounts and controller in own:
                parent = _beneath(*mounts[controller], own[controller]) / name
                with contextlib.suppress(OSError):
                    parent.mkdir(exist_ok=True)
                    if os.access(parent, os.W_OK):
                        found[controller] = parent
        if "memory" in mounts:  # v1, or the hybrid of both, where v2 has no controllers
            return cls(found)
        return cls(_v2_parent(mounts, own, name))


def _v2_parent(mounts: dict[str, tuple[Path, str]], own: dict[str, str], name: str) -> dict[str, Path]:
    """A group with processes of its own cannot pass controllers on, so ours move into a group beside the sandboxes'."""
    if "" not in mounts or "" not in own:
        return {}
    here = _beneath(*mounts[""], own[""])
    if here.name == "server" and (here.parent / name).is_dir():  # after an exec of ourselves
        here = here.parent
    if os.geteuid() == 0 and not _is_delegated(here):
        here = mounts[""][0]  # of the host, or of the container
    wanted = " ".join(
        f"+{one}" for one in ("memory", "cpu", "pids", "io") if one in _words(here / "cgroup.controllers")
    )
    try:
        parent = here / name
        if here != mounts[""][0] or os.geteuid() != 0:
            (here / "server").mkdir(exist_ok=True)
            for pid in _words(here / "cgroup.procs"):
                with contextlib.suppress(ProcessLookupError):
                    (here / "server/cgroup.procs").write_text(pid)
        (here / "cgroup.subtree_control").write_text(wanted)
        parent.mkdir(exist_ok=True)
        (parent / "cgroup.subtree_control").write_text(wanted)
    except OSError:
        return {}
    return {"": parent}


def _is_delegated(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.getxattr(folder, "user.delegate") == b"1" or os.getxattr(folder, "trusted.delegate") == b"1"
    return False


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _mounts() -> dict[str, tuple[Path, str]]:
    """Where each v1 controller, and v2 (`""`), is mounted, and which of its groups is seen there."""
    found: dict[str, tuple[Path, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        where = (Path(before.split(" ")[4]), before.split(" ")[3])
        if kind == "cgroup2":
            found.setdefault("", where)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, where)
    return found


def _own_groups() -> dict[str, str]:
    found = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _beneath(mount: Path, root: str, group: str) -> Path:
    """A group's folder, where the mount shows only what is beneath `root`."""
    if root != "/" and (group + "/").startswith(root + "/"):
        group = group[len(root) :]
    folder = mount / group.lstrip("/")
    return folder if folder.is_dir() else mount
