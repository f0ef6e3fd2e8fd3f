"""Every act on a sandbox's files, processes and groups, as whoever runs it: this host's user, or root.

    create ──► folder, ids, record        start ──► lock, group, launch → bubblewrap → warden ──► "I am set up"
    stop ──► kill, thaw, wait for the lock, remove the group        destroy ──► stop, rename away, remove

Blocking, and to be called from threads. Every step can be repeated after a crash at any point: `create` makes what is
not whole anew, `stop` and `destroy` end whatever they find.
"""

import contextlib
import json
import os
import re
import resource
import select
import socket
import subprocess
import time
import uuid
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from ringfence.fence.model import Blueprint, Cause, Enforced, Life, Stats, User
from ringfence.fence.runtimes.model import Capabilities, Found, Unsupported
from ringfence.fence.runtimes.native import box as boxed
from ringfence.fence.runtimes.native import bwrap, host_image, tree
from ringfence.fence.runtimes.native.box import NAME, SAID_MOST, Box, Holder
from ringfence.fence.runtimes.native.cgroups import OWN_PROCESSES, Cgroups, Group
from ringfence.fence.runtimes.native.ids import Ids
from ringfence.fence.runtimes.native.tools import Tools
from ringfence.kernel.errors import Conflict, Invalid, NotFound, Unavailable
from ringfence.kernel.processes import process_fields

READY_WITHIN = 20.0  # seconds: a machine under great load
TEMPORARY = 1 << 30  # bytes of /tmp when memory is not limited
WRITABLE = ("upper", "upper/home", "upper/home/agent", "upper/var", "upper/var/tmp", "upper/workspace")
HOSTNAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")


