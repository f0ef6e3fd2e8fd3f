"""Time that only moves on."""

import threading
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ringfence.kernel.clock import Clock, iso, iso_or_none

steps = st.lists(st.tuples(st.integers(0, 10**12), st.integers(-(10**13), 10**13)), max_size=50)


class Watch:
    """A wall clock and a monotonic one, moved by hand."""

    def __init__(self) -> None:
        self.wall_ns, self.monotonic_ns = 1_700_000_000 * 10**9, 5 * 10**9

    def clock(self) -> Clock:
        return Clock(lambda: self.wall_ns, lambda: self.monotonic_ns)


@given(steps)
def test_time_never_goes_back_whatever_is_done_to_the_wall_clock(steps: list[tuple[int, int]]) -> None:
    watch = Watch()
    clock = watch.clock()
    last = clock.now()
    for ticked, shifted in steps:
        watch.monotonic_ns += ticked
        watch.wall_ns += ticked + shifted
        now = clock.now()
        assert now - last >= ticked // 1000
        last = now


def test_a_wall_clock_set_forward_is_followed_and_one_set_back_is_not() -> None:
    watch = Watch()
    clock = watch.clock()
    start = clock.now()
    watch.wall_ns += 3600 * 10**9
    assert clock.now() == start + 3600 * 10**6
    watch.wall_ns -= 7200 * 10**9
    watch.monotonic_ns += 10**9
    assert clock.now() == start + 3601 * 10**6


def test_no_thread_sees_a_time_before_one_that_another_saw() -> None:
    clock, seen, wrong = Clock(), [0], []

    def look() -> None:
        for _ in range(20_000):
            before = seen[0]
            now = clock.now()
            if now < before:
                wrong.append((before, now))
            seen[0] = now

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@given(st.integers(0, 253_402_300_799 * 10**6))
def test_a_moment_is_written_with_its_zone_and_read_back_as_it_was(moment: int) -> None:
    read = datetime.fromisoformat(iso(moment))
    assert read.tzinfo is not None
    assert (read - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) == moment
    assert iso_or_none(moment) == iso(moment)


def test_moments_written_out_sort_as_they_came() -> None:
    clock = Clock()
    written = [iso(clock.now()) for _ in range(1000)]
    assert written == sorted(written)
    assert iso_or_none(None) is None
