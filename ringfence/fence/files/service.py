"""Use cases of files in sandboxes: what is read goes through piece by piece, what is changed is told in one event.

A change is done in the sandbox before its event is committed, and answered after. Reading is not recorded; what was
changed before an act failed is, with why.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, Protocol

from ringfence.fence.files.acts import LONG, Act
from ringfence.fence.files.model import Entry, Port, absolute, entry, listening, number, shown
from ringfence.fence.link.model import Link, Start
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Database, Transaction
from ringfence.kernel.errors import NotFound, RingfenceError, Unavailable
from ringfence.kernel.events.model import Actor

AT_ONCE = 48  # acts in one sandbox: what its warden can hold beyond that is for programs
TABLE = 4 << 20  # bytes read of a table of connections
How = Literal["replace", "create", "append"]
Tell = Callable[[Transaction], None]


class Place(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...


class Places(Protocol):
    """Which sandbox is meant. Both raise what there is to be said when it is not to be had, or does not run."""

    async def look(self, by: Principal, ident: str) -> tuple[Place, Link]:
        """One that `by` may see."""

    async def use(self, by: Principal, ident: str) -> tuple[Place, Link]:
        """One that `by` may change."""


class Files:
    def __init__(self, database: Database, places: Places) -> None:
        self._database = database
        self._places = places
        self._open: Counter[str] = Counter()  # acts, by sandbox

    # Looking --------------------------------------------------------------------------------------------------------

    async def read(self, by: Principal, ident: str, path: bytes, offset: int = 0, length: int | None = None) -> Act:
        """A file's bytes, once the first of them are there."""
        place, link = await self._places.look(by, ident)
        return await _answering(await self._begin(place, link, "read", path, offset=offset, **_given(length=length)))

    async def size(self, by: Principal, ident: str, path: bytes) -> int:
        """How long the file is that this name leads to."""
        async with await self.read(by, ident, path, length=0) as act:
            return number(await act.result(), "size")

    async def entries(self, by: Principal, ident: str, path: bytes, depth: int, most: int) -> Act:
        place, link = await self._places.look(by, ident)
        return await _answering(await self._begin(place, link, "list", path, depth=depth, most=most))

    async def stat(self, by: Principal, ident: str, path: bytes) -> Entry:
        place, link = await self._places.look(by, ident)
        async with await self._begin(place, link, "stat", path) as act:
            return entry(await act.result())

    async def pack(self, by: Principal, ident: str, path: bytes) -> Act:
        place, link = await self._places.look(by, ident)
        return await _answering(await self._begin(place, link, "pack", path))

    async def watch(self, by: Principal, ident: str, path: bytes, *, recursive: bool) -> Act:
        """Once nothing that happens is missed."""
        place, link = await self._places.look(by, ident)
        return await _begun(await self._begin(place, link, "watch", path, recursive=recursive))

    async def ports(self, by: Principal, ident: str) -> list[Port]:
        place, link = await self._places.look(by, ident)
        tables = [await self._table(place, link, name) for name in (b"/proc/net/tcp", b"/proc/net/tcp6")]
        return listening(*tables)

    # Changing -------------------------------------------------------------------------------------------------------

    async def write(
        self, by: Principal, ident: str, path: bytes, content: AsyncIterator[bytes], how: How, mode: int | None,
        *, parents: bool,
    ) -> int:  # fmt: skip
        """How long the file is then."""
        place, link = await self._places.use(by, ident)
        arguments = {"how": how, "parents": parents, **_given(mode=mode)}

        def tell(tx: Transaction, **more: object) -> None:
            _tell(tx, "file_written", by.actor, place, path=shown(absolute(path)), how=how, **more)

        async with await self._begin(place, link, "write", path, stdin=True, **arguments) as act:
            try:
                size = number(await act.fed(content), "size")
            except BaseException as error:
                if how == "append":
                    await self._half_done(by, tell, error)
                raise
        await self._database.write(lambda tx: tell(tx, size=size), by.actor)
        return size

    async def unpack(self, by: Principal, ident: str, path: bytes, tar: AsyncIterator[bytes]) -> tuple[int, int]:
        """How many entries there were, in how many bytes."""
        place, link = await self._places.use(by, ident)

        def tell(tx: Transaction, **more: object) -> None:
            _tell(tx, "archive_unpacked", by.actor, place, path=shown(absolute(path)), **more)

        async with await self._begin(place, link, "unpack", path, stdin=True) as act:
            try:
                result = await act.fed(tar)
                count, size = number(result, "count"), number(result, "bytes")
            except BaseException as error:
                if not isinstance(error, NotFound):
                    await self._half_done(by, tell, error)
                raise
        await self._database.write(lambda tx: tell(tx, count=count, bytes=size), by.actor)
        return count, size

    async def mkdir(self, by: Principal, ident: str, path: bytes, mode: int, *, parents: bool) -> Tell:
        place, link = await self._places.use(by, ident)
        async with await self._begin(place, link, "mkdir", path, mode=mode, parents=parents) as act:
            await act.result()
        return lambda tx: _tell(tx, "directory_made", by.actor, place, path=shown(absolute(path)))

    async def move(self, by: Principal, ident: str, path: bytes, to: bytes, *, replace: bool) -> Tell:
        place, link = await self._places.use(by, ident)
        async with await self._begin(place, link, "move", path, to=absolute(to), replace=replace) as act:
            await act.result()
        told = {"path": shown(absolute(path)), "to": shown(absolute(to))}
        return lambda tx: _tell(tx, "file_moved", by.actor, place, **told)

    async def remove(self, by: Principal, ident: str, path: bytes, *, recursive: bool) -> int:
        """How many files and folders are gone."""
        place, link = await self._places.use(by, ident)

        def tell(tx: Transaction, **more: object) -> None:
            _tell(tx, "file_removed", by.actor, place, path=shown(absolute(path)), **more)

        async with await self._begin(place, link, "remove", path, recursive=recursive) as act:
            try:
                count = number(await act.result(LONG), "count")
            except BaseException as error:
                if recursive and not isinstance(error, NotFound):
                    await self._half_done(by, tell, error)
                raise
        await self._database.write(lambda tx: tell(tx, count=count), by.actor)
        return count

    async def dial(self, by: Principal, ident: str, port: int) -> Act:
        """A connection to a port inside, once there is one."""
        place, link = await self._places.use(by, ident)
        act = await self._act(place, link, "dial", f"port {port}", stdin=True, port=port)
        act.patience = None
        await _begun(act)
        try:
            await self._database.write(lambda tx: _tell(tx, "port_dialled", by.actor, place, port=port), by.actor)
        except BaseException:
            act.close()
            raise
        return act

    async def _half_done(self, by: Principal, tell: Callable[..., None], error: BaseException) -> None:
        why = error.message if isinstance(error, RingfenceError) else "whoever sent it went away"
        await asyncio.shield(self._database.write(lambda tx: tell(tx, error=why), by.actor))

    # Acts -----------------------------------------------------------------------------------------------------------

    async def _begin(
        self, place: Place, link: Link, name: str, path: bytes, *, stdin: bool = False, **arguments: Any
    ) -> Act:
        whole = absolute(path)
        return await self._act(place, link, name, shown(whole), stdin=stdin, path=whole, **arguments)

    async def _act(self, place: Place, link: Link, name: str, what: str, *, stdin: bool, **arguments: Any) -> Act:
        if self._open[place.id] >= AT_ONCE:
            raise Unavailable(
                f"{AT_ONCE} files and ports of this sandbox are in use at once: let some of that end first",
                code="too_many_transfers",
            )
        self._open[place.id] += 1
        try:
            session = await link.start(Start(id=os.urandom(16), act=name, arguments=arguments, stdin=stdin))
        except BaseException:
            self._closed(place.id)
            raise
        return Act(session, what, place.id, lambda: self._closed(place.id))

    def _closed(self, sandbox: str) -> None:
        self._open[sandbox] -= 1
        if not self._open[sandbox]:
            del self._open[sandbox]

    async def _table(self, place: Place, link: Link, name: bytes) -> bytes:
        async with await self._begin(place, link, "read", name, length=TABLE) as act:
            try:
                return b"".join([piece async for piece in act.pieces()])
            except NotFound:  # without IPv6
                return b""


async def _answering(act: Act) -> Act:
    try:
        await act.answering()
    except BaseException:
        act.close()
        raise
    return act


async def _begun(act: Act) -> Act:
    try:
        await act.begun()
    except BaseException:
        act.close()
        raise
    return act


def _tell(tx: Transaction, kind: str, by: Actor, place: Place, **told: object) -> None:
    more = {"sandbox": place.id, **told}
    tx.record(kind, by, more, project=place.project, agent=place.agent, subject=place.id)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
