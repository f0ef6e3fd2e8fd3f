"""A runtime in memory, for the tests of other rooms: nothing is isolated, because nothing of the host is touched.

Its sandboxes live on a thread of their own, so that they outlive the server's loop as real ones outlive the server.
Their wardens speak the link's protocol over its socket; their programs are a few that everybody knows, written here,
and their files are a dictionary.
"""

import asyncio
import copy
import errno
import hashlib
import io
import os
import secrets
import shlex
import shutil
import tarfile
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar, cast

import msgpack

from ringfence.fence.link import frames
from ringfence.fence.link.frames import Kind
from ringfence.fence.link.model import Channel, Start, Whom, Why
from ringfence.fence.model import OWN_IMAGE, Blueprint, Cause, Enforced, Image, ImageConfig, Life, Stats, User
from ringfence.fence.runtimes.model import Capabilities, Found, Unsupported
from ringfence.kernel.errors import Invalid, NotFound, TooLarge

T = TypeVar("T")

CAN = Capabilities(
    pause=True,
    snapshot=True,
    users=frozenset({User.AGENT, User.ROOT}),
    limits={"memory": "dictionary", "cpus": "dictionary", "pids": "dictionary"},
    lacks={"disk": "use another runtime: this one writes nothing to a disk"},
)
_BACKOFF = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)

Files = dict[str, bytes | None]  # None: a folder


@dataclass(slots=True, eq=False)
class Box:
    """One sandbox of the dummy."""

    blueprint: Blueprint
    folder: Path
    files: Files
    key: bytes = b""
    life: Life | None = None
    warden: "asyncio.Task[None] | None" = None
    moving: asyncio.Event = field(default_factory=asyncio.Event)  # cleared while it is paused
    over: "asyncio.Future[Cause] | None" = None
    said: bytes = b""


