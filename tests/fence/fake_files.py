"""The acts of docs/link.md on a tree that is in memory: files, folders and symbolic links, nothing of the host."""

import asyncio
import errno
import io
import tarfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from tests.fence.fake_warden import Process

CHUNK = 128 * 1024


class ActFailed(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.errno = number


@dataclass
class Node:
    kind: str  # as in an entry
    mode: int
    data: bytearray = field(default_factory=bytearray)
    target: bytes = b""
    children: dict[bytes, "Node"] = field(default_factory=dict)
    modified: int = field(default_factory=time.time_ns)

    def entry(self, name: bytes) -> dict[str, object]:
        entry: dict[str, object] = {
            "name": name, "kind": self.kind, "size": len(self.data), "mode": self.mode, "uid": 1000, "gid": 1000,
            "modified": self.modified,
        }  # fmt: skip
        if self.kind == "link":
            entry["target"] = self.target
        return entry


@dataclass(frozen=True)
class Change:
    path: bytes
    event: str
    to: bytes | None = None
    directory: bool = False


class Files:
    def __init__(self, space: int = 1 << 40) -> None:
        self.root = Node("directory", 0o755)
        self.space = space  # bytes there are for files
        self._watchers: list[tuple[bytes, bool, asyncio.Queue[Change]]] = []
        for name in (b"tmp", b"workspace", b"home"):
            self.root.children[name] = Node("directory", 0o755)

    def act(self, name: str) -> "Callable[[Process], Awaitable[int | None]]":
        return lambda process: ACTS[name](self, process)

    # The tree -----------------------------------------------------------------------------------------------------

    def find(self, path: bytes, *, follow: bool = True, hops: int = 8) -> Node:
        node = self.root
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        for number, part in enumerate(parts):
            if node.kind != "directory":
                raise ActFailed(errno.ENOTDIR)
            if part not in node.children:
                raise ActFailed(errno.ENOENT)
            node = node.children[part]
            if node.kind == "link" and (follow or number < len(parts) - 1):
                if not hops:
                    raise ActFailed(errno.ELOOP)
                before = b"/" + b"/".join(parts[:number]) + b"/"
                target = node.target if node.target.startswith(b"/") else before + node.target
                node = self.find(target, hops=hops - 1)
        return node

    def folder(self, path: bytes, *, parents: bool = False) -> tuple[Node, bytes]:
        """The folder that `path` lies in, and its name there."""
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if not parts:
            raise ActFailed(errno.EBUSY)
        for number in range(1, len(parts)) if parents else ():
            over, name = self.folder(b"/".join(parts[:number]))
            if name not in over.children:
                over.children[name] = Node("directory", 0o755)
        node = self.find(b"/".join(parts[:-1]))
        if node.kind != "directory":
            raise ActFailed(errno.ENOTDIR)
        return node, parts[-1]

    def put(self, path: bytes, data: bytes, mode: int = 0o644) -> None:
        folder, name = self.folder(path, parents=True)
        folder.children[name] = Node("file", mode, bytearray(data))
        self.tell(Change(path, "written"))

    def used(self, node: Node | None = None) -> int:
        node = node or self.root
        return len(node.data) + sum(map(self.used, node.children.values()))

    def tell(self, change: Change) -> None:
        for under, recursive, queue in self._watchers:
            inside = change.path.removeprefix(under.rstrip(b"/") + b"/")
            if inside != change.path and (recursive or b"/" not in inside):
                queue.put_nowait(Change(inside, change.event, change.to, change.directory))

    # The acts -----------------------------------------------------------------------------------------------------

    async def read(self, process: "Process") -> None:
        asked = process.start.arguments
        node = self._file(asked["path"])
        at = asked.get("offset", 0)
        end = len(node.data) if "length" not in asked else min(len(node.data), at + asked["length"])
        while at < end:
            await process.write(bytes(node.data[at : min(end, at + CHUNK)]))
            at += CHUNK
        process.result = {"size": len(node.data)}

    async def write(self, process: "Process") -> None:
        asked = process.start.arguments
        path, how = asked["path"], asked["how"].decode()
        folder, name = self.folder(path, parents=asked.get("parents", False))
        known = folder.children.get(name)
        if known is not None and known.kind == "directory":
            raise ActFailed(errno.EISDIR)
        if known is not None and how == "create":
            raise ActFailed(errno.EEXIST)
        new = Node("file", asked.get("mode", 0o644))
        if how == "append" and known is not None:
            new = known
        while data := await process.read():
            if self.used() + len(new.data) + len(data) > self.space:
                raise ActFailed(errno.ENOSPC)
            new.data += data
        new.modified = time.time_ns()
        folder.children[name] = new
        process.result = {"size": len(new.data)}
        self.tell(Change(path, "written" if known else "created"))

    async def list(self, process: "Process") -> None:
        asked = process.start.arguments
        node = self.find(asked["path"])
        if node.kind != "directory":
            raise ActFailed(errno.ENOTDIR)
        count, most = 0, asked.get("most", 100_000)
        cut = False
        waiting = [(b"", node, 1)]
        while waiting:
            under, folder, depth = waiting.pop(0)
            for name, child in folder.children.items():
                if count >= most:
                    cut = True
                    break
                count += 1
                await process.write(_packed(child.entry(under + name)))
                if child.kind == "directory" and (asked.get("depth", 1) == 0 or depth < asked.get("depth", 1)):
                    waiting.append((under + name + b"/", child, depth + 1))
        process.result = {"count": count, "cut": cut}

    async def stat(self, process: "Process") -> None:
        process.result = self.find(process.start.arguments["path"], follow=False).entry(b".")

    async def mkdir(self, process: "Process") -> None:
        asked = process.start.arguments
        folder, name = self.folder(asked["path"], parents=asked.get("parents", False))
        if name in folder.children and not (asked.get("parents") and folder.children[name].kind == "directory"):
            raise ActFailed(errno.EEXIST)
        folder.children.setdefault(name, Node("directory", asked.get("mode", 0o755)))
        self.tell(Change(asked["path"], "created", directory=True))

    async def move(self, process: "Process") -> None:
        asked = process.start.arguments
        folder, name = self.folder(asked["path"])
        to, named = self.folder(asked["to"])
        if name not in folder.children:
            raise ActFailed(errno.ENOENT)
        if named in to.children and not asked.get("replace"):
            raise ActFailed(errno.EEXIST)
        to.children[named] = folder.children.pop(name)
        self.tell(Change(asked["path"], "moved", asked["to"]))

    async def remove(self, process: "Process") -> None:
        asked = process.start.arguments
        folder, name = self.folder(asked["path"])
        if name not in folder.children:
            raise ActFailed(errno.ENOENT)
        if folder.children[name].children and not asked.get("recursive"):
            raise ActFailed(errno.ENOTEMPTY)
        process.result = {"count": _count(folder.children.pop(name))}
        self.tell(Change(asked["path"], "removed"))

    async def pack(self, process: "Process") -> None:
        node = self.find(process.start.arguments["path"], follow=False)
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            count = _pack(tar, b".", node)
        data = made.getvalue()
        for at in range(0, len(data), CHUNK):
            await process.write(data[at : at + CHUNK])
        process.result = {"count": count, "bytes": len(data)}

    async def unpack(self, process: "Process") -> None:
        path = process.start.arguments["path"]
        given = bytearray()
        while data := await process.read():
            given += data
        count = 0
        try:
            with tarfile.open(fileobj=io.BytesIO(given)) as tar:
                for member in tar:
                    count += self._unpack(path, tar, member)
        except tarfile.TarError:
            raise ActFailed(errno.EINVAL) from None
        process.result = {"count": count, "bytes": len(given)}

    async def watch(self, process: "Process") -> None:
        asked = process.start.arguments
        self.find(asked["path"])
        queue: asyncio.Queue[Change] = asyncio.Queue()
        watcher = (asked["path"], asked.get("recursive", False), queue)
        self._watchers.append(watcher)
        process.ready()
        try:
            while True:
                change = await queue.get()
                told: dict[str, Any] = {"path": change.path, "event": change.event, "directory": change.directory}
                if change.to is not None:
                    told["to"] = change.to
                await process.write(_packed(told))
        finally:
            self._watchers.remove(watcher)

    def _file(self, path: bytes) -> Node:
        node = self.find(path)
        if node.kind == "directory":
            raise ActFailed(errno.EISDIR)
        return node

    def _unpack(self, under: bytes, tar: tarfile.TarFile, member: tarfile.TarInfo) -> int:
        name = member.name.encode("utf-8", "surrogateescape")
        if name.startswith(b"/") or b".." in name.split(b"/"):
            raise ActFailed(errno.EPERM)
        if name in (b".", b""):
            return 0
        folder, base = self.folder(under + b"/" + name, parents=True)
        if member.isdir():
            folder.children.setdefault(base, Node("directory", member.mode))
        elif member.issym():
            folder.children[base] = Node("link", 0o777, target=member.linkname.encode("utf-8", "surrogateescape"))
        elif member.isreg():
            read = tar.extractfile(member)
            assert read is not None
            folder.children[base] = Node("file", member.mode, bytearray(read.read()))
        else:
            raise ActFailed(errno.EPERM)
        return 1


ACTS: "dict[str, Callable[[Files, Process], Awaitable[int | None]]]" = {
    "read": Files.read, "write": Files.write, "list": Files.list, "stat": Files.stat, "mkdir": Files.mkdir,
    "move": Files.move, "remove": Files.remove, "pack": Files.pack, "unpack": Files.unpack, "watch": Files.watch,
}  # fmt: skip


def _packed(fields: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return packed


def _count(node: Node) -> int:
    return 1 + sum(map(_count, node.children.values()))


def _pack(tar: tarfile.TarFile, name: bytes, node: Node) -> int:
    info = tarfile.TarInfo(name.decode("utf-8", "surrogateescape"))
    info.mode, info.mtime = node.mode, node.modified // 1_000_000_000
    if node.kind == "directory":
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif node.kind == "link":
        info.type, info.linkname = tarfile.SYMTYPE, node.target.decode("utf-8", "surrogateescape")
        tar.addfile(info)
    else:
        info.size = len(node.data)
        tar.addfile(info, io.BytesIO(node.data))
    return 1 + sum(_pack(tar, name + b"/" + child, it) for child, it in node.children.items())
