"""The files of a sandbox: bytes, folders, whole trees, and what changes."""

import base64
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self, cast

import httpx

from ringfence.sdk import trees
from ringfence.sdk.asking import Asking
from ringfence.sdk.board import V1
from ringfence.sdk.calls import Call, Content, Json, Repeat, Sink, content, given, path
from ringfence.sdk.errors import UnexpectedAnswer, answered
from ringfence.sdk.events import ACCEPTED, SILENCE, Decoder
from ringfence.sdk.retrying import unreachable
from ringfence.sdk.steps import Awaiting, Blocking, Steps, Work, operation
from ringfence.sdk.views import (
    ArchiveUnpacked,
    DirectoryMade,
    FileChange,
    FileEntries,
    FileEntry,
    FileMoved,
    FilesRemoved,
    FileWritten,
)

Name = str | bytes
How = Literal["replace", "create", "append"]
LONG = 600.0  # seconds for what takes as long as there are files
MOST = 100_000  # entries of a list


def text(name: Name) -> str:
    """With surrogates for what is no text, as Python's own names of files."""
    return os.fsdecode(name) if isinstance(name, bytes) else name


def word(given: Name) -> str | dict[str, str]:
    """As it stands in JSON."""
    raw = given if isinstance(given, bytes) else given.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


class FileOperations(Asking):
    """Paths are absolute, or relative to /workspace; bytes where a name is no text."""

    _sandbox: str

    def _at(self, *parts: str) -> str:
        return path(*V1, "sandboxes", self._sandbox, *parts)

    @operation
    def read(self, name: Name, *, offset: int | None = None, length: int | None = None) -> Steps[bytes]:
        query = {"path": text(name), "offset": offset, "length": length}
        return self._ask(Call(method="GET", path=self._at("files", "content"), reads=content, query=query))

    @operation
    def write(
        self,
        name: Name,
        data: bytes | str,
        *,
        mode: int | None = None,
        parents: bool | None = None,
        how: How | None = None,
    ) -> Steps[FileWritten]:
        """Atomically: who reads sees the file as it was, or as it is then. `how="create"` refuses one that is there."""
        return self._write(name, data.encode() if isinstance(data, str) else data, mode, parents, how)

    @operation
    def append(self, name: Name, data: bytes | str) -> Steps[FileWritten]:
        return self._write(name, data.encode() if isinstance(data, str) else data, None, None, "append")

    @operation
    def list(self, name: Name = "/workspace", *, depth: int | None = None, limit: int = MOST) -> Steps[list[FileEntry]]:
        """What is in a folder, by name; `depth=0` is all that is below it."""
        query = {"path": text(name), "depth": depth, "limit": limit}
        found = yield from self._ask(
            Call(method="GET", path=self._at("files"), reads=Json(FileEntries), query=query, within=LONG)
        )
        return sorted(found["items"], key=lambda it: it["name"])

    @operation
    def stat(self, name: Name) -> Steps[FileEntry]:
        """Of a symbolic link, the link itself."""
        return self._get(self._at("files", "stat"), FileEntry, path=text(name))

    @operation
    def mkdir(self, name: Name, *, mode: int | None = None, parents: bool | None = None) -> Steps[DirectoryMade]:
        return self._create(
            self._at("files", "mkdir"), DirectoryMade, path=word(name), mode=_octal(mode), parents=parents
        )

    @operation
    def move(self, name: Name, to: Name, *, replace: bool | None = None) -> Steps[FileMoved]:
        return self._create(self._at("files", "move"), FileMoved, path=word(name), to=word(to), replace=replace)

    @operation
    def remove(self, name: Name, *, recursive: bool | None = None) -> Steps[FilesRemoved]:
        query = {"path": text(name), "recursive": recursive}
        return self._ask(
            Call(method="DELETE", path=self._at("files"), reads=Json(FilesRemoved), query=query, within=LONG)
        )

    @operation
    def upload(self, local: str | os.PathLike[str], name: Name) -> Steps[None]:
        """A file of this machine, or a folder with all that is in it (into the folder `name`, which is made)."""
        source = Path(local)
        if not source.is_dir():
            mode = source.stat().st_mode & 0o777
            yield from self._write(name, Content(source), mode, True, None)
            return
        yield from self._create(self._at("files", "mkdir"), DirectoryMade, path=word(name), parents=True)
        with _beside() as tar:
            yield Work(lambda: trees.pack(source, tar))
            yield from self._unpack(name, Content(Path(tar.name)))

    @operation
    def download(self, name: Name, local: str | os.PathLike[str]) -> Steps[None]:
        """A file, or a folder with all that is in it, to this machine; links in it that lead out are refused."""
        target = Path(local)
        entry: FileEntry = yield from self._get(self._at("files", "stat"), FileEntry, path=text(name))
        with _beside(None if entry["kind"] == "directory" else target.parent) as file:
            where = self._at("archive") if entry["kind"] == "directory" else self._at("files", "content")
            query = {"path": text(name)}
            yield from self._ask(
                Call(method="GET", path=where, reads=lambda _: None, query=query, sink=Sink(file), within=LONG)
            )
            file.flush()
            if entry["kind"] == "directory":
                yield Work(lambda: trees.unpack(file, target))
            else:
                os.chmod(file.name, int(entry["mode"], 8) & 0o777 or 0o644)  # noqa: PTH101
                os.replace(file.name, target)  # noqa: PTH105

    def _write(
        self, name: Name, data: bytes | Content, mode: int | None, parents: bool | None, how: How | None
    ) -> Steps[FileWritten]:
        query = given(path=text(name), mode=_octal(mode), parents=parents, how=how)
        return self._ask(
            Call(
                method="PUT", path=self._at("files", "content"), reads=Json(FileWritten), query=query, content=data,
                repeat=Repeat.NEVER if how == "append" else Repeat.SAFE, within=LONG,
            )
        )  # fmt: skip

    def _unpack(self, name: Name, tar: Content) -> Steps[ArchiveUnpacked]:
        return self._ask(
            Call(
                method="PUT", path=self._at("archive"), reads=Json(ArchiveUnpacked), query={"path": text(name)},
                content=tar, within=LONG,
            )
        )  # fmt: skip


