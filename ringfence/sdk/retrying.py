"""Asking until there is an answer, as often as that is safe.

    what happened                              asked again
    connection refused: never sent             always
    429, 503 with Retry-After: not done        always, after that time
    lost after sending, 502, 503, 504          if `Call.repeat` allows
    anything else                              never

Pauses grow from a tenth of a second to five, with jitter, so that a fleet does not return in step; eight of them
outlast a server's restart. A `Retry-After` longer than the longest wait worth its while is the caller's to decide.
"""

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from ringfence.sdk.calls import Call, Repeat, T
from ringfence.sdk.errors import RateLimited, RingfenceError, Unavailable, Unreachable, answered
from ringfence.sdk.steps import Send, Steps, Wait

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to go on: `retries` times, and never beginning again after `within` seconds."""

    retries: int = 8
    within: float = 60.0
    longest_wait: float = 30.0
    clock: Callable[[], float] = time.monotonic

    def pause(self, retry: int) -> float:
        """Seconds before the retry of this number, counted from 0."""
        return min(5.0, 0.1 * 2.0 ** min(retry, 10)) * random.uniform(0.5, 1.0)  # noqa: S311


def perform(call: Call[T], authorization: Callable[[], dict[str, str]], patience: Patience) -> Steps[T]:
    key = {"idempotency-key": uuid.uuid4().hex} if call.repeat is Repeat.KEYED else {}
    began = patience.clock()
    retry = 0
    maybe_done = False
    while True:
        try:
            response: httpx.Response = yield Send(call, {**authorization(), **key})
        except httpx.TransportError as lost:
            failure = unreachable(call.asked, lost)
            error: RingfenceError = failure
            again = (call.repeat is not Repeat.NEVER or not failure.maybe_done) and not distrusted(lost)
            maybe_done = maybe_done or failure.maybe_done
        else:
            if response.is_success:
                return call.reads(response)
            error = answered(response, call.asked)
            error.repeated = maybe_done
            again = _passes(error, call)
            maybe_done = maybe_done or response.status_code in (502, 504)
        wait = max(patience.pause(retry), error.retry_after or 0.0)
        late = patience.clock() - began + wait > patience.within
        if not again or not call.patient or retry >= patience.retries or wait > patience.longest_wait or late:
            raise error
        retry += 1
        stopped: bool = yield Wait(wait)
        if stopped:
            raise error


def _passes(error: RingfenceError, call: Call[T]) -> bool:
    """Whether what the server said may be otherwise in a moment, and asking again does nothing twice."""
    if isinstance(error, RateLimited):
        return True
    if not isinstance(error, Unavailable) or error.status == 507:
        return False
    not_done = error.status == 503 and error.retry_after is not None
    return not_done or call.repeat is not Repeat.NEVER


def distrusted(lost: httpx.TransportError) -> bool:
    """Waiting makes no certificate better."""
    return "CERTIFICATE_VERIFY_FAILED" in str(lost)


def unreachable(asked: str, lost: httpx.TransportError) -> Unreachable:
    why = str(lost) or type(lost).__name__
    if distrusted(lost):
        why = "its certificate is not trusted here: name its file in `ca`, or in RINGFENCE_CA"
    elif isinstance(lost, httpx.TimeoutException):
        why = f"no answer in time ({type(lost).__name__})"
    error = Unreachable(f"Ringfence cannot be reached: {why}", asked=asked, maybe_done=not isinstance(lost, NOT_SENT))
    error.__cause__ = lost
    return error
