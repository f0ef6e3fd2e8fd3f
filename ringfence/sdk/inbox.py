"""Which messages this process has dealt with, so that a handler runs once per message.

The server delivers a message until it is acknowledged; where the acknowledgement is lost, the message comes again.

    new ──begin──► in hand ──done──► handled: acknowledged as often as it takes, never handled again
                      │ failed
                      └─► waiting, longer each time ──► in hand …, at last given up: left unread, never tried again
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

REMEMBERED = 100_000
TRIES = 4
FIRST_PAUSE = 0.5


class Fate(Enum):
    DUE = auto()  # to be handled now
    HANDLED = auto()  # only its acknowledgement is missing
    NOT_NOW = auto()  # in hand elsewhere, waiting after a failure, or given up


@dataclass(slots=True)
class _Record:
    fate: Fate
    failures: int = 0
    due_at: float = 0.0


class Inbox:
    """May be asked from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._lock = threading.Lock()
        self._clock = clock

    def begin(self, message_id: str) -> Fate:
        """What to do with a message; if it is DUE, it is in the caller's hand from now on."""
        with self._lock:
            record = self._records.get(message_id)
            if record is None:
                self._remember(message_id)
                return Fate.DUE
            self._records.move_to_end(message_id)
            if record.fate is Fate.DUE and self._clock() >= record.due_at:
                record.fate = Fate.NOT_NOW
                return Fate.DUE
            return Fate.NOT_NOW if record.fate is Fate.DUE else record.fate

    def done(self, message_id: str) -> None:
        with self._lock:
            self._records[message_id].fate = Fate.HANDLED

    def put_back(self, message_id: str) -> None:
        """It was not handled, and nobody decided about it."""
        with self._lock:
            self._records[message_id].fate = Fate.DUE

    def failed(self, message_id: str) -> bool:
        """The handler raised. Whether it will be tried again."""
        with self._lock:
            record = self._records[message_id]
            record.failures += 1
            if record.failures >= TRIES:
                return False
            record.fate = Fate.DUE
            record.due_at = self._clock() + FIRST_PAUSE * 2.0 ** (record.failures - 1)
            return True

    def _remember(self, message_id: str) -> None:
        self._records[message_id] = _Record(Fate.NOT_NOW)
        if len(self._records) > REMEMBERED:
            self._records.popitem(last=False)
