"""Files and archives of a sandbox over HTTP, in bodies that are never held whole; and what changes, as it does."""

import asyncio
import itertools
import logging
import re
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl, quote

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ringfence.fence.files import views
from ringfence.fence.files.acts import STALLED, Act
from ringfence.fence.files.model import Change, Maps, change, entry, number, shown
from ringfence.fence.files.service import Files
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Invalid, RingfenceError
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields
from ringfence.kernel.http.octets import octets
from ringfence.kernel.http.stream import Stream

FILES = "/api/v1/sandboxes/{sandbox}/files"
CONTENT = f"{FILES}/content"
ARCHIVE = "/api/v1/sandboxes/{sandbox}/archive"
PORTS = "/api/v1/sandboxes/{sandbox}/ports"
BYTES, TAR, EVENTS = "application/octet-stream", "application/x-tar", "text/event-stream"
KEEPALIVE = 15.0
AT_ONCE = 200  # entries, in one step of the loop

log = logging.getLogger("ringfence.fence")


class Sent(Stream):
    """An answer that comes out of an act, and ends it."""

    patience = STALLED

    def __init__(
        self, act: Act, chunks: AsyncGenerator[bytes, None], media: str, headers: dict[str, str], status: int = 200
    ) -> None:
        super().__init__(chunks, media, headers, status)
        self._act = act

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except (RingfenceError, TimeoutError) as error:
            log.warning("an answer was cut off: %s", str(error) or f"nothing was taken of it for {STALLED:g} s")
            raise ClientDisconnect from None
        finally:
            self._act.close()


def routes(files: Files) -> Api:
    api = Api("files")

    @api.route("GET", FILES, access=Access.READ, query=views.ListQuery, answers=views.EntriesView)
    async def list_files(call: Call[Fields, views.ListQuery]) -> Sent:
        """What is in a folder of a sandbox, as it lies there: nothing is sorted.

        `name` is relative to the folder; `name_base64` stands beside it where it is not UTF-8. `cut`: there was more
        than `limit`, or a folder that could not be looked into."""
        query = call.query
        act = await files.entries(call.principal, call["sandbox"], _path(call, query.path), query.depth, query.limit)
        return Sent(act, _entries(act), "application/json", {})

    @api.route("GET", f"{FILES}/stat", access=Access.READ, query=views.PathQuery, answers=views.EntryView)
    async def stat(call: Call[Fields, views.PathQuery]) -> views.EntryView:
        """What one file is; of a symbolic link, the link itself."""
        found = await files.stat(call.principal, call["sandbox"], _path(call, call.query.path))
        return views.entry_view(found)

    @api.route(
        "GET", CONTENT, access=Access.READ, query=views.ReadQuery, answers=bytes, media=BYTES,
        also={206: bytes},
    )  # fmt: skip
    async def read(call: Call[Fields, views.ReadQuery]) -> Response:
        """The bytes of a file, as they come.

        All, or `length` from `offset` on; a `Range` of one part is answered with 206. Only regular files are read;
        links are followed, as the sandbox's own programs do."""
        by, which, path = call.principal, call["sandbox"], _path(call, call.query.path)
        headers = {"content-disposition": _named(path), "accept-ranges": "bytes"}
        wanted = call.request.headers.get("range")
        if call.request.method == "HEAD":
            size = await files.size(by, which, path)
            return Response(None, 200, {**headers, "content-length": str(size)}, BYTES)
        offset, length, status = call.query.offset, call.query.length, 200
        if wanted is not None and (offset, length) == (0, None):
            size = await files.size(by, which, path)
            part = _part(wanted, size)
            if part is not None:
                (offset, length), status = part, 206
                headers["content-range"] = f"bytes {offset}-{offset + length - 1}/{size}"
                headers["content-length"] = str(length)
        act = await files.read(by, which, path, offset, length)
        return Sent(act, _bytes(act), BYTES, headers, status)

    @api.route("PUT", CONTENT, access=Access.ACT, query=views.WriteQuery, answers=views.FileWritten, raw=True)
    async def write(call: Call[Fields, views.WriteQuery]) -> views.FileWritten:
        """Write a file: the body is its bytes, `max_transfer` of them at most.

        Replacing is atomic: whoever reads sees the old file or the new one, and a body that breaks off changes
        nothing."""
        query, path = call.query, _path(call, call.query.path)
        mode = None if query.mode is None else views.permissions(query.mode)
        size = await files.write(
            call.principal, call["sandbox"], path, call.request.stream(), query.how, mode, parents=query.parents
        )
        return {"path": shown(path), "size": size}

    @api.route("DELETE", FILES, access=Access.ACT, query=views.RemoveQuery, answers=views.FilesRemoved)
    async def remove(call: Call[Fields, views.RemoveQuery]) -> views.FilesRemoved:
        """Remove a file, an empty folder, or (`recursive`) a folder with all that is in it. Links are not followed."""
        path = _path(call, call.query.path)
        count = await files.remove(call.principal, call["sandbox"], path, recursive=call.query.recursive)
        return {"path": shown(path), "count": count}

    @api.route(
        "POST", f"{FILES}/mkdir", access=Access.ACT, body=views.NewDirectory, answers=views.DirectoryMade, creates=True
    )
    async def mkdir(call: Call[views.NewDirectory, Fields]) -> Answer:
        """Make a folder."""
        if (answered := await call.answered()) is not None:
            return answered
        body = call.body
        path = octets(body.path)
        tell = await files.mkdir(
            call.principal, call["sandbox"], path, views.permissions(body.mode), parents=body.parents
        )

        def told(tx: Transaction) -> views.DirectoryMade:
            tell(tx)
            return {"path": shown(path)}

        return await call.commit(told)

    @api.route("POST", f"{FILES}/move", access=Access.ACT, body=views.Move, answers=views.FileMoved, creates=True)
    async def move(call: Call[views.Move, Fields]) -> Answer:
        """Move or rename a file or a folder, within one filesystem."""
        if (answered := await call.answered()) is not None:
            return answered
        path, to = octets(call.body.path), octets(call.body.to)
        tell = await files.move(call.principal, call["sandbox"], path, to, replace=call.body.replace)

        def told(tx: Transaction) -> views.FileMoved:
            tell(tx)
            return {"path": shown(path), "to": shown(to)}

        return await call.commit(told)

    @api.route("GET", f"{FILES}/watch", access=Access.READ, query=views.WatchQuery, answers=str, media=EVENTS)
    async def watch(call: Call[Fields, views.WatchQuery]) -> Sent:
        """What changes in a folder, as server-sent events: `created`, `written`, `removed`, `moved`, `attributes`.

        Each has `path` (relative to the folder), `directory`, and `to` for a move. `lost`: more happened than could be
        told, below `path`; look anew."""
        path = _path(call, call.query.path)
        act = await files.watch(call.principal, call["sandbox"], path, recursive=call.query.recursive)
        return Sent(act, _changes(act), EVENTS, {"cache-control": "no-cache", "x-accel-buffering": "no"})

    @api.route("GET", ARCHIVE, access=Access.READ, query=views.PathQuery, answers=bytes, media=TAR)
    async def download(call: Call[Fields, views.PathQuery]) -> Sent:
        """A folder, with all that is in it, as a tar; names in it are relative to the folder.

        FIFOs, sockets and devices are left out; links are in it as links."""
        path = _path(call, call.query.path)
        act = await files.pack(call.principal, call["sandbox"], path)
        return Sent(act, _bytes(act), TAR, {"content-disposition": _named(path, ".tar")})

    @api.route("PUT", ARCHIVE, access=Access.ACT, query=views.PathQuery, answers=views.ArchiveUnpacked, raw=True)
    async def upload(call: Call[Fields, views.PathQuery]) -> views.ArchiveUnpacked:
        """Unpack a tar into a folder that is there: the body is the tar, not compressed.

        Names and links that lead out of the folder, devices and FIFOs are refused; what was unpacked before them
        stays."""
        path = _path(call, call.query.path)
        count, size = await files.unpack(call.principal, call["sandbox"], path, call.request.stream())
        return {"path": shown(path), "count": count, "bytes": size}

    @api.route("GET", PORTS, access=Access.READ, answers=views.PortsView)
    async def ports(call: Call[Fields, Fields]) -> views.PortsView:
        """The TCP ports on which something listens in a sandbox.

        To those that are `reachable` the WebSocket at `ports/{port}` connects: binary messages are what goes there
        and comes back, `{"type": "end_input"}` ends one direction."""
        found = await files.ports(call.principal, call["sandbox"])
        return {"items": [views.port_view(port) for port in found]}

    return api


