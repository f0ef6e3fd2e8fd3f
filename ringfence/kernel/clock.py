"""Time as whole microseconds since 1970, UTC: one integer that sorts, stores and compares alike everywhere."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Clock:
    """Wall time that never goes back while the process lives.

    It ticks with the monotonic clock. When the wall is ahead (a corrected clock, a machine that slept) it jumps
    forward; when the wall was set back it keeps ticking, so that no event, lease or time-out sees time reversed.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()
        self._lock = threading.Lock()  # two threads that both found the wall ahead must not undo each other's jump

    def now(self) -> int:
        with self._lock:
            monotonic, wall = self._monotonic(), self._wall()
            if wall - monotonic > self._offset:
                self._offset = wall - monotonic
            return (monotonic + self._offset) // 1000


def iso(moment: int) -> str:
    """`2026-11-18T21:30:00.123456Z`."""
    seconds, micros = divmod(moment, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"


def iso_or_none(moment: int | None) -> str | None:
    return None if moment is None else iso(moment)
