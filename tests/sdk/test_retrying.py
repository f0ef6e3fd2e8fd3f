"""What is asked again, after which pause, and what never is: the steps alone, without any connection."""

import itertools
import json
from typing import Any

import httpx
import pytest

from ringfence.sdk.calls import Call, Json, Repeat
from ringfence.sdk.errors import (
    Forbidden,
    RateLimited,
    RingfenceError,
    ServerError,
    StorageFull,
    Unavailable,
    UnexpectedAnswer,
    Unreachable,
)
from ringfence.sdk.retrying import Patience, perform
from ringfence.sdk.steps import Send, Wait

REFUSED = httpx.ConnectError("connection refused")
RESET = httpx.ReadError("connection reset")
LATE = httpx.ReadTimeout("")
OK = httpx.Response(200, json={"done": True})


def answer(status: int, title: str = "", retry_after: str | None = None, **more: Any) -> httpx.Response:
    headers = {"content-type": "application/problem+json"} | ({"retry-after": retry_after} if retry_after else {})
    body = {"title": title, "status": status, "detail": "a sentence", "code": "a_code", "request_id": "req_1"} | more
    return httpx.Response(status, headers=headers, content=json.dumps(body))


class Course:
    """The steps of one call, answered by hand, on a clock that only pauses move."""

    def __init__(self, repeat: Repeat = Repeat.SAFE, *, stop_at_pause: int | None = None, **patience: Any) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.sent: list[Send] = []
        self._stop_at = stop_at_pause
        self._call: Call[Any] = Call(method="POST", path="/things", reads=Json(dict), body={}, repeat=repeat)
        self._patience = Patience(clock=lambda: self.now, **patience)

    def run(self, *outcomes: httpx.Response | Exception) -> Any:
        """What comes of it; outcomes that are left over were not asked for."""
        steps = perform(self._call, lambda: {"authorization": f"Bearer {len(self.sent)}"}, self._patience)
        left = list(outcomes)
        step = next(steps)
        try:
            while True:
                if isinstance(step, Send):
                    self.sent.append(step)
                    outcome = left.pop(0)
                    step = steps.throw(outcome) if isinstance(outcome, Exception) else steps.send(outcome)
                else:
                    assert isinstance(step, Wait)
                    self.pauses.append(step.seconds)
                    self.now += step.seconds
                    step = steps.send(len(self.pauses) == self._stop_at)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("repeat", Repeat)
def test_a_refused_connection_is_tried_again_whatever_is_asked(repeat: Repeat) -> None:
    course = Course(repeat)
    assert course.run(REFUSED, httpx.ConnectTimeout(""), httpx.PoolTimeout(""), OK) == {"done": True}


@pytest.mark.parametrize("lost", [RESET, LATE, httpx.RemoteProtocolError("gone"), answer(502), answer(504)])
@pytest.mark.parametrize("repeat", [Repeat.SAFE, Repeat.KEYED])
def test_a_lost_answer_is_asked_for_again_where_that_does_nothing_twice(
    repeat: Repeat, lost: httpx.Response | Exception
) -> None:
    assert Course(repeat).run(lost, OK) == {"done": True}


@pytest.mark.parametrize("lost", [RESET, LATE, answer(502), answer(503, "unavailable"), answer(504)])
def test_a_lost_answer_is_not_asked_for_again_where_the_work_would_be_done_twice(
    lost: httpx.Response | Exception,
) -> None:
    with pytest.raises((Unreachable, Unavailable)) as caught:
        Course(Repeat.NEVER).run(lost)
    if isinstance(caught.value, Unreachable):
        assert caught.value.maybe_done


def test_a_connection_that_was_never_made_did_nothing() -> None:
    with pytest.raises(Unreachable, match="cannot be reached: connection refused") as caught:
        Course(retries=0).run(REFUSED)
    assert not caught.value.maybe_done


@pytest.mark.parametrize("repeat", Repeat)
@pytest.mark.parametrize("busy", [answer(429, "rate limited", "3"), answer(503, "unavailable", "3")])
def test_retry_after_is_honoured(repeat: Repeat, busy: httpx.Response) -> None:
    course = Course(repeat)
    assert course.run(busy, OK) == {"done": True}
    assert course.pauses == [3.0]


def test_retry_after_may_be_a_date() -> None:
    course = Course()
    course.run(answer(503, "unavailable", "Wed, 21 Oct 2015 07:28:00 GMT"), OK)
    assert course.pauses[0] <= 0.1


def test_a_wait_longer_than_the_timeout_is_left_to_the_caller() -> None:
    with pytest.raises(RateLimited) as caught:
        Course(longest_wait=30).run(answer(429, "rate limited", "59"))
    assert caught.value.retry_after == 59.0


@pytest.mark.parametrize(
    ("status", "title", "kind"),
    [(403, "forbidden", Forbidden), (500, "internal", ServerError), (507, "storage full", StorageFull)],
)
def test_what_asking_again_does_not_change_is_asked_once(status: int, title: str, kind: type[RingfenceError]) -> None:
    with pytest.raises(kind):
        Course().run(answer(status, title))


def test_every_try_of_a_create_carries_the_same_key_and_the_token_of_the_moment() -> None:
    course = Course(Repeat.KEYED)
    course.run(RESET, REFUSED, OK)
    keys = [send.headers["idempotency-key"] for send in course.sent]
    assert len(keys[0]) == 32
    assert len(set(keys)) == 1
    assert [send.headers["authorization"] for send in course.sent] == ["Bearer 0", "Bearer 1", "Bearer 2"]
    another = Course(Repeat.KEYED)
    another.run(OK)
    assert another.sent[0].headers["idempotency-key"] != keys[0]


def test_only_creates_carry_a_key() -> None:
    course = Course(Repeat.SAFE)
    course.run(OK)
    assert "idempotency-key" not in course.sent[0].headers


def test_pauses_grow_have_a_limit_and_end() -> None:
    course = Course(retries=8)
    with pytest.raises(Unreachable):
        course.run(*[REFUSED] * 9)
    longest = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(course.pauses, longest, strict=True))


def test_nothing_is_begun_again_after_the_time_is_up() -> None:
    course = Course(within=1.0, retries=1000)
    with pytest.raises(Unreachable):
        course.run(*itertools.repeat(REFUSED, 100))
    assert 3 <= len(course.sent) <= 8
    assert course.now <= 1.0


def test_who_wants_to_stop_does_not_wait_for_the_end_of_the_retries() -> None:
    course = Course(stop_at_pause=2)
    with pytest.raises(Unreachable):
        course.run(REFUSED, REFUSED)


def test_a_refusal_tells_that_an_earlier_try_may_have_been_carried_out() -> None:
    with pytest.raises(Forbidden) as caught:
        Course().run(RESET, answer(403, "forbidden"))
    assert caught.value.repeated
    with pytest.raises(Forbidden) as caught:
        Course().run(REFUSED, answer(403, "forbidden"))
    assert not caught.value.repeated


def test_an_answer_that_is_not_ringfences_is_said_to_be_none() -> None:
    with pytest.raises(UnexpectedAnswer, match="not JSON but '<html>"):
        Course().run(httpx.Response(200, text="<html>welcome to the hotel"))
    with pytest.raises(UnexpectedAnswer, match=r"leads to https://login\.example"):
        Course().run(httpx.Response(302, headers={"location": "https://login.example"}))
