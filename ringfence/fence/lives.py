"""The lives of sandboxes: what was asked for is done here, and what happens to them is noticed here.

Each living sandbox has an owner: a lock, so that one thing at a time is done to it, and a task that waits for the end
of its warden. An action runs in a task of its own: a caller who goes away does not leave it half done.

When the server comes back, it makes the world and the database one again, while it serves already:

    wanted              row         found                  done
    destroyed           any         any                    destroyed
    any                 creating    any                    made anew
    stopped             runs        any                    stopped
    running, paused     runs        the life of the row    adopted: its link is listened on again
    running, paused     runs        another life, or none  lost, what is left is ended
    any                 does not    a life                 ended
    running             stopped     nothing that runs      started (it was asked for, or it had crashed)
    paused              runs        the life of the row    paused or resumed, as its agent is
    no row                          anything               removed
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ringfence.fence.keys import Keys
from ringfence.fence.link.model import Channel, Exit, Ledger, Link, Links, Whom
from ringfence.fence.model import (
    OWN_IMAGE,
    Action,
    Cause,
    ImportedImage,
    Life,
    Sandbox,
    Snapshot,
    State,
    Stats,
    Wanted,
    crash_delay,
)
from ringfence.fence.runtimes.model import Runtime, Unsupported
from ringfence.fence.service import Fence, Offer
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Database
from ringfence.kernel.errors import Conflict, NotFound, RingfenceError, Unavailable
from ringfence.kernel.events.model import SYSTEM, Actor, Event
from ringfence.kernel.ids import new
from ringfence.kernel.processes import boot_id
from ringfence.settings import Settings

T = TypeVar("T")

GREETING = 10.0  # seconds a warden has to dial home
AT_ONCE = 8  # sandboxes reconciled side by side
WAITING = 30.0  # seconds a caller waits for the reconciliation
UNOWNED = 2.0  # seconds after which a new sandbox is seen to by whoever made it
LOOK_AGAIN = 30.0  # seconds between two looks for what was asked for and not done
CLOSING = 10.0
_SIGTERM = 15
_RUNS = (State.RUNNING, State.PAUSED)

log = logging.getLogger("ringfence.fence")


@dataclass(slots=True)
class Owner:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    watch: "asyncio.Task[None] | None" = None
    link: Link | None = None
    kills: int = 0  # at the limit of memory, that are told already
    looking: bool = False  # whether there are more


Doing = Callable[[Owner], Awaitable[T]]


class Unkept:
    """A ledger that keeps nothing: what a warden comes back with is nobody's, and is ended."""

    def greeted(self, sandbox: str, held: frozenset[bytes]) -> None: ...

    def stored(self, session: bytes) -> tuple[int, int] | None:
        return None

    def keep(self, session: bytes, channel: Channel, data: memoryview) -> int:
        raise AssertionError("no session was known")

    def ended(self, session: bytes, exit: Exit, forget: Callable[[], None]) -> None:
        forget()


