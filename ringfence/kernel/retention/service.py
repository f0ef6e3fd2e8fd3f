"""How long things are kept: as the settings say, until somebody chooses otherwise while it runs."""

from enum import StrEnum

from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden
from ringfence.kernel.retention import store
from ringfence.settings import Settings


class Kept(StrEnum):
    EVENTS = "events"  # all of them
    MESSAGES = "messages"  # once they are acknowledged


class Retention:
    def __init__(self, settings: Settings) -> None:
        self._settings = {Kept.EVENTS: settings.keep_events_days, Kept.MESSAGES: settings.keep_messages_days}

    def days(self, tx: Transaction, what: Kept) -> float:
        """0: for ever."""
        chosen = tx.row(store.CHOSEN, what=what.value)
        return self._settings[what] if chosen is None else float(chosen[0])

    def choose(self, tx: Transaction, by: Principal, what: Kept, days: float | None) -> None:
        """None: as the settings say."""
        if by.projects is not None:
            raise Forbidden("how long things are kept concerns all projects, and you see only some")
        tx.run(store.FORGET, what=what.value)
        if days is not None:
            tx.run(store.CHOOSE, what=what.value, days=days, set_at=tx.now, set_by=by.name)
        tx.record("retention_changed", by.actor, {"what": what.value, "days": self.days(tx, what)})