class Changes:
    """What a watch says, as bytes; what changed, out."""

    def __init__(self, where: str, name: Name, recursive: bool) -> None:
        self._where = where
        self._query = {"path": text(name), "recursive": recursive}
        self._decoder = Decoder()

    def request(self, client: httpx.Client | httpx.AsyncClient, headers: dict[str, str]) -> httpx.Request:
        call = Call(method="GET", path=self._where, reads=content, query=self._query, within=SILENCE)
        return call.request(client, {**headers, "accept": ACCEPTED})

    def opened(self, response: httpx.Response) -> None:
        if not response.is_success:
            raise answered(response, f"GET {self._where}")

    def feed(self, piece: bytes) -> Iterator[FileChange]:
        for frame in self._decoder.feed(piece):
            try:
                yield cast(FileChange, {"event": frame.event, **json.loads(frame.data)})
            except ValueError:
                raise UnexpectedAnswer("this is no change of a file", asked=f"GET {self._where}") from None

    def lost(self, error: httpx.TransportError) -> Exception:
        return unreachable(f"GET {self._where}", error)


class Files(FileOperations, Blocking):
    def __init__(self, sandbox: Any, ident: str) -> None:
        self._http, self._identity, self._patience = sandbox._http, sandbox._identity, sandbox._patience
        self._sandbox, self._acting = ident, None

    def watch(self, name: Name = "/workspace", *, recursive: bool = False) -> "Watch":
        """What changes in a folder from now on, for `for`; `lost`: look anew. Ends with `close`, or the folder."""
        return Watch(self._http, self._authorization, Changes(self._at("files", "watch"), name, recursive))


class AsyncFiles(FileOperations, Awaiting):
    def __init__(self, sandbox: Any, ident: str) -> None:
        self._http, self._identity, self._patience = sandbox._http, sandbox._identity, sandbox._patience
        self._sandbox, self._acting = ident, None

    async def watch(self, name: Name = "/workspace", *, recursive: bool = False) -> "AsyncWatch":
        """As `Files.watch`, for `async for`."""
        changes = Changes(self._at("files", "watch"), name, recursive)
        return await AsyncWatch.opened(self._http, self._authorization, changes)


class Watch:
    def __init__(self, http: httpx.Client, authorization: Callable[[], dict[str, str]], changes: Changes) -> None:
        try:
            self._response = http.send(changes.request(http, authorization()), stream=True)
            if not self._response.is_success:
                self._response.read()
        except httpx.TransportError as error:
            raise changes.lost(error) from error
        changes.opened(self._response)
        self._changes, self._found = changes, self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FileChange:
        return next(self._found)

    def close(self) -> None:
        self._response.close()

    def _read(self) -> Iterator[FileChange]:
        try:
            for piece in self._response.iter_bytes():
                yield from self._changes.feed(piece)
        except httpx.TransportError as error:
            raise self._changes.lost(error) from error


class AsyncWatch:
    def __init__(self, response: httpx.Response, changes: Changes) -> None:
        self._response, self._changes = response, changes
        self._found = self._read()

    @classmethod
    async def opened(
        cls, http: httpx.AsyncClient, authorization: Callable[[], dict[str, str]], changes: Changes
    ) -> Self:
        try:
            response = await http.send(changes.request(http, authorization()), stream=True)
            if not response.is_success:
                await response.aread()
        except httpx.TransportError as error:
            raise changes.lost(error) from error
        changes.opened(response)
        return cls(response, changes)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FileChange:
        return await anext(self._found)

    async def close(self) -> None:
        await self._response.aclose()

    async def _read(self) -> AsyncIterator[FileChange]:
        try:
            async for piece in self._response.aiter_bytes():
                for change in self._changes.feed(piece):
                    yield change
        except httpx.TransportError as error:
            raise self._changes.lost(error) from error


def _octal(mode: int | None) -> str | None:
    return None if mode is None else f"{mode:04o}"


@contextmanager
def _beside(folder: Path | None = None) -> Iterator[IO[bytes]]:
    """A file on the way; it is gone afterwards, unless it became another."""
    file = tempfile.NamedTemporaryFile(dir=folder, prefix=".ringfence-", delete=False)  # noqa: SIM115
    try:
        yield file
    finally:
        file.close()
        Path(file.name).unlink(missing_ok=True)
