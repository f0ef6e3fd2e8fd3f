"""Who is still there. A sign of life is any call an agent makes with its token; its row has the newest one.

The sweep writes down the signs this server heard, then judges by the rows, so that several servers on one database
agree. It judges nobody by a time when nobody was listening: after a start, after the machine slept, or when the sweep
itself could not run, silence counts from then on.
"""

from ringfence.crew import store
from ringfence.crew.service import Crew
from ringfence.kernel.database import Query, Transaction
from ringfence.kernel.events.model import SYSTEM
from ringfence.settings import Settings


class Liveness:
    def __init__(self, settings: Settings, crew: Crew) -> None:
        self._crew = crew
        self._stale_after = int(settings.stale_after * 1e6)
        self._offline_after = int(settings.heartbeat_timeout * 1e6)
        self._listening_since: int | None = None
        self._swept = 0

    def woke(self) -> None:
        """This server did not run for a while."""
        self._listening_since = None

    def sweep(self, tx: Transaction) -> None:
        if self._listening_since is None or tx.now - self._swept > self._stale_after:
            self._listening_since = tx.now
        self._swept = tx.now
        self._write_down(tx)
        listened = tx.now - self._listening_since
        if listened > self._stale_after:
            self._mark_stale(tx, tx.now - self._stale_after)
        if listened > self._offline_after:
            self._mark_offline(tx, tx.now - self._offline_after)

    def _write_down(self, tx: Transaction) -> None:
        """Signs are kept for as long as they matter, so that one whose writing failed is written by a later sweep."""
        tx.run(store.NOT_IN_FUTURE, at=tx.now)
        signs = dict(self._crew.signs)  # a copy: the loop adds to it meanwhile
        for name in [name for name, at in signs.items() if tx.now - at > self._offline_after]:
            del signs[name]
            self._crew.signs.pop(name, None)
        if signs:
            tx.run_many(store.SEEN, [{"who": name, "at": at} for name, at in sorted(signs.items())])
        for (name,) in tx.rows(store.AWAY):
            if tx.now - signs.get(name, 0) <= self._stale_after:
                self._crew.back(tx, SYSTEM, name)

    def _mark_stale(self, tx: Transaction, before: int) -> None:
        for name, silent_for in self._silent(tx, store.SILENT, before):
            if tx.run(store.MARK_STALE, who=name, before=before, at=tx.now):
                told = {"name": name, "silent_seconds": silent_for}
                tx.record("agent_stale", SYSTEM, told, agent=name, subject=name)

    def _mark_offline(self, tx: Transaction, before: int) -> None:
        for name, silent_for in self._silent(tx, store.SILENT_FOR_LONG, before):
            if tx.run(store.MARK_OFFLINE, who=name, before=before, at=tx.now):
                returned = sum(hook(tx, SYSTEM, name, "offline") for hook in self._crew.on_release)
                told = {"name": name, "silent_seconds": silent_for, "returned_tasks": returned}
                tx.record("agent_offline", SYSTEM, told, agent=name, subject=name)

    def _silent(self, tx: Transaction, query: Query, before: int) -> list[tuple[str, int]]:
        return [(name, (tx.now - last_seen) // 1_000_000) for name, last_seen in tx.rows(query, before=before)]
