"""A message is in one hand at a time, and handled once."""

import threading

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ringfence.sdk import inbox
from ringfence.sdk.inbox import Fate, Inbox


def test_a_message_is_due_once() -> None:
    box = Inbox()
    assert box.begin("m") is Fate.DUE
    assert box.begin("m") is Fate.NOT_NOW  # it is being handled
    box.done("m")
    assert box.begin("m") is Fate.HANDLED


def test_a_message_put_back_is_due_again() -> None:
    box = Inbox()
    box.begin("m")
    box.put_back("m")
    assert box.begin("m") is Fate.DUE


def test_a_failed_message_waits_longer_each_time_and_is_given_up() -> None:
    now = 0.0
    box = Inbox(lambda: now)
    for pause in (0.5, 1.0, 2.0):
        assert box.begin("m") is Fate.DUE
        assert box.failed("m")
        now += pause * 0.99
        assert box.begin("m") is Fate.NOT_NOW
        now += pause * 0.02
    assert box.begin("m") is Fate.DUE
    assert not box.failed("m")
    now += 1e9
    assert box.begin("m") is Fate.NOT_NOW


@given(st.integers(2, 8))
def test_of_many_threads_one_gets_the_message(threads: int) -> None:
    box, got = Inbox(), []
    ready = threading.Barrier(threads)

    def take() -> None:
        ready.wait(10)
        got.append(box.begin("m"))

    running = [threading.Thread(target=take) for _ in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join(10)
    assert got.count(Fate.DUE) == 1


def test_what_is_remembered_has_a_limit() -> None:
    box = Inbox()
    for number in range(inbox.REMEMBERED + 10):
        box.begin(f"m{number}")
    assert len(box._records) == inbox.REMEMBERED
    assert box.begin("m0") is Fate.DUE  # forgotten, the oldest


class AnyCourse(RuleBasedStateMachine):
    """Whatever happens, in whatever order: nothing is handled twice."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.box = Inbox(lambda: self.now)
        self.in_hand: set[str] = set()
        self.handled: list[str] = []

    messages = st.sampled_from("abc")

    @rule(message=messages)
    def arrives(self, message: str) -> None:
        fate = self.box.begin(message)
        if fate is Fate.DUE:
            assert message not in self.in_hand
            self.in_hand.add(message)
        assert (fate is Fate.HANDLED) == (message in self.handled)

    @rule(message=messages, outcome=st.sampled_from(["done", "failed", "put_back"]))
    def ends(self, message: str, outcome: str) -> None:
        if message not in self.in_hand:
            return
        self.in_hand.remove(message)
        getattr(self.box, outcome)(message)
        if outcome == "done":
            self.handled.append(message)

    @rule(seconds=st.floats(0, 10))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def handled_once(self) -> None:
        assert len(set(self.handled)) == len(self.handled)


TestAnyCourse = AnyCourse.TestCase
