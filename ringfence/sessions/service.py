"""Use cases of execs.

    start ──► START is on its way ──► row, event exec_started ─┐
                     │                                          ├─► answered
              output ──► Output     EXITED ──► row, exec_ended ─┘──► FORGET

START does not wait for the first commit; nobody is answered before it. Only where the request has a key it waits: who
sends that again must be recognised, even by a server that did not see it. The end is forgotten by the warden after the
second commit: a server that dies before that hears of it again.
"""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ringfence.fence.link.model import Channel, Exit, Link, Session, Start, Whom, Why
from ringfence.kernel import ids
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.clock import DAY
from ringfence.kernel.database import Database, Transaction
from ringfence.kernel.errors import Conflict, NotFound, RingfenceError
from ringfence.kernel.events.model import Actor, Event
from ringfence.sessions import store
from ringfence.sessions.model import LOST, Command, Exec, Place, environment, shown
from ringfence.sessions.output import Output
from ringfence.settings import Settings

READ = 256 << 10  # bytes of kept output handed on at once
PRUNED_AT_ONCE = 500
ERROR = 1024  # characters of why one could not be started
AGAIN = 10.0  # seconds until an end that could not be written is written again
LAST = "zzzz"  # above every id
# After these nothing runs in a sandbox any more.
_OVER = frozenset({"sandbox_stopped", "sandbox_crashed", "sandbox_lost", "sandbox_failed", "sandbox_destroyed"})

log = logging.getLogger("ringfence.sessions")


class Sandboxes(Protocol):
    """What the room must know of sandboxes. Both raise what there is to be said when it is not so."""

    async def find(self, by: Principal, ident: str) -> Place:
        """A sandbox that `by` may see, whatever its state."""

    async def use(self, by: Principal, ident: str) -> tuple[Place, Link]:
        """One that `by` may use, and that runs."""


class Running:
    """An exec that has not ended, or whose end is not committed."""

    def __init__(self, exec: Exec, out: Output, err: Output, session: Session | None) -> None:
        self.exec = exec
        self.outputs = {Channel.OUT: out, Channel.ERR: err}
        self.session = session
        self.adopted = False  # begun by an earlier server
        self.feeding: asyncio.Task[None] | None = None  # what hands it a long input
        self.problem: RingfenceError | None = None  # why its end could not be written down
        self.over = asyncio.Event()

    def now(self) -> Exec:
        """With how much it said so far."""
        out, err = self.outputs.values()
        return replace(self.exec, out_size=out.size, err_size=err.size, out_kept=out.kept, err_kept=err.kept)

    async def end(self) -> Exec:
        """Wait until its end is committed."""
        await self.over.wait()
        if self.problem is not None:
            raise self.problem
        return self.exec


