"""What has to be done again and again: each chore is a use case with an interval, run by one task."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ringfence.kernel.database import Database, Transaction
from ringfence.kernel.errors import Unavailable

log = logging.getLogger("ringfence.housekeeping")


@dataclass(slots=True)
class Chore:
    name: str
    every: float
    do: Callable[[Transaction], object]
    due: float = 0.0


class Housekeeping:
    """`stopped_for` is told when the chores did not run for a while (a suspended machine, a stopped process)."""

    def __init__(self, database: Database, chores: list[Chore], woke: Callable[[], None]) -> None:
        self._database = database
        self._chores = chores
        self._woke = woke
        self._task: asyncio.Task[None] | None = None
        self.failures = 0

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name="housekeeping")

    async def close(self) -> None:
        """Every chore once more: some write down what was gathered in memory."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            for chore in self._chores:
                await self._do(chore)

    async def _run(self) -> None:
        shortest = min(chore.every for chore in self._chores)
        clock = self._database.clock
        last = clock.now()
        for chore in self._chores:
            chore.due = last / 1e6 + chore.every
        while True:
            await asyncio.sleep(shortest)
            now = clock.now()
            if now - last > (shortest * 3 + 10) * 1e6:
                self._woke()
            last = now
            for chore in self._chores:
                if now / 1e6 >= chore.due:
                    await self._do(chore)
                    chore.due = now / 1e6 + chore.every

    async def _do(self, chore: Chore) -> None:
        try:
            await self._database.write(chore.do)
        except Unavailable as error:
            self.failures += 1
            log.warning("chore %s must wait: %s", chore.name, error.message)
        except Exception:
            self.failures += 1
            log.exception("chore %s failed", chore.name)
