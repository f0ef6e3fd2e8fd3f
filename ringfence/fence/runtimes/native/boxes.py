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
import selectors
import socket
import stat
import subprocess
import time
import uuid
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from ringfence.fence.model import OWN_IMAGE, Blueprint, Cause, Enforced, Image, Life, Stats, User, check_image_name
from ringfence.fence.runtimes.model import Capabilities, Found, Unsupported
from ringfence.fence.runtimes.native import box as boxed
from ringfence.fence.runtimes.native import bwrap, host_image, maps, tree
from ringfence.fence.runtimes.native.box import NAME, SAID_MOST, Box, Holder
from ringfence.fence.runtimes.native.cgroups import OWN_PROCESSES, Cgroups, Group
from ringfence.fence.runtimes.native.ids import Ids
from ringfence.fence.runtimes.native.images import Images
from ringfence.fence.runtimes.native.snapshots import Snapshots
from ringfence.fence.runtimes.native.tools import Tools
from ringfence.kernel.errors import Conflict, Invalid, NotFound, Unavailable
from ringfence.kernel.processes import process_fields

READY_WITHIN = 20.0  # seconds: a machine under great load
TEMPORARY = 1 << 30  # bytes of /tmp when memory is not limited
WRITABLE = ("upper", "upper/home", "upper/home/agent", "upper/var", "upper/var/tmp", "upper/workspace")
INCOMING = "incoming"  # beside the folder of all sandboxes
REMOVED_WITHIN = 600.0
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
        first = self._ids_of_images() if self._as_root else None
        self._map = maps.own() if first is None else maps.of_range(first)
        self._images = Images(self.folder / "images", first, self._map)
        self._images.open()
        self._snapshots = Snapshots(self.folder / "snapshots", first, self._map)
        self._can_shift = self._as_root and self._tools.can_shift(self.folder / "images/layers", self._ids.base)
        self._adopt()

    def _ids_of_images(self) -> int:
        """What all layers belong to: nobody else on this host, and never root."""
        kept, folder = self.folder / "images/owner", self.folder / "images"
        with contextlib.suppress(FileNotFoundError, ValueError):
            first = int(kept.read_text())
            self._ids.hold(first, folder)
            return first
        first = self._ids.take(folder)
        kept.write_text(str(first))
        return first

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
            self._empty(entry)
        with contextlib.suppress(Unavailable), self._images.held(alone=True):
            self._images.sweep()
        self._collect()

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
        users = {User.AGENT.value}
        if self._can_shift or (not self._as_root and self._map.is_range):
            users.add(User.ROOT.value)
        else:
            lacks["root"] = _NO_SHIFT if self._as_root else _NO_RANGE
        keeps = self._can_shift or not self._as_root
        if not keeps:
            lacks["snapshot"] = _NO_SHIFT
        return Capabilities(pause=True, snapshot=keeps, users=frozenset(users), limits=limits, lacks=lacks)

    # Images

    def images(self) -> list[str]:
        return [OWN_IMAGE, *self._images.names()]

    @property
    def incoming(self) -> Path:
        """Where the server puts archives: they are named, and led to by no path."""
        return self.folder.parent / INCOMING

    def import_image(self, name: str, archive: str, most: int) -> Image:
        check_image_name(name)
        if not NAME.fullmatch(archive):
            raise Invalid(f"{archive!r:.80} is not the name of an archive")
        with _archive(self.incoming, archive) as file:
            return self._images.add(name, file, most)

    def forget_image(self, name: str) -> None:
        self._images.forget(check_image_name(name))
        self._collect()

    def _collect(self) -> None:
        """What nothing needs any more; another time, where an import is under way."""
        with contextlib.suppress(Unavailable), self._images.held(alone=True):
            boxes = [record for box in self._all() if (record := box.record)]
            self._snapshots.collect([name for record in boxes for name in record.get("snapshots", ())])
            self._images.collect([record.get("layers", ()) for record in (*boxes, *self._snapshots.records())])

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
        record = {"blueprint": _plain(blueprint), "enforced": enforced.how, "owner": owner}
        if blueprint.image == OWN_IMAGE and blueprint.snapshot is None:
            box.write_record({**record, "image": self._host.name})
            return enforced
        with self._images.held():
            box.write_record({**record, **self._beginning(blueprint)})
        return enforced

    def _beginning(self, blueprint: Blueprint) -> dict[str, Any]:
        """What lies below the files that it writes: as its snapshot has it, or its image."""
        if blueprint.snapshot is not None:
            return self._snapshots.find(blueprint.snapshot)
        image = self._images.find(blueprint.image)
        return {"image": None, "layers": [*image.layers, image.digest]}

    def _let_listen(self, box: Box, owner: int) -> None:
        """Who listens may write in `run` and nowhere else; it passes through `boxes/ID` as one of the others."""
        os.chown(box.run, self._listener, owner, follow_symlinks=False)
        box.folder.chmod(0o710 if self._listener == os.geteuid() else 0o711)

    def _enforceable(self, blueprint: Blueprint) -> Enforced:
        if not HOSTNAME.fullmatch(blueprint.hostname):
            raise Invalid(f"{blueprint.hostname!r} is no host name: letters a to z, digits and hyphens, at most 63")
        if blueprint.image != OWN_IMAGE and blueprint.snapshot is None:
            self._images.find(check_image_name(blueprint.image))
        can = self.capabilities()
        if blueprint.user.value not in can.users:
            raise Unsupported(can.lacks["root"])
        if blueprint.user is User.ROOT and blueprint.memory_disk and not self._as_root:
            raise Unsupported(_NO_RANGE_IN_MEMORY)
        if blueprint.snapshot is not None and blueprint.read_only:
            raise Unsupported("a sandbox that begins with a snapshot cannot be read_only: leave one of them out")
        if blueprint.snapshot is not None:
            self._snapshots.find(blueprint.snapshot)
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
        self._empty(away)
        if self._as_root and owner >= self._ids.base:
            self._ids.release(owner, box.folder)

    def _empty(self, away: Path) -> None:
        """Remove what a sandbox or an archive left; what belongs to other ids of ours, only these can."""
        disk = away / "disk"
        if not self._as_root and self._map.is_range and disk.is_dir():
            fd = os.open(disk, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                maps.do("remove", self._map, [fd], {}, REMOVED_WITHIN)
            finally:
                os.close(fd)
        tree.remove(away)

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
        awaited = _AwaitedMap.of(self._map_of(box)) if blueprint.user is User.ROOT else None
        with ours, theirs, os.fdopen(info, "rb") as told, awaited or contextlib.nullcontext():
            try:
                ours.sendall(key)
                view = self._view(box, blueprint, record)
                command = self._before(box, blueprint, view, group)
                command += bwrap.arguments(
                    self._tools.bwrap, view, info_fd=info_end, key_fd=theirs.fileno(), hide=self._hidden,
                    map_fd=None if awaited is None else awaited.fd,
                )  # fmt: skip
                outer = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs.fileno(), cwd="/", env={},
                    pass_fds=(theirs.fileno(), info_end, lock, *(() if awaited is None else (awaited.fd,))),
                    start_new_session=True,
                )  # fmt: skip
            finally:
                os.close(info_end)
                theirs.close()
            try:
                return self._await_ready(box, ours, told, lock, group, awaited)
            finally:
                # Outside, bubblewrap only waits for the end of its child: 140 kB for nothing.
                outer.kill()
                outer.wait()

    def _map_of(self, box: Box) -> maps.Map:
        return maps.of_range(box.owner) if self._as_root else self._map

    def _await_ready(
        self, box: Box, ours: socket.socket, told: BinaryIO, lock: int, group: Group | None,
        awaited: "_AwaitedMap | None",
    ) -> Life:  # fmt: skip
        """Its pid is written as soon as bubblewrap tells it, so that a crash of ours from then on loses nothing."""
        give_up = time.monotonic() + READY_WITHIN
        life: Life | None = None
        info = said = b""
        while life is None or not said.endswith(b"\0"):
            waiting: list[socket.socket | BinaryIO] = [ours] if b"}" in info else [ours, told]
            readable = _readable(waiting, max(0.0, give_up - time.monotonic()))
            if not readable:
                raise Unavailable(f"the sandbox was not ready within {READY_WITHIN:.0f} s", code="start_failed")
            if told in readable:
                info += os.read(told.fileno(), 4096)
                if b"}" in info:
                    life = boxed.life_of(int(json.loads(info)["child-pid"]))
                    _write_lock(lock, life, group)
                    if awaited is not None and life is not None:
                        awaited.give(life.pid)
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

    def _before(self, box: Box, blueprint: Blueprint, view: bwrap.View, group: Group | None) -> list[str]:
        command = [str(self._tools.launch)]
        for door in group.doors() if group is not None else ():
            command += ["--cgroup", str(door)]
        if self._as_root:
            command += ["--user", str(box.owner)]
        if blueprint.memory_disk:
            command += ["--memory-disk", str(blueprint.limits.disk), str(box.disk)]
        for layer in view.layers if self._as_root else ():
            # Without a range of its own a sandbox has one user, to whom only what was written in a sandbox belongs.
            if blueprint.user is User.ROOT or layer.is_relative_to(self._snapshots.folder):
                command += ["--shift", str(layer), str(layer.stat().st_uid)]
        return [*command, "--"]

    def _view(self, box: Box, blueprint: Blueprint, record: dict[str, Any]) -> bwrap.View:
        skeleton = None if record["image"] is None else self.folder / "images" / record["image"]
        return bwrap.View(
            sandbox=blueprint.id,
            hostname=blueprint.hostname,
            layers=[
                *(self._images.paths(record["layers"]) if skeleton is None else [skeleton]),
                *self._snapshots.paths(record.get("snapshots", ())),
            ],
            mounts=[] if skeleton is None else host_image.usr_mounts(),
            upper=box.upper,
            work=box.disk / "work",
            run=box.run,
            warden=self._tools.warden,
            read_only=blueprint.read_only,
            temporary=min(blueprint.limits.memory or TEMPORARY, TEMPORARY),
            etc=None if skeleton is None else skeleton / "etc",
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
        holder = self._box(sandbox).holder()
        if holder.life is None:
            return Stats()
        return holder.group.stats() if holder.group is not None else _stats_of_tree(holder.life)

    def snapshot(self, sandbox: str, name: str) -> int:
        box = self._box(sandbox)
        if (record := box.record) is None:
            raise NotFound(f"there is no sandbox {sandbox}")
        if record["blueprint"]["memory_disk"]:
            raise Unsupported("what is written lives in memory there, where no snapshot can be taken of it")
        found = self.found(sandbox)
        if found is not None and found.life is not None and not found.paused:
            raise Conflict(f"sandbox {sandbox} runs: pause or stop it first", code="running")
        below: dict[str, Any] = {key: record[key] for key in ("image", "layers", "snapshots") if key in record}
        with self._images.held():
            return self._snapshots.take(name, below, box.upper, box.owner if self._as_root else None)

    def forget_snapshot(self, name: str) -> None:
        self._snapshots.forget(name)
        self._collect()

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


_NO_RANGE = (
    "root inside a sandbox needs a range of ids: install `newuidmap` and `newgidmap` (Debian: uidmap), and give this "
    "user one by `usermod --add-subuids 1000000-1065535 --add-subgids 1000000-1065535 USER`; or run Ringfence as root"
)
_NO_SHIFT = (
    "root inside a sandbox needs mounts with ids of their own: Linux 5.19, and the data folder on ext4, xfs or btrfs"
)
_NO_RANGE_IN_MEMORY = "with user: root, memory_disk is possible only where Ringfence is run by root"


class _AwaitedMap:
    """A range of ids, and the bubblewrap that waits for it before it does anything."""

    def __init__(self, map_: maps.Map, ours: socket.socket, theirs: socket.socket) -> None:
        self._map, self._ours, self._theirs = map_, ours, theirs

    @classmethod
    def of(cls, map_: maps.Map) -> "_AwaitedMap":
        return cls(map_, *socket.socketpair())

    @property
    def fd(self) -> int:
        return self._theirs.fileno()

    def give(self, pid: int) -> None:
        self._map.give(pid)
        self._ours.sendall(b"\0")

    def __enter__(self) -> "_AwaitedMap":
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._theirs.close()


def _readable(waiting: list[socket.socket | BinaryIO], within: float) -> list[Any]:
    """With a thousand sandboxes there are more descriptors than `select` takes."""
    with selectors.PollSelector() as selector:
        for one in waiting:
            selector.register(one, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(within)]


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


def _archive(folder: Path, name: str) -> BinaryIO:
    """Of whoever puts archives there, and through no link of theirs."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
        about, owner = os.fstat(fd), os.fstat(place).st_uid
    finally:
        os.close(place)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1 or about.st_uid != owner:
        os.close(fd)
        raise Invalid(f"{name} is no archive that came in")
    return os.fdopen(fd, "rb")


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