def _path(call: Call[Any, Any], default: str) -> bytes:
    """The parameter byte for byte: as text, what is not UTF-8 in it was lost."""
    pairs = parse_qsl(
        call.request.scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="surrogateescape"
    )
    given = dict(pairs).get("path")
    return default.encode() if given is None else given.encode("utf-8", "surrogateescape")


_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def _part(wanted: str, size: int) -> tuple[int, int] | None:
    """Offset and length; None: a range that is not understood is as none."""
    found = _RANGE.fullmatch(wanted.strip())
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size - 1
    else:
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
    if found[1] and found[2] and int(found[2]) < int(found[1]):
        return None
    if first > last:
        raise Invalid(f"the file has {size} bytes: {wanted!r:.60} is beyond its end", code="range", http_status=416)
    return first, last - first + 1


def _named(path: bytes, ending: str = "") -> str:
    name = path.rstrip(b"/").rpartition(b"/")[2] or b"root"
    return f"attachment; filename*=UTF-8''{quote(name + ending.encode(), safe='')}"


async def _bytes(act: Act) -> AsyncGenerator[bytes, None]:
    async for piece in act.pieces():
        yield piece


async def _entries(act: Act) -> AsyncGenerator[bytes, None]:
    maps, between = Maps(), b'{"items":['
    async for piece in act.pieces():
        found = maps.feed(piece)
        while some := [to_json(views.entry_view(entry(it))) for it in itertools.islice(found, AT_ONCE)]:
            yield between + b",".join(some)
            between = b","
            await asyncio.sleep(0)  # others want to be served meanwhile
    result = await act.result()
    end = {"count": number(result, "count"), "cut": bool(result.get("cut"))}
    yield (between if between != b"," else b"") + b"]," + to_json(end)[1:]


async def _changes(act: Act) -> AsyncGenerator[bytes, None]:
    maps = Maps()
    yield b": watching\n\n"
    while True:
        try:
            piece = await act.piece(KEEPALIVE)
        except TimeoutError:
            yield b": still\n\n"
            continue
        if piece is None:
            return
        changes = maps.feed(piece)
        while some := [_told(change(it)) for it in itertools.islice(changes, AT_ONCE)]:
            yield b"".join(some)
            await asyncio.sleep(0)


def _told(one: Change) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (one.event.encode(), to_json(views.change_view(one)))