class Execs:
    """Also the `Ledger` of the links."""

    sandboxes: Sandboxes  # set by who builds the house: the links of sandboxes need this ledger first

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._folder = settings.data / "execs"
        self._running: dict[bytes, Running] = {}
        self._asked: dict[bytes, tuple[bytes, asyncio.Task[Running | Exec]]] = {}  # by key, while it starts
        self._unwritten: list[tuple[Running, Callable[[], None]]] = []

    async def open(self) -> None:
        """Know what an earlier server left running, before any warden calls."""
        for exec in await self._database.read(lambda tx: [store.found(row) for row in tx.rows(store.OPEN)]):
            out, err = (Output.found(path) for path in self._paths(exec))
            running = self._running[ids.raw(exec.id)] = Running(exec, out, err, None)
            running.adopted = True

    # Starting -------------------------------------------------------------------------------------------------------

    async def start(
        self, by: Principal, ident: str, command: Command, key: tuple[bytes, bytes] | None = None
    ) -> Running | Exec:
        """Run it; back when it is written down that it runs. With the `key` of a request that was made before: what
        that one started, as it is now."""
        place, link = await self.sandboxes.use(by, ident)
        if key is None:
            return await self._start(by, place, link, command, None)
        asked = self._asked.get(key[0])
        if asked is None:
            starting = asyncio.ensure_future(self._once(by, place, link, command, key))
            asked = self._asked[key[0]] = key[1], starting
            starting.add_done_callback(lambda _: self._asked.pop(key[0], None))
        _same(asked[0], key[1])
        return await asyncio.shield(asked[1])

    async def _once(
        self, by: Principal, place: Place, link: Link, command: Command, key: tuple[bytes, bytes]
    ) -> Running | Exec:
        row = await self._database.read(lambda tx: tx.row(store.KEYED, key=key[0]))
        if row is None:
            return await self._start(by, place, link, command, key)
        _same(bytes(row[1]), key[1])
        running = self._running.get(ids.raw(row[0]))
        if running is not None:
            return running
        return await self._database.read(lambda tx: _exec(tx, place.id, row[0]))

    async def _start(
        self, by: Principal, place: Place, link: Link, command: Command, key: tuple[bytes, bytes] | None
    ) -> Running:
        running = self._prepared(by, place, command)
        raw, exec = ids.raw(running.exec.id), running.exec
        columns = store.columns(exec, *(key or (None, None)))
        write = partial(self._database.submit, lambda tx: _add(tx, by.actor, exec, columns), by.actor)
        if key is not None:
            await (committed := write())
        self._running[raw] = running
        try:
            session = running.session = await link.start(_start(raw, place, command), self)
        except BaseException as error:
            if key is None:
                del self._running[raw]
            else:
                self._not_begun(raw, error)
            raise
        if key is None:
            committed = write()
        if command.stdin:
            running.feeding = asyncio.ensure_future(_fed(session, command.stdin, end=not command.more_input))
        try:
            await committed
        except BaseException as error:
            if isinstance(error, RingfenceError) or not command.detached:
                session.signal(9)  # what nobody will know of, or waits for, must not run
            raise
        return running

    def _not_begun(self, raw: bytes, error: BaseException) -> None:
        """It was written down, and could not be started: the request may be made again with its key."""
        exec = self._running[raw].exec
        self._database.submit(lambda tx: tx.run(store.FORGET_KEY, id=exec.id)).add_done_callback(_noted)
        self.ended(raw, Exit(why=Why.FAILED, code=126, error=str(error)[:ERROR]), lambda: None)

    def _prepared(self, by: Principal, place: Place, command: Command) -> Running:
        exec = Exec(
            id=ids.new("exe"), sandbox=place.id, project=place.project, agent=place.agent, actor=by.actor.name,
            argv=shown(command.argv), cwd=command.cwd or place.cwd, pty=command.pty, timeout=command.timeout,
            input=command.takes_input, detached=command.detached, started_at=self._database.clock.now(),
        )  # fmt: skip
        out, err = map(Output, self._paths(exec))
        return Running(exec, out, err, None)

    # Following ------------------------------------------------------------------------------------------------------

    async def find(self, by: Principal, ident: str, exec_id: str) -> Running | Exec:
        """An exec of a sandbox that `by` may see; Running while it runs."""
        place = await self.sandboxes.find(by, ident)
        try:
            running = self._running.get(ids.raw(exec_id))
        except ValueError:
            running = None
        if running is not None and running.exec.sandbox == place.id:
            if running.exec.exit is not None:
                await running.over.wait()
            return running
        return await self._database.read(lambda tx: _exec(tx, place.id, exec_id))

    async def session(self, by: Principal, ident: str, exec_id: str) -> tuple[Running, Session]:
        """One that runs, for who may use its sandbox."""
        place, link = await self.sandboxes.use(by, ident)
        found = await self.find(by, ident, exec_id)
        if isinstance(found, Running) and found.exec.exit is None:
            session = self._session(found, link)
            if session is not None:
                return found, session
        raise Conflict(
            f"exec {exec_id!r:.40} has ended",
            code="exec_ended",
            project=place.project,
            agent=place.agent,
            subject=exec_id,
        )

    async def link(self, by: Principal, ident: str) -> Link:
        return (await self.sandboxes.use(by, ident))[1]

    def _session(self, running: Running, link: Link) -> Session | None:
        if running.session is None:
            raw = ids.raw(running.exec.id)
            running.session = next((one for one in link.sessions() if one.id == raw), None)
        return running.session

    async def page(
        self, by: Principal, ident: str, cursor: str | None, limit: int, *, running: bool
    ) -> tuple[list[Exec], str | None]:
        """Newest first."""
        place = await self.sandboxes.find(by, ident)
        query = store.page(running=running)
        rows = await self._database.read(
            lambda tx: tx.rows(query, sandbox=place.id, cursor=cursor or LAST, limit=limit)
        )
        return [self.current(store.found(row)) for row in rows], rows[-1][0] if len(rows) == limit else None

    def current(self, exec: Exec) -> Exec:
        """With how much it said, while it runs."""
        running = self._running.get(ids.raw(exec.id))
        return exec if running is None else running.now()

    async def output(self, found: Running | Exec, channel: Channel, offset: int, most: int) -> bytes:
        """What is kept from there on."""
        if isinstance(found, Running):
            return found.outputs[channel].read(offset, most)
        kept = found.out_kept if channel is Channel.OUT else found.err_kept
        most = min(most, kept - offset)
        if most <= 0:
            return b""
        query = store.OUT_DATA if channel is Channel.OUT else store.ERR_DATA
        row = await self._database.read(lambda tx: tx.row(query, id=found.id))
        if row is not None and row[0] is not None:
            return bytes(row[0])[offset : offset + most]
        file = Output.found(self._path(found, channel))
        return file.read(offset, most)

    async def follow(
        self, found: Running | Exec, link: Link | None = None
    ) -> AsyncIterator[tuple[Channel, int, bytes]]:
        """All that is kept, then what it says as it comes; an offset with each piece. Ends with it. While it runs, a
        slow reader makes it wait."""
        session = found.session if isinstance(found, Running) else None
        if session is None and isinstance(found, Running) and link is not None:
            session = self._session(found, link)
        tap = session.output() if session is not None else None
        try:
            offsets = dict.fromkeys(Channel, 0)
            ends = self._said(found)
            for channel in Channel:
                while piece := await self.output(
                    found, channel, offsets[channel], min(READ, ends[channel] - offsets[channel])
                ):
                    yield channel, offsets[channel], piece
                    offsets[channel] += len(piece)
                offsets[channel] = ends[channel]  # beyond what was kept
            if tap is not None:
                async for channel, piece in tap:
                    yield channel, offsets[channel], piece
                    offsets[channel] += len(piece)
        finally:
            if tap is not None:
                tap.close()

    def _said(self, found: Running | Exec) -> dict[Channel, int]:
        if isinstance(found, Running):
            return {channel: output.size for channel, output in found.outputs.items()}
        return {Channel.OUT: found.out_size, Channel.ERR: found.err_size}

    # Steering -------------------------------------------------------------------------------------------------------

    async def send(self, session: Session, data: bytes, offset: int | None, *, end: bool) -> int:
        """Input; how much there was in all then. With the `offset` of its first byte a repeat is recognised."""
        if offset is not None:
            there = session.input_offset
            if offset > there:
                raise Conflict(
                    f"input at {offset}, and {there} bytes were sent so far: send what is missing", code="input_gap",
                    expected=there,
                )  # fmt: skip
            data = data[there - offset :]
        if data:
            await session.send(data)
        if end:
            await session.end_input()
        return session.input_offset

    def kill(self, running: Running) -> None:
        if running.session is not None and running.exec.exit is None:
            running.session.signal(9, Whom.ALL)

    # The ledger of the links ----------------------------------------------------------------------------------------

    def greeted(self, sandbox: str, held: frozenset[bytes]) -> None:
        self._lose(sandbox, held)

    def stored(self, session: bytes) -> tuple[int, int] | None:
        running = self._running.get(session)
        if running is None or running.exec.exit is not None:
            return None
        out, err = running.outputs.values()
        return out.durable, err.durable

    def keep(self, session: bytes, channel: Channel, data: memoryview) -> int:
        return self._running[session].outputs[channel].append(data)

    def ended(self, session: bytes, exit: Exit, forget: Callable[[], None]) -> None:
        running = self._running.get(session)
        if running is None:
            forget()
            return
        ended_at = max(self._database.clock.now(), running.exec.started_at)
        running.exec = replace(running.now(), ended_at=ended_at, exit=exit)
        if running.feeding is not None:
            running.feeding.cancel()
        self._write_end(running, forget)

    def _write_end(self, running: Running, forget: Callable[[], None]) -> None:
        exec = running.exec
        out, err = running.outputs.values()
        columns = store.ending(exec, out.at_hand(), err.at_hand())

        def written(answer: "asyncio.Future[None]") -> None:
            if answer.cancelled():
                return
            if (error := answer.exception()) is None:
                self._running.pop(ids.raw(exec.id), None)
                forget()
            else:
                if not isinstance(error, RingfenceError):
                    log.error("the end of exec %s was not written", exec.id, exc_info=error)
                    error = RingfenceError("the end of this exec could not be written down; the server's log says why")
                running.problem = error
                if not self._unwritten:
                    asyncio.get_running_loop().call_later(AGAIN, self._write_again)
                self._unwritten.append((running, forget))
            running.over.set()

        try:
            answer = self._database.submit(lambda tx: _end(tx, exec, columns))
        except RingfenceError as error:  # the server stops: the warden tells the next one
            running.problem = error
            running.over.set()
            return
        answer.add_done_callback(written)

    def _lose(self, sandbox: str, held: frozenset[bytes] = frozenset()) -> None:
        """What an earlier server began there, and nobody has any more."""
        for raw, running in list(self._running.items()):
            if running.adopted and running.exec.sandbox == sandbox and raw not in held and running.exec.exit is None:
                self.ended(raw, LOST, lambda: None)

    # Chores ---------------------------------------------------------------------------------------------------------

    def observe(self, events: list[Event]) -> None:
        """What happens to sandboxes, on the loop, as it is committed."""
        for event in events:
            if event.kind not in _OVER or event.subject is None:
                continue
            sandbox = event.subject
            self._lose(sandbox)
            if event.kind == "sandbox_destroyed":
                self._database.submit(partial(self._forget_outputs, sandbox=sandbox)).add_done_callback(_noted)

    def _write_again(self) -> None:
        """Ends that could not be written when they came."""
        waiting, self._unwritten = self._unwritten, []
        for running, forget in waiting:
            self._write_end(running, forget)

    def prune(self, tx: Transaction) -> None:
        """What ended long ago, and its output."""
        rows = tx.rows(
            store.REMOVE_OLD, before=tx.now - int(self._settings.keep_execs_days * DAY), limit=PRUNED_AT_ONCE
        )
        for sandbox, exec_id in rows:
            for ending in ("out", "err"):
                (self._folder / sandbox / f"{exec_id}.{ending}").unlink(missing_ok=True)

    def _forget_outputs(self, tx: Transaction, sandbox: str) -> None:
        """Its sandbox is destroyed."""
        tx.run(store.FORGET_OUTPUT, where=sandbox)
        shutil.rmtree(self._folder / sandbox, ignore_errors=True)

    def _paths(self, exec: Exec) -> tuple[Path, Path]:
        return self._path(exec, Channel.OUT), self._path(exec, Channel.ERR)

    def _path(self, exec: Exec, channel: Channel) -> Path:
        return self._folder / exec.sandbox / f"{exec.id}.{'out' if channel is Channel.OUT else 'err'}"


