"""Which sandbox, and whether this principal may use it, from what the fence says; remembered until an event tells of a
change, so that a command costs no look at the database."""

from collections.abc import Awaitable, Callable

from ringfence.fence.link.model import Link
from ringfence.fence.model import Action, Sandbox, User, is_needed
from ringfence.fence.service import Fence
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Database, Transaction
from ringfence.kernel.events.model import Event
from ringfence.sessions.model import Place

REMEMBERED = 4096


class FencePlaces:
    """The `Sandboxes` of the room, over the fence."""

    def __init__(
        self,
        database: Database,
        fence: Fence,
        link: Callable[[Sandbox], Awaitable[Link]],
        touch: Callable[[str], None],
        may_run: Callable[[Transaction, str], None],
    ) -> None:
        self._database = database
        self._fence = fence
        self._link = link
        self._touch = touch
        self._may_run = may_run  # refuses an agent that is halted
        self._known: dict[str, Sandbox] = {}  # by id, and by name
        self._changes = 0

    async def find(self, by: Principal, ident: str) -> Place:
        return _place(await self._find(by, ident))

    async def use(self, by: Principal, ident: str) -> tuple[Place, Link]:
        sandbox = await self._find(by, ident)
        if by.is_agent:
            await self._database.read(lambda tx: self._may_run(tx, by.name))
        self._fence.check_use(by, sandbox)
        return await self._reach(sandbox)

    async def look(self, by: Principal, ident: str) -> tuple[Place, Link]:
        """One that `by` may see, and that runs."""
        sandbox = await self._find(by, ident)
        is_needed(Action.USE, sandbox)
        return await self._reach(sandbox)

    async def _reach(self, sandbox: Sandbox) -> tuple[Place, Link]:
        self._touch(sandbox.id)
        return _place(sandbox), await self._link(sandbox)

    def observe(self, events: list[Event]) -> None:
        for event in events:
            if event.kind.startswith("sandbox_"):
                self._changes += 1
                if self._known:
                    stale = [ident for ident, known in self._known.items() if known.id == event.subject]
                    for ident in stale:
                        del self._known[ident]

    async def _find(self, by: Principal, ident: str) -> Sandbox:
        known = self._known.get(ident)
        if known is not None and self._fence.may_see(by, known):
            return known
        before = self._changes
        found = await self._database.read(lambda tx: self._fence.find(tx, by, ident))
        if before == self._changes:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[ident] = found
        return found


def _place(sandbox: Sandbox) -> Place:
    root = sandbox.user is User.ROOT
    return Place(
        id=sandbox.id, project=sandbox.project, agent=sandbox.agent, env=sandbox.env,
        home="/root" if root else "/home/agent", user="root" if root else "agent", cwd=sandbox.workdir or "/workspace",
    )  # fmt: skip