class Boxes:
    def __init__(self, folder: Path, tools: Tools, ids: Ids | None = None, listener: int | None = None) -> None:
        """`listener`: the user who listens on the links' sockets, where it is not who calls this."""
        self.folder = folder
        self._listener = os.geteuid() if listener is None else listener
        self._tools = tools
        self._as_root = os.geteuid() == 0
        self._ids = ids or Ids()

    def open(self) -> None:
        mode = 0o711 if self._as_root else 0o700
        self.folder.mkdir(parents=True, exist_ok=True, mode=mode)
        self.folder.chmod(mode)
        for name in ("boxes", "images", "snapshots", "trash"):
            (self.folder / name).mkdir(exist_ok=True, mode=mode)
            (self.folder / name).chmod(mode)
        if self._as_root:
            _check_reachable(self.folder)
            self._tools = self._tools.within(self.folder)
        # Two Ringfences on one host do not touch each other's groups.
        own = blake2b(os.fsencode(self.folder), digest_size=6).hexdigest()
        self._cgroups = Cgroups.find(f"ringfence-{own}")
        self._hidden = bwrap.hidden()
        self._host = host_image.prepare(self.folder / "images")
        self._adopt()

    def _adopt(self) -> None:
        here = {box.sandbox: box for box in self._all()}
        for box in here.values():
            if self._as_root and (owner := box.owner) >= self._ids.base:
                self._ids.hold(owner, box.folder)
                if box.run.is_dir():
                    self._let_listen(box, owner)
            if box.life() is not None:
                (box.folder / "stopping").unlink(missing_ok=True)
        for name in self._cgroups.names() - here.keys():
            if (group := self._cgroups.group(name)) is not None:
                group.remove()

    def sweep(self) -> None:
        """Remove what was to be removed before a crash."""
        for entry in (self.folder / "trash").iterdir():
            tree.remove(entry)

    def forget_groups(self) -> None:
        """Nobody will come back to this folder."""
        for parent in dict.fromkeys(self._cgroups.parents.values()):
            with contextlib.suppress(OSError):
                parent.rmdir()

    # What it can do

    def capabilities(self) -> Capabilities:
        limits = dict.fromkeys(sorted(self._cgroups.can_limit()), self._cgroups.version)
        if "pids" not in limits and not self._as_root:
            limits["pids"] = "rlimit"
        lacks = dict.fromkeys({"memory", "cpus", "pids"} - limits.keys(), _NO_CGROUPS)
        limits["disk"] = "tmpfs"
        lacks["disk"] = _ONLY_MEMORY
        lacks["root"] = "root inside a sandbox needs a range of ids, which this runtime does not map yet"
        return Capabilities(pause=True, snapshot=False, users=frozenset({User.AGENT.value}), limits=limits, lacks=lacks)

    def images(self) -> list[str]:
        return ["host"]

    # Its files

    def create(self, blueprint: Blueprint) -> Enforced:
        enforced = self._enforceable(blueprint)
        box = self._box(blueprint.id)
        if (record := box.record) is not None:
            return Enforced(how=record["enforced"])
        if box.folder.exists():
            self._remove(box)
        owner = self._ids.take(box.folder) if self._as_root else None
        _make_folders(box, owner)
        _write_own(box.run, blueprint)
        if owner is not None:
            self._let_listen(box, owner)
        box.write_record(
            {"blueprint": _plain(blueprint), "image": self._host.name, "enforced": enforced.how, "owner": owner}
        )
        return enforced

    def _let_listen(self, box: Box, owner: int) -> None:
        """Who listens may write in `run` and nowhere else; it passes through `boxes/ID` as one of the others."""
        os.chown(box.run, self._listener, owner, follow_symlinks=False)
        box.folder.chmod(0o710 if self._listener == os.geteuid() else 0o711)

    def _enforceable(self, blueprint: Blueprint) -> Enforced:
        if not HOSTNAME.fullmatch(blueprint.hostname):
            raise Invalid(f"{blueprint.hostname!r} is no host name: letters a to z, digits and hyphens, at most 63")
        if blueprint.image != "host":
            raise NotFound(f"there is no image {blueprint.image!r} here; there is `host`")
        can = self.capabilities()
        if blueprint.user.value not in can.users:
            raise Unsupported(can.lacks["root"])
        if blueprint.snapshot is not None:
            raise Unsupported("this runtime does not keep snapshots yet")
        limits = blueprint.limits
        if blueprint.memory_disk and limits.disk is None:
            raise Invalid("memory_disk needs limits.disk, the bytes that may be written")
        how: dict[str, str] = {name: by for name, by in can.limits.items() if name != "disk"}
        if blueprint.memory_disk:
            how["disk"] = "tmpfs"
        how = {name: by for name, by in how.items() if getattr(limits, name) is not None}
        for name in sorted(limits.requested):
            if getattr(limits, name) is not None and name not in how:
                raise Unsupported(f"limits.{name} cannot be held up here: {can.lacks[name]}", limit=name)
        return Enforced(how=how)

    def destroy(self, sandbox: str) -> None:
        box = self._box(sandbox)
        if box.folder.exists():
            box.kill()
            self._remove(box)
        if (group := self._cgroups.group(sandbox)) is not None:
            group.remove()

    def _remove(self, box: Box) -> None:
        owner = box.owner
        away = self.folder / "trash" / f"{box.sandbox}.{uuid.uuid4().hex}"
        try:
            box.folder.rename(away)
        except FileNotFoundError:
            return
        tree.remove(away)
        if self._as_root and owner >= self._ids.base:
            self._ids.release(owner, box.folder)

    # Its life

    def start(self, blueprint: Blueprint, key: bytes) -> Life:
        box = self._box(blueprint.id)
        if (record := box.record) is None:
            raise NotFound(f"there is no sandbox {blueprint.id}")
        if (lock := box.take_lock()) is None:
            raise Conflict(f"sandbox {blueprint.id} runs already", code="running")
        try:
            (box.folder / "stopping").unlink(missing_ok=True)
            # What a sandbox that ended by itself left behind.
            if (before := box.holder().group) is not None:
                before.remove()
            group = self._cgroups.group(blueprint.id)
            _write_lock(lock, None, group)
            if group is not None:
                group.make(blueprint.limits)
            life = self._launch(box, blueprint, record, group, lock, key)
        except BaseException:
            os.close(lock)
            box.kill()
            raise
        os.close(lock)
        if group is None and blueprint.limits.pids is not None and not self._as_root:
            most = blueprint.limits.pids + OWN_PROCESSES
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(life.pid, resource.RLIMIT_NPROC, (most, most))
        return life

    def _launch(
        self, box: Box, blueprint: Blueprint, record: dict[str, Any], group: Group | None, lock: int, key: bytes
    ) -> Life:
        ours, theirs = socket.socketpair()
        info, info_end = os.pipe()
        with ours, theirs, os.fdopen(info, "rb") as told:
            try:
                ours.sendall(key)
                view = self._view(box, blueprint, record)
                command = self._before(box, blueprint, group)
                command += bwrap.arguments(
                    self._tools.bwrap, view, info_fd=info_end, key_fd=theirs.fileno(), hide=self._hidden
                )
                outer = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs.fileno(), cwd="/", env={},
                    pass_fds=(theirs.fileno(), info_end, lock), start_new_session=True,
                )  # fmt: skip
            finally:
                os.close(info_end)
                theirs.close()
            try:
                return self._await_ready(box, ours, told, lock, group)
            finally:
                # Outside, bubblewrap only waits for the end of its child: 140 kB for nothing.
                outer.kill()
                outer.wait()

    def _await_ready(self, box: Box, ours: socket.socket, told: BinaryIO, lock: int, group: Group | None) -> Life:
        """Its pid is written as soon as bubblewrap tells it, so that a crash of ours from then on loses nothing."""
        give_up = time.monotonic() + READY_WITHIN
        life: Life | None = None
        info = said = b""
        while life is None or not said.endswith(b"\0"):
            waiting: list[socket.socket | BinaryIO] = [ours] if b"}" in info else [ours, told]
            readable, _, _ = select.select(waiting, [], [], max(0.0, give_up - time.monotonic()))
            if not readable:
                raise Unavailable(f"the sandbox was not ready within {READY_WITHIN:.0f} s", code="start_failed")
            if told in readable:
                info += os.read(told.fileno(), 4096)
                if b"}" in info:
                    life = boxed.life_of(int(json.loads(info)["child-pid"]))
                    _write_lock(lock, life, group)
            if ours in readable:
                try:
                    chunk = ours.recv(SAID_MOST)
                except ConnectionResetError:  # it ended before it read its key
                    chunk = b""
                said += chunk
                if not chunk or len(said) > SAID_MOST:
                    box.write_said(said)
                    sentence = said.decode(errors="replace").strip(" \n\0") or "it ended without a word"
                    raise Unavailable(f"the sandbox could not be started: {sentence}", code="start_failed")
        box.write_said(said[:-1])
        return life

    def lives(self, life: Life) -> bool:
        return boxed.is_alive(life)

    def said(self, sandbox: str) -> bytes:
        return self._box(sandbox).said()

    def _before(self, box: Box, blueprint: Blueprint, group: Group | None) -> list[str]:
        command = [str(self._tools.launch)]
        for door in group.doors() if group is not None else ():
            command += ["--cgroup", str(door)]
        if self._as_root:
            command += ["--user", str(box.owner)]
        if blueprint.memory_disk:
            command += ["--memory-disk", str(blueprint.limits.disk), str(box.disk)]
        return [*command, "--"]

    def _view(self, box: Box, blueprint: Blueprint, record: dict[str, Any]) -> bwrap.View:
        skeleton = self.folder / "images" / record["image"]
        return bwrap.View(
            sandbox=blueprint.id,
            hostname=blueprint.hostname,
            layers=[skeleton],
            mounts=host_image.usr_mounts(),
            upper=box.upper,
            work=box.disk / "work",
            run=box.run,
            warden=self._tools.warden,
            read_only=blueprint.read_only,
            temporary=min(blueprint.limits.memory or TEMPORARY, TEMPORARY),
            etc=skeleton / "etc",
            ids=blueprint.user.value,
        )

    def stop(self, sandbox: str) -> None:
        box = self._box(sandbox)
        if box.folder.exists():
            (box.folder / "stopping").touch()
            box.kill()

    def cause(self, sandbox: str) -> Cause:
        """Why a warden that is gone has ended."""
        box = self._box(sandbox)
        if not box.folder.exists() or (box.folder / "stopping").exists():
            return Cause.STOPPED
        group = box.holder().group
        return Cause.MEMORY if group is not None and group.memory_kills() else Cause.DIED

    def pause(self, sandbox: str) -> None:
        holder, life = self._living(sandbox)
        if holder.group is not None and holder.group.can_freeze:
            holder.group.freeze()
        else:
            boxed.suspend(life)

    def resume(self, sandbox: str) -> None:
        holder, life = self._living(sandbox)
        if holder.group is not None and holder.group.can_freeze:
            holder.group.thaw()
        else:
            boxed.resume(life)

    def _living(self, sandbox: str) -> tuple[Holder, Life]:
        holder = self._box(sandbox).holder()
        if holder.life is None:
            raise Conflict(f"sandbox {sandbox} does not run", code="not_running")
        return holder, holder.life

    # What there is

    def found(self, sandbox: str) -> Found | None:
        box = self._box(sandbox)
        if not box.folder.exists():
            return None
        life = box.life()
        group = box.holder().group
        if life is None:
            return Found(id=sandbox, life=None)
        freezer = group is not None and group.can_freeze
        paused = group.frozen() if group is not None and freezer else boxed.is_suspended(life)
        return Found(id=sandbox, life=life, paused=paused)

    def names(self) -> list[str]:
        return [box.sandbox for box in self._all()]

    def find_all(self) -> list[Found]:
        return [found for name in self.names() if (found := self.found(name)) is not None]

    def stats(self, sandbox: str) -> Stats:
        holder, life = self._living(sandbox)
        return holder.group.stats() if holder.group is not None else _stats_of_tree(life)

    def snapshot(self, sandbox: str, name: str) -> int:
        raise Unsupported("this runtime does not keep snapshots yet")

    def forget_snapshot(self, name: str) -> None:
        """There is none."""

    def link_folder(self, sandbox: str) -> Path:
        return self._box(sandbox).run

    def _all(self) -> list[Box]:
        return [Box(entry) for entry in sorted((self.folder / "boxes").iterdir()) if NAME.fullmatch(entry.name)]

    def _box(self, sandbox: str) -> Box:
        if not NAME.fullmatch(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox's id")
        return Box(self.folder / "boxes" / sandbox)


_NO_CGROUPS = (
    "it needs control groups that this user may use: run Ringfence as root, or where there is systemd with "
    "`systemd-run --user --scope -p Delegate=yes ringfence up`"
)
_ONLY_MEMORY = "bytes on a disk are not counted here: ask for `memory_disk`, which keeps what is written in memory"


def _plain(blueprint: Blueprint) -> dict[str, Any]:
    plain = asdict(blueprint)
    plain["limits"]["requested"] = sorted(blueprint.limits.requested)
    return plain


def _make_folders(box: Box, owner: int | None) -> None:
    """The sandbox's user may pass through `boxes/ID`, read `run`, and owns `disk`."""
    box.folder.mkdir(mode=0o700)
    box.run.mkdir(mode=0o700)
    box.disk.mkdir(mode=0o700)
    for name in ("work", *WRITABLE):
        (box.disk / name).mkdir()
        (box.disk / name).chmod(0o1777 if name.endswith("tmp") else 0o755)
        if owner is not None:
            os.chown(box.disk / name, owner, owner)
    if owner is not None:
        os.chown(box.disk, owner, owner)
        os.chown(box.folder, -1, owner)
        os.chown(box.run, -1, owner)
        box.run.chmod(0o750)


def _write_own(run: Path, blueprint: Blueprint) -> None:
    name = blueprint.hostname
    hosts = f"127.0.0.1 localhost {name}\n::1 localhost ip6-localhost ip6-loopback\n"
    machine = blake2b(blueprint.id.encode(), digest_size=16, person=b"machine-id").hexdigest()
    for file, text in (("hosts", hosts), ("hostname", f"{name}\n"), ("machine-id", f"{machine}\n")):
        (run / file).write_text(text)
        (run / file).chmod(0o644)


def _write_lock(lock: int, life: Life | None, group: Group | None) -> None:
    said = {"life": asdict(life) if life is not None else None, "cgroup": group.kept if group is not None else None}
    data = json.dumps(said).encode()
    os.pwrite(lock, data, 0)
    os.ftruncate(lock, len(data))


def _check_reachable(folder: Path) -> None:
    for parent in folder.parents:
        if not parent.stat().st_mode & 0o001:
            raise Invalid(
                f"sandboxes run as users of their own, and these cannot pass through {parent}: "
                f"`chmod o+x {parent}`, or choose another data folder"
            )


def _stats_of_tree(life: Life) -> Stats:
    ticks = pages = count = 0
    for pid in boxed.descendants(life.pid):
        if (fields := process_fields(pid)) is not None:
            count += int(fields[17])
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
    return Stats(
        cpu_us=ticks * 1_000_000 // os.sysconf("SC_CLK_TCK"), memory=pages * os.sysconf("SC_PAGE_SIZE"), pids=count
    )