class Dummy:
    """The `Runtime`. `kill`, `hold` and `deaf` are for tests: what a kernel or a host may do to a sandbox."""

    name = "dummy"

    def __init__(self, folder: Path, can: Capabilities = CAN) -> None:
        self._folder = folder
        self._can = can
        self._boxes: dict[str, Box] = {}
        self._snapshots: dict[str, Files] = {}
        self._images: dict[str, Files] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pids = 1000
        self.deaf = False  # wardens that start now never dial

    # Runtime --------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="dummy sandboxes", daemon=True).start()

    async def close(self) -> None: ...

    def capabilities(self) -> Capabilities:
        return self._can

    def images(self) -> list[str]:
        return [OWN_IMAGE, *self._images]

    async def import_image(self, name: str, archive: Path, most: int) -> Image:
        """A root filesystem alone, of files and folders."""
        content = await asyncio.to_thread(archive.read_bytes)
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                files = {f"/{it.name.strip('./')}": _unpacked(tar, it) for it in tar if it.isreg() or it.isdir()}
        except tarfile.TarError as error:
            raise Invalid(f"it is no archive: {error}") from None
        if (size := sum(len(found) for found in files.values() if found)) > most:
            raise TooLarge(f"unpacked, it has more than {most} bytes")
        self._images[name] = files
        digest = hashlib.sha256(content).hexdigest()
        return Image(name=name, digest=digest, layers=(digest,), config=ImageConfig(), size=size, format="rootfs")

    async def forget_image(self, name: str) -> None:
        self._images.pop(name, None)

    async def create(self, blueprint: Blueprint) -> Enforced:
        if (
            lacking := next((name for name in blueprint.limits.requested if name not in self._can.limits), None)
        ) is not None:
            raise Unsupported(f"the limit {lacking} cannot be held up here: {self._can.lacks.get(lacking, 'never')}")
        if blueprint.snapshot is not None and blueprint.snapshot not in self._snapshots:
            raise NotFound(f"there is no snapshot {blueprint.snapshot!r}")
        if blueprint.image not in self.images():
            raise NotFound(f"there is no image {blueprint.image!r:.200} here")
        limits = {name: how for name, how in self._can.limits.items() if getattr(blueprint.limits, name) is not None}
        await self._there(self._make(blueprint))
        return Enforced(how=limits)

    async def _make(self, blueprint: Blueprint) -> None:
        if blueprint.id in self._boxes:
            return
        files: Files = dict.fromkeys(["/", "/tmp", "/home", "/home/agent", "/workspace"])  # noqa: S108  not the host's
        files |= self._images.get(blueprint.image, {})
        if blueprint.snapshot is not None:
            files = copy.copy(self._snapshots[blueprint.snapshot])
        folder = self.link_folder(blueprint.id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._boxes[blueprint.id] = Box(blueprint, folder, files)

    def link_folder(self, sandbox: str) -> Path:
        return self._folder / sandbox

    async def start(self, blueprint: Blueprint, key: bytes) -> Life:
        return await self._there(self._start(blueprint.id, key))

    async def _start(self, sandbox: str, key: bytes) -> Life:
        box = self._box(sandbox)
        self._pids += 1
        box.key, box.said = key, b""
        box.life = Life(pid=self._pids, started=self._pids, boot="dummy")
        box.over = asyncio.get_running_loop().create_future()
        box.moving.set()
        box.warden = None if self.deaf else asyncio.create_task(Warden(box).run(), name=f"warden {sandbox}")
        return box.life

    async def ended(self, sandbox: str, life: Life) -> Cause:
        async def wait() -> Cause:
            box = self._boxes.get(sandbox)
            if box is None or box.life != life or box.over is None:
                return Cause.DIED
            return await asyncio.shield(box.over)

        return await self._there(wait())

    async def stop(self, sandbox: str) -> None:
        await self._there(self._end(sandbox, Cause.STOPPED))

    async def kill(self, sandbox: str, cause: Cause = Cause.DIED, said: bytes = b"") -> None:
        """End it as if by itself."""
        if (box := self._boxes.get(sandbox)) is not None:
            box.said = said
        await self._there(self._end(sandbox, cause))

    async def _end(self, sandbox: str, cause: Cause) -> None:
        box = self._boxes.get(sandbox)
        if box is None or box.life is None:
            return
        if box.warden is not None:
            box.warden.cancel()
            await asyncio.gather(box.warden, return_exceptions=True)
        box.life = box.warden = None
        if box.over is not None and not box.over.done():
            box.over.set_result(cause)

    async def pause(self, sandbox: str) -> None:
        await self._there(self._move(sandbox, moving=False))

    async def resume(self, sandbox: str) -> None:
        await self._there(self._move(sandbox, moving=True))

    async def _move(self, sandbox: str, *, moving: bool) -> None:
        box = self._box(sandbox)
        box.moving.set() if moving else box.moving.clear()

    async def destroy(self, sandbox: str) -> None:
        await self.stop(sandbox)
        box = self._boxes.pop(sandbox, None)
        if box is not None:
            shutil.rmtree(box.folder, ignore_errors=True)

    async def found(self, sandbox: str) -> Found | None:
        box = self._boxes.get(sandbox)
        if box is None:
            return None
        return Found(id=sandbox, life=box.life, paused=box.life is not None and not box.moving.is_set())

    async def find_all(self) -> list[Found]:
        return [found for sandbox in list(self._boxes) if (found := await self.found(sandbox)) is not None]

    async def stats(self, sandbox: str) -> Stats:
        box = self._box(sandbox)
        disk = sum(len(content) for content in box.files.values() if content)
        return Stats(pids=1 if box.life else 0, disk=disk)

    async def said(self, sandbox: str) -> bytes:
        box = self._boxes.get(sandbox)
        return b"" if box is None else box.said[-64 * 1024 :]

    async def snapshot(self, sandbox: str, name: str) -> int:
        box = self._box(sandbox)
        self._snapshots[name] = copy.copy(box.files)
        return sum(len(content) for content in box.files.values() if content)

    async def forget_snapshot(self, name: str) -> None:
        self._snapshots.pop(name, None)

    def _box(self, sandbox: str) -> Box:
        box = self._boxes.get(sandbox)
        if box is None:
            raise NotFound(f"the runtime holds no sandbox {sandbox!r}")
        return box

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Where the sandboxes live."""
        assert self._loop is not None, "the runtime is not open"
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _end_all(self) -> None:
        for sandbox in self._boxes:
            await self._end(sandbox, Cause.DIED)

    def end_world(self) -> None:
        """All of them are gone, as after a power cut."""
        loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._end_all(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)


def _unpacked(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
    opened = tar.extractfile(member) if member.isreg() else None
    return None if opened is None else opened.read()


# The warden -----------------------------------------------------------------------------------------------------------


class Failed(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.number = number


class Killed(Exception):
    def __init__(self, number: int, why: Why = Why.SIGNALLED) -> None:
        super().__init__(number)
        self.number, self.why = number, why


class Run:
    """A session of the dummy's warden."""

    def __init__(self, stream: int, start: Start, box: Box, tell: Callable[[bytes], None]) -> None:
        self.stream, self.start, self.box = stream, start, box
        self.tell = tell
        self.kept = {Channel.OUT: (0, bytearray()), Channel.ERR: (0, bytearray())}
        self.told = {Channel.OUT: 0, Channel.ERR: 0}
        self.input = bytearray()
        self.seen = self.taken = 0
        self.input_ends: int | None = None
        self.changed = asyncio.Event()
        self.exited: dict[str, Any] | None = None
        self.killed: Killed | None = None
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        result: dict[str, Any] | None = None
        code, cause, number, error = 0, Why.EXITED, 0, ""
        try:
            async with asyncio.timeout(self.start.timeout):
                if self.start.act is not None:
                    if self.start.act not in _ACTS:
                        raise Failed(errno.ENOSYS)
                    result = await _ACTS[self.start.act](self, self.start.arguments)
                    self.tell_started()
                else:
                    code = await command(self, [word.decode() for word in self.start.argv])
        except TimeoutError:
            code, cause, number = 128 + 9, Why.TIMEOUT, 9
        except (Failed, KeyError) as failed:
            number = failed.number if isinstance(failed, Failed) else errno.ENOENT
            code, cause, error = 127, Why.FAILED, os.strerror(number)
        except asyncio.CancelledError:
            if self.killed is None:
                raise
            code, cause, number = 128 + self.killed.number, self.killed.why, self.killed.number
        self.exited = {
            "cause": cause.value, "code": code, "signal": 0 if cause is Why.FAILED else number,
            "out": self.end(Channel.OUT), "err": self.end(Channel.ERR), "memory": 1024,
        }  # fmt: skip
        if cause is Why.FAILED:
            self.exited |= {"errno": number, "error": error}
        if result is not None:
            self.exited["result"] = result
        self.tell_exit()

    def tell_started(self) -> None:
        self.tell(frames.frame(Kind.STARTED, self.stream, _pack({"pid": 7})))

    def tell_exit(self) -> None:
        self.tell(frames.frame(Kind.EXITED, self.stream, _pack(self.exited)))

    def end(self, channel: Channel) -> int:
        first, kept = self.kept[channel]
        return first + len(kept)

    async def say(self, data: bytes, channel: Channel = Channel.OUT) -> None:
        """Output, waiting while nobody stores it."""
        while data:
            await self.box.moving.wait()
            first, kept = self.kept[channel]
            room = frames.RING - len(kept)
            if room <= 0:
                await self._wait()
                continue
            part, data = data[: min(room, 65_536)], data[min(room, 65_536) :]
            offset = first + len(kept)
            kept += part
            self.tell(_output(self.stream, channel, offset, part))
            await asyncio.sleep(0)

    async def read(self) -> bytes:
        """The next piece of input; empty at its end."""
        if not self.start.stdin and self.start.pty is None:
            return b""
        while not self.input:
            if self.input_ends is not None and self.taken >= self.input_ends:
                return b""
            await self._wait()
        data = bytes(self.input)
        self.input.clear()
        self.taken += len(data)
        self.tell(frames.frame(Kind.TAKEN, self.stream, self.taken.to_bytes(8, "big")))
        return data

    async def read_all(self) -> bytes:
        parts = []
        while part := await self.read():
            parts.append(part)
        return b"".join(parts)

    async def _wait(self) -> None:
        self.changed.clear()
        await self.changed.wait()

    def stored(self, channel: Channel, offset: int) -> None:
        first, kept = self.kept[channel]
        if offset > first:
            del kept[: offset - first]
            self.kept[channel] = (offset, kept)
            self.changed.set()

    def signal(self, number: int, whom: Whom) -> None:
        if self.exited is None and number not in (0, 18, 28):
            self.killed = Killed(number, Why.KILLED if number == 9 and whom is Whom.ALL else Why.SIGNALLED)
            self.task.cancel()

    def held(self) -> dict[str, Any]:
        def span(channel: Channel) -> list[int]:
            return [self.kept[channel][0], self.end(channel)]

        return {
            "stream": self.stream, "id": self.start.id, "pid": 0 if self.exited else 7, "out": span(Channel.OUT),
            "err": span(Channel.ERR), "taken": self.taken, "seen": self.seen, "ended": self.exited is not None,
        }  # fmt: skip


class Warden:
    def __init__(self, box: Box) -> None:
        self._box = box
        self._boot = secrets.token_bytes(frames.BOOT)
        self._runs: dict[int, Run] = {}
        self._next = 1
        self._writer: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        """Dial for ever."""
        failures = 0
        try:
            while True:
                await self._box.moving.wait()
                try:
                    await self._talk()
                    failures = 0
                except (OSError, frames.Violation, asyncio.IncompleteReadError):
                    failures += 1
                self._writer = None
                await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
        finally:
            for each in self._runs.values():
                each.task.cancel()
            if self._writer is not None:
                self._writer.close()

    async def _talk(self) -> None:
        folder = os.open(self._box.folder, os.O_PATH | os.O_DIRECTORY)  # whose path may be longer than a socket's
        try:
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/link.sock")
        finally:
            os.close(folder)
        splitter, greeted = frames.Splitter(), False
        try:
            while data := await reader.read(65_536):
                await self._box.moving.wait()
                for frame in splitter.feed(data, 1 << 20):
                    it = frames.to_warden(frame)
                    if isinstance(it, frames.Challenge):
                        writer.write(self._hello(it))
                    elif isinstance(it, frames.Welcome):
                        self._writer, greeted = writer, True
                        self._welcomed(it)
                    elif greeted:
                        self._take(it)
        finally:
            self._writer = None
            writer.close()

    def _tell(self, frame: bytes) -> None:
        if self._writer is not None:
            self._writer.write(frame)

    def _hello(self, it: frames.Challenge) -> bytes:
        said = {
            "v": 1, "boot": self._boot, "mac": frames.mac(self._box.key, it.nonce, self._boot), "next": self._next,
            "sessions": [run.held() for run in self._runs.values()],
        }  # fmt: skip
        return frames.frame(Kind.HELLO, 0, _pack(said))

    def _welcomed(self, it: frames.Welcome) -> None:
        known = {stream: {Channel.OUT: out, Channel.ERR: err} for stream, out, err in it.keep}
        for stream, run in list(self._runs.items()):
            if stream not in known:
                run.task.cancel()
                del self._runs[stream]
                continue
            for channel, offset in known[stream].items():
                run.stored(channel, offset)
                first, kept = run.kept[channel]
                for at in range(0, len(kept), 65_536):
                    self._tell(_output(stream, channel, first + at, bytes(kept[at : at + 65_536])))
            if run.exited is not None:
                run.tell_exit()

    def _take(self, it: frames.ToWarden) -> None:
        match it:
            case frames.Ping(token):
                self._tell(frames.pong(token))
            case frames.Begin(stream, start):
                self._begin(stream, start)
            case frames.Stored(stream, channel, offset) if stream in self._runs:
                self._runs[stream].stored(channel, offset)
            case frames.Input(stream, offset, data) if stream in self._runs:
                run = self._runs[stream]
                fresh = bytes(data)[max(0, run.seen - offset) :]
                run.input += fresh
                run.seen += len(fresh)
                run.changed.set()
            case frames.InputEnd(stream, offset) if stream in self._runs:
                self._runs[stream].input_ends = offset
                self._runs[stream].changed.set()
            case frames.Signal(stream, number, whom) if stream in self._runs:
                self._runs[stream].signal(number, whom)
            case frames.Forget(stream):
                self._runs.pop(stream, None)

    def _begin(self, stream: int, start: Start) -> None:
        run = next((run for run in self._runs.values() if run.start.id == start.id), None)
        if run is None:
            self._next = max(self._next, stream + 1)
            run = self._runs[stream] = Run(stream, start, self._box, self._tell)
        if run.start.act is None:
            run.tell_started()
        if run.exited is not None:
            run.tell_exit()


def _pack(fields: dict[str, Any] | None) -> bytes:
    return cast(bytes, msgpack.packb(fields))


def _output(stream: int, channel: Channel, offset: int, data: bytes) -> bytes:
    return frames.frame(Kind.OUTPUT, stream, bytes([channel]) + offset.to_bytes(8, "big") + data)


# Programs -------------------------------------------------------------------------------------------------------------


async def command(run: Run, argv: list[str]) -> int:
    if argv[0].endswith("sh") and argv[1:2] == ["-c"]:
        code = 0
        for part in argv[2].split(";"):
            words = shlex.split(part)
            if words[:1] == ["exit"]:
                return int(words[1]) if len(words) > 1 else code
            if words:
                code = await _program(run, words)
        return code
    return await _program(run, argv)


async def _program(run: Run, argv: list[str]) -> int:
    channel = Channel.OUT
    if argv[-1] == ">&2":
        argv, channel = argv[:-1], Channel.ERR
    match argv:
        case ["true" | "python3", *_]:
            return 0
        case ["false"]:
            return 1
        case ["echo", *words]:
            await run.say(" ".join(words).encode() + b"\n", channel)
        case ["cat"]:
            while data := await run.read():
                await run.say(data, channel)
        case ["cat", *paths]:
            for path in paths:
                await run.say(_content(run, path), channel)
        case ["sleep", seconds]:
            await asyncio.sleep(float(seconds))
        case ["pwd"]:
            await run.say(run.start.cwd + b"\n", channel)
        case ["env"]:
            await run.say(b"".join(each + b"\n" for each in run.start.env), channel)
        case ["yes", *words]:
            while True:
                await run.say((" ".join(words or ["y"]) + "\n").encode() * 1000, channel)
        case _:
            raise Failed(errno.ENOENT)
    return 0


# Acts -----------------------------------------------------------------------------------------------------------------


def _path(given: object) -> str:
    text = given.decode() if isinstance(given, bytes) else str(given)
    return str(PurePosixPath("/", text))


def _content(run: Run, path: str) -> bytes:
    path = _path(path)
    if path not in run.box.files:
        raise Failed(errno.ENOENT)
    content = run.box.files[path]
    if content is None:
        raise Failed(errno.EISDIR)
    return content


def _entry(run: Run, path: str, name: str) -> dict[str, Any]:
    content = run.box.files[path]
    return {
        "name": name.encode(), "kind": "directory" if content is None else "file", "size": len(content or b""),
        "mode": 0o755 if content is None else 0o644, "uid": 1000, "gid": 1000, "modified": 0,
    }  # fmt: skip


async def _read(run: Run, given: Any) -> dict[str, Any]:
    content = _content(run, given["path"])
    first = int(given.get("offset", 0))
    length = given.get("length")
    await run.say(content[first:] if length is None else content[first : first + int(length)])
    return {"size": len(content)}


async def _write(run: Run, given: Any) -> dict[str, Any]:
    path, files = _path(given["path"]), run.box.files
    how = _text(given.get("how", b"replace"))
    if how == "create" and path in files:
        raise Failed(errno.EEXIST)
    if path in files and files[path] is None:
        raise Failed(errno.EISDIR)
    parents = [str(parent) for parent in PurePosixPath(path).parents]
    if parents[0] not in files:
        if not given.get("parents"):
            raise Failed(errno.ENOENT)
        files |= dict.fromkeys(set(parents) - files.keys())
    content = await run.read_all()
    files[path] = (files.get(path) or b"") + content if how == "append" else content
    return {"size": len(files[path] or b"")}


async def _list(run: Run, given: Any) -> dict[str, Any]:
    path, depth = _path(given["path"]), int(given.get("depth", 1))
    if path not in run.box.files:
        raise Failed(errno.ENOENT)
    if run.box.files[path] is not None:
        raise Failed(errno.ENOTDIR)
    count = 0
    for found in sorted(run.box.files):
        if found == path or not PurePosixPath(found).is_relative_to(path):
            continue
        name = str(PurePosixPath(found).relative_to(path))
        if not depth or len(PurePosixPath(name).parts) <= depth:
            count += 1
            await run.say(_pack(_entry(run, found, name)))
    return {"count": count, "cut": False}


async def _stat(run: Run, given: Any) -> dict[str, Any]:
    path = _path(given["path"])
    if path not in run.box.files:
        raise Failed(errno.ENOENT)
    return _entry(run, path, ".")


async def _mkdir(run: Run, given: Any) -> dict[str, Any]:
    path, files = _path(given["path"]), run.box.files
    if path in files and not (given.get("parents") and files[path] is None):
        raise Failed(errno.EEXIST)
    parents = {str(parent) for parent in PurePosixPath(path).parents}
    if not given.get("parents") and not parents <= files.keys():
        raise Failed(errno.ENOENT)
    files |= dict.fromkeys((parents | {path}) - files.keys())
    return {}


async def _move(run: Run, given: Any) -> dict[str, Any]:
    path, to, files = _path(given["path"]), _path(given["to"]), run.box.files
    if path not in files:
        raise Failed(errno.ENOENT)
    if to in files and not given.get("replace"):
        raise Failed(errno.EEXIST)
    for found in [each for each in files if PurePosixPath(each).is_relative_to(path)]:
        files[str(PurePosixPath(to, PurePosixPath(found).relative_to(path)))] = files.pop(found)
    return {}


async def _remove(run: Run, given: Any) -> dict[str, Any]:
    path, files = _path(given["path"]), run.box.files
    if path not in files:
        raise Failed(errno.ENOENT)
    inside = [each for each in files if PurePosixPath(each).is_relative_to(path)]
    if len(inside) > 1 and not given.get("recursive"):
        raise Failed(errno.ENOTEMPTY)
    for each in inside:
        del files[each]
    return {"count": len(inside)}


def _text(given: object) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)


_ACTS: dict[str, Callable[[Run, Any], Awaitable[dict[str, Any]]]] = {
    "read": _read, "write": _write, "list": _list, "stat": _stat, "mkdir": _mkdir, "move": _move, "remove": _remove,
}  # fmt: skip