async def _fed(session: Session, data: bytes, *, end: bool) -> None:
    with contextlib.suppress(RingfenceError):  # it ended, or its sandbox did
        if data:
            await session.send(data)
        if end:
            await session.end_input()


def _noted(answer: "asyncio.Future[Any]") -> None:
    if not answer.cancelled() and (error := answer.exception()) is not None:
        log.warning("what became of execs was not all written down: %s", error)


def _start(raw: bytes, place: Place, command: Command) -> Start:
    return Start(
        id=raw, argv=command.argv, env=environment(place, command), cwd=(command.cwd or place.cwd).encode(),
        pty=command.pty, stdin=command.takes_input, timeout=command.timeout,
    )  # fmt: skip


def _same(known: bytes, request: bytes) -> None:
    if known != request:
        raise Conflict(
            "this Idempotency-Key was used for another request: use a new one", code="idempotency_key_reused"
        )


def _add(tx: Transaction, by: Actor, exec: Exec, columns: dict[str, object]) -> None:
    tx.run(store.ADD, **columns)
    told = {
        "exec": exec.id, "sandbox": exec.sandbox, "argv": list(exec.argv), "cwd": exec.cwd,
        "terminal": exec.pty is not None, "timeout": exec.timeout, "detached": exec.detached,
    }  # fmt: skip
    tx.record("exec_started", by, told, project=exec.project, agent=exec.agent, subject=exec.id)


def _end(tx: Transaction, exec: Exec, columns: dict[str, object]) -> None:
    if not tx.run(store.END, **columns):  # its start was not committed, or its end was already
        return
    exit = exec.exit
    assert exit is not None
    told = {
        "exec": exec.id, "sandbox": exec.sandbox, "cause": exit.why.value, "code": exit.code, "signal": exit.signal,
        "stdout_bytes": exec.out_size, "stderr_bytes": exec.err_size,
    }  # fmt: skip
    tx.record("exec_ended", Actor(exec.actor), told, project=exec.project, agent=exec.agent, subject=exec.id)


def _exec(tx: Transaction, sandbox: str, exec_id: str) -> Exec:
    row = tx.row(store.EXEC, id=exec_id)
    found = None if row is None else store.found(row)
    if found is None or found.sandbox != sandbox:
        raise NotFound(f"there is no exec {exec_id!r:.80} in this sandbox")
    return found