class Lives:
    def __init__(
        self,
        settings: Settings,
        database: Database,
        fence: Fence,
        links: Links,
        ledger: Ledger,
        make_runtime: Callable[[], Runtime],  # `Unavailable` where there can be none
    ) -> None:
        self._grace = settings.sandbox_grace
        self._database = database
        self._fence = fence
        self._make_runtime = make_runtime
        self._runtime: Runtime | None = None
        self._links = links
        self._ledger = ledger
        self._keys = Keys(settings.data)
        self._owners: dict[str, Owner] = {}
        self._most_image = settings.max_image
        self._importing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opened = asyncio.Event()
        self._reconciled = asyncio.Event()
        self._closing = False
        fence.is_busy = self._is_busy

    # Opening and closing --------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin; the server need not wait for it."""
        self._fence.node = self._keys.node()
        self._spawn(self._begin(), "fence")

    async def _begin(self) -> None:
        try:
            runtime = await asyncio.to_thread(self._make_runtime)
            await runtime.open()
            self._runtime = runtime
            self._fence.offer = Offer(runtime.name, runtime.capabilities())
            self._opened.set()
            await self._forget_images()
            await self._reconcile()
        except (RingfenceError, OSError) as error:
            self._fence.without = str(error)
            log.warning("no sandboxes can run here: %s", error)
            return
        finally:
            self._opened.set()
            self._reconciled.set()
        self._spawn(self._look_again(), "fence look again")

    async def close(self) -> None:
        """Let go: sandboxes go on. What is under way may still finish."""
        self._closing = True
        for task in self._tasks:
            if task.get_name().startswith("fence"):
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSING)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._links.close()
        if self._runtime is not None:
            await self._runtime.close()

    def _spawn(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, RingfenceError):
            log.error("%s failed", task.get_name(), exc_info=error)

    async def ready(self) -> None:
        """Wait until sandboxes can be made, or it is known why not."""
        await self._awaited(self._opened)

    async def _awaited(self, event: asyncio.Event) -> None:
        try:
            await asyncio.wait_for(event.wait(), WAITING)
        except TimeoutError:
            raise Unavailable("this server still looks at which sandboxes run: repeat in a moment") from None

    # What callers ask -----------------------------------------------------------------------------------------------

    async def act(self, by: Principal, ident: str, action: Action, grace: float = 0.0) -> Sandbox:
        """Do it; the sandbox afterwards. `grace`: seconds programs have to end by themselves."""
        await self._awaited(self._reconciled)
        found = await self._database.read(lambda tx: self._fence.find(tx, by, ident))

        async def doing(owner: Owner) -> Sandbox:
            sandbox, needed = await self._database.write(lambda tx: self._fence.ask(tx, by, found.id, action), by.actor)
            return await self._do(owner, sandbox, action, by.actor, grace) if needed else sandbox

        return await self._owned(found.id, doing)

    async def settled(self, sandbox_id: str, by: Actor = SYSTEM) -> Sandbox:
        """What is wanted of it is done; the sandbox afterwards."""
        return await self._owned(sandbox_id, lambda owner: self._settle(owner, sandbox_id, by))

    async def begun(self, sandbox_id: str, by: Actor) -> Sandbox:
        """A new sandbox, once it runs; the error where it could not be started."""
        sandbox = await self.settled(sandbox_id, by)
        if sandbox.state is State.FAILED:
            raise _not_started(sandbox, sandbox.error, None)
        return sandbox

    def settle(self, sandbox_id: str, by: Actor = SYSTEM) -> None:
        """The same, without waiting."""
        self._spawn(self.settled(sandbox_id, by), f"settle {sandbox_id}")

    def observe(self, events: list[Event]) -> None:
        """What the sweeps and other rooms want of sandboxes, they write down; the events lead here."""
        for event in events:
            if event.kind == "exec_ended" and event.payload.get("code") and not self._closing:
                self._look_for_kills(event.payload["sandbox"])
            mine = event.kind in _TO_SETTLE and event.payload.get("node") == self._fence.node
            if not mine or event.subject is None or self._closing:
                continue
            if event.kind == "sandbox_created":  # whoever asked sees to it, unless they went away
                asyncio.get_running_loop().call_later(UNOWNED, self._settle_unowned, event.subject)
            else:
                self.settle(event.subject)

    def _look_for_kills(self, sandbox_id: str) -> None:
        """A program failed: perhaps at the limit of memory. Only the kernel knows, and it counts."""
        owner = self._owners.get(sandbox_id)
        if owner is not None and owner.watch is not None and not owner.looking:
            owner.looking = True
            self._spawn(self._count_kills(owner, sandbox_id), f"kills in {sandbox_id}")

    async def _count_kills(self, owner: Owner, sandbox_id: str) -> None:
        try:
            kills = (await self._living_runtime().stats(sandbox_id)).memory_kills or 0
        except RingfenceError:  # it ended meanwhile, and that has a cause of its own
            return
        finally:
            owner.looking = False
        before, owner.kills = owner.kills if kills >= owner.kills else 0, kills
        if kills > before:
            await self._database.write(lambda tx: self._fence.reached(tx, sandbox_id, kills - before))

    def _settle_unowned(self, sandbox_id: str) -> None:
        if sandbox_id not in self._owners and not self._closing:
            self.settle(sandbox_id)

    async def link(self, sandbox: Sandbox) -> Link:
        """The link to a running sandbox."""
        owner = self._owners.get(sandbox.id)
        if owner is not None and owner.link is not None:
            return owner.link
        await self._awaited(self._reconciled)
        return await self._links.link(sandbox.id, GREETING)

    def link_folder(self, sandbox: Sandbox) -> Path:
        """The host's folder that it sees as /run/ringfence, and cannot write."""
        return self._living_runtime().link_folder(sandbox.id)

    async def runtime(self) -> tuple[Runtime | None, str]:
        """What sandboxes run by here, once that is known; where there is none, why."""
        await self.ready()
        return self._runtime, "" if self._runtime is not None else self._fence.without

    def touch(self, sandbox_id: str) -> None:
        """Something runs in it: it is not idle."""
        self._fence.signs[sandbox_id] = self._database.clock.now()

    async def stats(self, sandbox: Sandbox) -> Stats:
        return await self._living_runtime().stats(sandbox.id) if sandbox.state in _RUNS else Stats()

    async def said(self, sandbox: Sandbox) -> bytes:
        return b"" if sandbox.state is State.DESTROYED else await self._living_runtime().said(sandbox.id)

    async def take_snapshot(self, by: Principal, ident: str, name: str | None) -> Snapshot:
        """The files as they are now; a running sandbox stands still meanwhile."""
        await self._awaited(self._reconciled)
        found = await self._database.read(lambda tx: self._fence.find(tx, by, ident))

        async def doing(owner: Owner) -> Snapshot:
            runtime = self._living_runtime()
            sandbox, called = await self._database.write(
                lambda tx: self._fence.check_snapshot(tx, by, found.id, name), by.actor
            )
            snapshot_id = new("snp")
            running = sandbox.state is State.RUNNING
            if running:
                await self._freeze(sandbox.id)
            try:
                size = await runtime.snapshot(sandbox.id, snapshot_id)
            finally:
                if running:
                    await self._thaw(sandbox.id)
            try:
                return await self._database.write(
                    lambda tx: self._fence.took_snapshot(tx, by, sandbox, snapshot_id, called, size), by.actor
                )
            except RingfenceError:
                await runtime.forget_snapshot(snapshot_id)
                raise

        return await self._owned(found.id, doing)

    async def remove_snapshot(self, by: Principal, ident: str) -> Snapshot:
        removed = await self._database.write(lambda tx: self._fence.remove_snapshot(tx, by, ident), by.actor)
        await self._living_runtime().forget_snapshot(removed.id)
        return removed

    # Images ---------------------------------------------------------------------------------------------------------

    async def import_image(self, by: Principal, name: str, archive: Path) -> ImportedImage:
        """The archive is the image `name` from now on."""
        await self._awaited(self._reconciled)
        return await asyncio.shield(self._spawn(self._import_image(by, name, archive), f"image {name:.64}"))

    async def _import_image(self, by: Principal, name: str, archive: Path) -> ImportedImage:
        runtime = self._living_runtime()
        async with self._importing.setdefault(name, asyncio.Lock()):
            await self._database.write(lambda tx: self._fence.check_import(tx, by, name), by.actor)
            image = await runtime.import_image(name, archive, self._most_image)
            try:
                return await self._database.write(lambda tx: self._fence.imported(tx, by, image), by.actor)
            except RingfenceError:
                await runtime.forget_image(name)
                raise

    async def remove_image(self, by: Principal, name: str) -> ImportedImage:
        async with self._importing.setdefault(name, asyncio.Lock()):
            removed = await self._database.write(lambda tx: self._fence.remove_image(tx, by, name), by.actor)
            await self._living_runtime().forget_image(name)
            return removed

    async def prune_images(self, by: Principal) -> list[ImportedImage]:
        """Remove those that nothing is made of."""
        removed = []
        for name in await self._database.read(self._fence.unused_images):
            with contextlib.suppress(Conflict, NotFound):  # meanwhile something is, or somebody was faster
                removed.append(await self.remove_image(by, name))
        return removed

    async def _forget_images(self) -> None:
        """Those whose import was not written down."""
        runtime = self._living_runtime()
        known = await self._database.read(self._fence.image_names)
        for name in runtime.images():
            if name != OWN_IMAGE and name not in known:
                await runtime.forget_image(name)

    # One thing at a time --------------------------------------------------------------------------------------------

    async def _owned(self, sandbox_id: str, doing: Doing[T]) -> T:
        owner = self._owners.setdefault(sandbox_id, Owner())

        async def do() -> T:
            async with owner.lock:
                return await doing(owner)

        if self._closing:
            raise Unavailable("the server is stopping")
        return await asyncio.shield(self._spawn(do(), f"sandbox {sandbox_id}"))

    async def _do(self, owner: Owner, sandbox: Sandbox, action: Action, by: Actor, grace: float) -> Sandbox:
        match action:
            case Action.START:
                return await self._start(owner, sandbox, by)
            case Action.STOP:
                return await self._stop(owner, sandbox, by, grace)
            case Action.RESTART:
                if sandbox.state in _RUNS:
                    sandbox = await self._stop(owner, sandbox, by, grace)
                return await self._start(owner, sandbox, by)
            case Action.PAUSE:
                return await self._pause(sandbox, by)
            case Action.RESUME:
                return await self._resume(sandbox, by)
            case Action.RECREATE:
                await self._clear(owner, sandbox.id)
                return await self._start(owner, sandbox, by)
            case Action.DESTROY:
                return await self._destroy(owner, sandbox, by)
        raise AssertionError(action)

    async def _settle(self, owner: Owner, sandbox_id: str, by: Actor) -> Sandbox:
        sandbox = await self._database.read(lambda tx: self._fence.again(tx, sandbox_id, held=False))
        if sandbox.state is State.DESTROYED or sandbox.node != self._fence.node:
            return sandbox
        if sandbox.wanted is Wanted.DESTROYED:
            return await self._destroy(owner, sandbox, by)
        if sandbox.wanted is Wanted.STOPPED and sandbox.state in _RUNS:
            return await self._stop(owner, sandbox, by, self._grace)
        if sandbox.wanted is not Wanted.STOPPED and sandbox.state in (State.CREATING, State.STOPPED):
            sandbox = await self._start(owner, sandbox, by)
        return await self._still_or_not(sandbox, by) if sandbox.wanted is Wanted.PAUSED else sandbox

    # Starting -------------------------------------------------------------------------------------------------------

    async def _start(self, owner: Owner, sandbox: Sandbox, by: Actor) -> Sandbox:
        runtime = self._living_runtime()
        again = by == SYSTEM and sandbox.cause not in (None, Cause.STOPPED)
        try:
            enforced = await runtime.create(sandbox.blueprint()) if sandbox.state is State.CREATING else None
            life, ended = await self._launch(runtime, owner, sandbox)
            began = await self._database.write(
                lambda tx: self._fence.began(tx, by, sandbox.id, life, enforced, again=again), by
            )
        except Exception as error:
            reason = error.message if isinstance(error, RingfenceError) else f"{type(error).__name__}: {error}"
            if not isinstance(error, RingfenceError | OSError):
                log.exception("sandbox %s could not be started", sandbox.id)
            await self._end(owner, sandbox.id)
            await self._database.write(lambda tx: self._fence.failed(tx, by, sandbox.id, reason), by)
            raise _not_started(sandbox, reason, error) from error
        self._watched(owner, sandbox.id, life, ended)
        return began

    async def _launch(self, runtime: Runtime, owner: Owner, sandbox: Sandbox) -> "tuple[Life, asyncio.Task[Cause]]":
        """Its warden runs, and has greeted."""
        key = self._keys.make(sandbox.id)
        await self._links.listen(sandbox.id, runtime.link_folder(sandbox.id), key, self._ledger)
        life = await runtime.start(sandbox.blueprint(), key)
        greeting = asyncio.create_task(self._links.link(sandbox.id, GREETING), name=f"greeting {sandbox.id}")
        ended = asyncio.create_task(runtime.ended(sandbox.id, life), name=f"life {sandbox.id}")
        try:
            await asyncio.wait({greeting, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not greeting.done():
                said = (await runtime.said(sandbox.id)).decode("utf-8", "replace").strip()
                raise Unavailable(f"its warden ended before it greeted ({ended.result()}): {said[-500:] or 'no word'}")
            owner.link = await greeting
        except BaseException:
            greeting.cancel()
            ended.cancel()
            raise
        return life, ended

    # Ending ---------------------------------------------------------------------------------------------------------

    def _watched(self, owner: Owner, sandbox_id: str, life: Life, ended: "asyncio.Task[Cause]") -> None:
        owner.watch = self._spawn(self._watch(owner, sandbox_id, life, ended), f"fence watch {sandbox_id}")

    async def _watch(self, owner: Owner, sandbox_id: str, life: Life, ended: "asyncio.Task[Cause]") -> None:
        """Wait for the end of this life; one that nobody asked for is a crash."""
        cause = await ended

        async def doing(owner: Owner) -> Sandbox | None:
            now = await self._database.read(lambda tx: self._fence.again(tx, sandbox_id, held=False))
            if now.life != life or now.state not in _RUNS:
                return None
            owner.watch = None
            await self._end(owner, sandbox_id)
            why = Cause.DIED if cause is Cause.STOPPED else cause
            return await self._database.write(lambda tx: self._fence.crashed(tx, sandbox_id, why))

        crashed = await self._owned(sandbox_id, doing)
        if crashed is not None and crashed.wanted is Wanted.RUNNING and crashed.state is State.STOPPED:
            await asyncio.sleep(crash_delay(crashed.crashes))
            await self._owned(sandbox_id, lambda owner: self._settle(owner, sandbox_id, SYSTEM))

    async def _stop(self, owner: Owner, sandbox: Sandbox, by: Actor, grace: float) -> Sandbox:
        if sandbox.state is State.RUNNING and grace > 0 and owner.link is not None:
            await _ask_to_end(owner.link, grace)
        await self._living_runtime().stop(sandbox.id)
        await self._let_go(owner, sandbox.id)
        return await self._database.write(lambda tx: self._fence.ended(tx, by, sandbox.id), by)

    async def _destroy(self, owner: Owner, sandbox: Sandbox, by: Actor) -> Sandbox:
        await self._clear(owner, sandbox.id)
        self._keys.drop(sandbox.id)
        destroyed = await self._database.write(lambda tx: self._fence.destroyed(tx, by, sandbox.id), by)
        self._owners.pop(sandbox.id, None)
        return destroyed

    async def _end(self, owner: Owner, sandbox_id: str) -> None:
        """Whatever is left of its life."""
        await self._let_go(owner, sandbox_id)
        await self._living_runtime().stop(sandbox_id)

    async def _clear(self, owner: Owner, sandbox_id: str) -> None:
        """Nothing of it is left on this host."""
        await self._let_go(owner, sandbox_id)
        await self._living_runtime().destroy(sandbox_id)

    async def _let_go(self, owner: Owner, sandbox_id: str) -> None:
        owner.link = None
        if owner.watch is not None:
            owner.watch.cancel()
            owner.watch = None
        await self._links.forget(sandbox_id)

    # Standing still -------------------------------------------------------------------------------------------------

    async def _pause(self, sandbox: Sandbox, by: Actor) -> Sandbox:
        runtime = self._living_runtime()
        if not runtime.capabilities().pause:
            raise Unsupported(f"the runtime {runtime.name!r} cannot pause a sandbox on this host: stop it instead")
        await self._freeze(sandbox.id)
        return await self._database.write(lambda tx: self._fence.froze(tx, by, sandbox.id), by)

    async def _resume(self, sandbox: Sandbox, by: Actor) -> Sandbox:
        await self._thaw(sandbox.id)
        return await self._database.write(lambda tx: self._fence.thawed(tx, by, sandbox.id), by)

    async def _still_or_not(self, sandbox: Sandbox, by: Actor) -> Sandbox:
        """It stands still as long as its agent does."""
        frozen = await self._database.read(lambda tx: self._fence.is_frozen(tx, sandbox.agent or ""))
        if frozen and sandbox.state is State.RUNNING:
            return await self._pause(sandbox, by)
        if not frozen and sandbox.state is State.PAUSED:
            return await self._resume(sandbox, by)
        return sandbox

    async def _freeze(self, sandbox_id: str) -> None:
        self._links.suspend(sandbox_id)
        try:
            await self._living_runtime().pause(sandbox_id)
        except BaseException:
            self._links.resume(sandbox_id)
            raise

    async def _thaw(self, sandbox_id: str) -> None:
        await self._living_runtime().resume(sandbox_id)
        self._links.resume(sandbox_id)

    # Coming back ----------------------------------------------------------------------------------------------------

    async def _reconcile(self) -> None:
        runtime = self._living_runtime()
        clock = self._database.clock
        began, figures, turns = clock.now(), Counter[str](), asyncio.Semaphore(AT_ONCE)
        found = await runtime.find_all()  # before the rows: what is not in them now, nobody is about to make
        rows = await self._database.read(self._fence.living)
        known = {row.id for row in rows}

        async def one(sandbox_id: str, doing: Doing[str]) -> None:
            async with turns:
                try:
                    figures[await self._owned(sandbox_id, doing)] += 1
                except Exception as error:
                    figures["failed"] += 1
                    log.warning("sandbox %s could not be reconciled: %s", sandbox_id, error)

        await asyncio.gather(
            *(one(row.id, lambda owner, row=row: self._reconcile_one(owner, row.id)) for row in rows),  # type: ignore[misc]
            *(one(each.id, lambda owner, it=each.id: self._sweep(owner, it)) for each in found if each.id not in known),  # type: ignore[misc]
        )
        self._keys.prune(known | self._owners.keys())
        figures.pop("nothing", None)
        if figures:
            took = (clock.now() - began) // 1000
            await self._database.write(lambda tx: self._fence.reconciled(tx, {**figures, "took_ms": took}))

    async def _reconcile_one(self, owner: Owner, sandbox_id: str) -> str:
        """What was done with it."""
        if owner.watch is not None:  # it was made since this server started
            return "nothing"
        runtime = self._living_runtime()
        row = await self._database.read(lambda tx: self._fence.again(tx, sandbox_id, held=False))
        found = await runtime.found(sandbox_id)
        life = None if found is None else found.life
        runs = row.state in _RUNS
        if row.state is State.DESTROYED:
            return "nothing"
        if row.wanted is Wanted.DESTROYED:
            await self._destroy(owner, row, SYSTEM)
            return "destroyed"
        if row.state is State.CREATING:
            await self._clear(owner, sandbox_id)
            await self._start(owner, row, SYSTEM)
            return "created"
        if runs and row.wanted is Wanted.STOPPED:
            await self._stop(owner, row, SYSTEM, 0)
            return "stopped"
        if runs and life is not None and life == row.life and (key := self._keys.find(sandbox_id)) is not None:
            assert found is not None
            await self._adopt(owner, row, key, paused=found.paused)
            if row.wanted is Wanted.PAUSED:
                await self._still_or_not(row, SYSTEM)
            return "adopted"
        if life is not None or runs:
            await self._end(owner, sandbox_id)
        if runs:
            await self._database.write(lambda tx: self._fence.lost(tx, sandbox_id, _why_lost(row)))
            return "lost"
        if row.state is State.STOPPED and row.wanted is Wanted.RUNNING:
            await self._start(owner, row, SYSTEM)
            return "started"
        return "nothing" if life is None else "ended"

    async def _adopt(self, owner: Owner, row: Sandbox, key: bytes, *, paused: bool) -> None:
        """It goes on under this server. Pausing and resuming that were not written down did not happen."""
        runtime = self._living_runtime()
        assert row.life is not None
        await self._links.listen(row.id, runtime.link_folder(row.id), key, self._ledger)
        if row.state is State.PAUSED:
            self._links.suspend(row.id)
            if not paused:
                await runtime.pause(row.id)
        elif paused:
            await runtime.resume(row.id)
        ended = asyncio.create_task(runtime.ended(row.id, row.life), name=f"life {row.id}")
        self._watched(owner, row.id, row.life, ended)
        if row.state is State.RUNNING:
            self.touch(row.id)
            self._spawn(self._greet_again(owner, row.id), f"fence greeting {row.id}")

    async def _greet_again(self, owner: Owner, sandbox_id: str) -> None:
        link = await self._links.link(sandbox_id, GREETING)
        if owner.watch is not None:
            owner.link = link

    async def _sweep(self, owner: Owner, orphan: str) -> str:
        await self._clear(owner, orphan)
        self._owners.pop(orphan, None)
        return "orphans"

    async def _look_again(self) -> None:
        """A look, now and then, for what was asked for and could not be done at once."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                rows = await self._database.read(self._fence.living)
            except RingfenceError as error:
                log.warning("which sandboxes wait for something is not known: %s", error)
                continue
            for row in rows:
                if _is_due(row) and not self._owners.setdefault(row.id, Owner()).lock.locked():
                    self.settle(row.id)

    # Inside ---------------------------------------------------------------------------------------------------------

    def _is_busy(self, sandbox_id: str) -> bool:
        """Whether a program runs in it. Also asked on the database's thread: it only looks."""
        owner = self._owners.get(sandbox_id)
        link = None if owner is None else owner.link
        return link is not None and bool(link.sessions())

    def _living_runtime(self) -> Runtime:
        if self._runtime is None:
            raise Unavailable(f"no sandboxes can run here now: {self._fence.without}", code="no_runtime")
        return self._runtime


_TO_SETTLE = {
    "sandbox_created", "sandbox_expired", "sandbox_idle", "sandbox_halted", "sandbox_freezing", "sandbox_thawing",
}  # fmt: skip


async def _ask_to_end(link: Link, grace: float) -> None:
    """SIGTERM to everything, and the time to obey."""
    sessions = link.sessions()
    for session in sessions:
        session.signal(_SIGTERM, Whom.ALL)
    exits = [asyncio.create_task(session.exit()) for session in sessions]
    if exits:
        await asyncio.wait(exits, timeout=grace)
    for waiting in exits:
        waiting.cancel()
    await asyncio.gather(*exits, return_exceptions=True)


def _not_started(sandbox: Sandbox, reason: str, error: Exception | None) -> RingfenceError:
    sentence = f"sandbox {sandbox.name!r} could not be started: {reason}"
    if isinstance(error, Unsupported):
        return Unsupported(sentence, code=error.code, sandbox=sandbox.id)
    return Conflict(
        f"{sentence}; its logs may say more; then start or recreate it",
        code="sandbox_failed", project=sandbox.project, agent=sandbox.agent, subject=sandbox.id, sandbox=sandbox.id,
    )  # fmt: skip


def _why_lost(row: Sandbox) -> str:
    if row.life is not None and row.life.boot != boot_id():
        return "this machine was restarted"
    return "its warden ended while no server ran"


def _is_due(row: Sandbox) -> bool:
    """Whether it is not yet what is wanted."""
    if row.wanted is Wanted.DESTROYED:
        return True
    if row.wanted is Wanted.STOPPED:
        return row.state in _RUNS
    if row.wanted is Wanted.PAUSED and row.state in _RUNS:
        return True  # whether its agent still is, settling it tells
    return row.state in (State.CREATING, State.STOPPED)
