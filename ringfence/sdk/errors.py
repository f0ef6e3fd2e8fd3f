"""Every error the SDK raises, as the server's own tree, and what has no answer.

    RingfenceError
    ├── Unreachable             no answer: not there, lost on the way, or not in time
    ├── UnexpectedAnswer        an answer, but not Ringfence's: something else listens there
    ├── CommandFailed           a program in a sandbox did not end with 0, and `check` was asked for
    ├── NotRegistered           the loop cannot begin: the agent could not be registered (also a RuntimeError)
    └── Answered                what the server said no with
        ├── Invalid         400 the request cannot be understood: a mistake of the program
        │   └── Unsupported 422 that host or runtime cannot do it; the sentence says what would enable it
        ├── NotFound        404 no such thing, or not yours to see
        ├── TooLarge        413 more bytes than are taken there
        ├── ServerError     5xx the server's own fault
        │   └── Unavailable 503 not now; also what a proxy says while the server restarts
        │       └── StorageFull 507
        └── Refused             understood, and not allowed
            ├── Unauthenticated 401
            ├── Forbidden       403
            ├── Conflict        409 `claimed_by` tells who was first
            ├── RuleBroken      400 a rule of the board
            └── RateLimited     429 `retry_after` seconds

`str(error)` is the server's sentence with what was asked; `status`, `code`, `detail`, `request_id` and `details` (all
further fields of the answer) are for programs.
"""

import datetime as dt
import email.utils
from collections.abc import Mapping
from typing import Any

import httpx


class RingfenceError(Exception):
    status: int | None = None
    code: str = ""
    request_id: str | None = None
    retry_after: float | None = None
    repeated = False
    """Whether an earlier try of the same call, whose answer was lost, may have been carried out."""

    def __init__(self, detail: str, *, asked: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.asked = asked

    def __str__(self) -> str:
        return f"{self.detail} [{self.asked}]" if self.asked else self.detail


class Unreachable(RingfenceError):
    """`maybe_done`: the request was on its way, so that the server may have carried it out."""

    code = "unreachable"

    def __init__(self, detail: str, *, asked: str = "", maybe_done: bool = True) -> None:
        super().__init__(detail, asked=asked)
        self.maybe_done = maybe_done


class UnexpectedAnswer(RingfenceError):
    code = "unexpected_answer"


class NotRegistered(RingfenceError, RuntimeError):
    code = "not_registered"


class CommandFailed(RingfenceError):
    """`result` is what the program said, and how it ended."""

    code = "command_failed"

    def __init__(self, result: Any, why: str) -> None:
        super().__init__(why)
        self.result = result


class Answered(RingfenceError):
    def __init__(
        self,
        detail: str,
        *,
        status: int,
        code: str = "",
        request_id: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        asked: str = "",
    ) -> None:
        super().__init__(detail, asked=asked)
        self.status: int = status
        self.code = code
        self.request_id = request_id
        self.details = dict(details or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        facts = [self.asked, f"{self.status} {self.code}".strip(), f"request {self.request_id}" * bool(self.request_id)]
        return f"{self.detail} [{', '.join(fact for fact in facts if fact)}]"


class Invalid(Answered): ...


class Unsupported(Invalid): ...


class NotFound(Answered): ...


class TooLarge(Answered): ...


class ServerError(Answered): ...


class Unavailable(ServerError): ...


class StorageFull(Unavailable): ...


class Refused(Answered): ...


class Unauthenticated(Refused): ...


class Forbidden(Refused): ...


class Conflict(Refused):
    @property
    def claimed_by(self) -> str | None:
        """Who holds the task that was asked for."""
        holder = self.details.get("claimed_by")
        return holder if isinstance(holder, str) else None


class RuleBroken(Refused): ...


class RateLimited(Refused): ...


# The documented paths at the root keep the hub's status codes, so the problem's title, which is the server's own class,
# counts before the status.
_BY_TITLE: dict[str, type[Answered]] = {
    "invalid": Invalid,
    "unsupported": Unsupported,
    "not found": NotFound,
    "too large": TooLarge,
    "internal": ServerError,
    "unavailable": Unavailable,
    "storage full": StorageFull,
    "unauthenticated": Unauthenticated,
    "forbidden": Forbidden,
    "conflict": Conflict,
    "rule broken": RuleBroken,
    "rate limited": RateLimited,
}
_BY_STATUS: dict[int, type[Answered]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Unsupported,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: StorageFull,
}
_STANDARD = {"type", "title", "status", "detail", "code", "error", "request_id"}


def answered(response: httpx.Response, asked: str) -> RingfenceError:
    """The error that this answer is."""
    problem = _problem(response)
    status = response.status_code
    if status < 400:
        where = response.headers.get("location", "nowhere")
        return UnexpectedAnswer(f"answered {status}, which leads to {where}: is the URL right?", asked=asked)
    kind = _BY_TITLE.get(str(problem.get("title"))) or _BY_STATUS.get(status) or (ServerError, Invalid)[status < 500]
    detail = problem.get("detail") or problem.get("error") or f"answered {status} {response.reason_phrase}".strip()
    return kind(
        str(detail),
        status=status,
        code=str(problem.get("code") or ""),
        request_id=problem.get("request_id") or response.headers.get("x-request-id"),
        details={name: value for name, value in problem.items() if name not in _STANDARD},
        retry_after=_seconds(response.headers.get("retry-after")),
        asked=asked,
    )


def _problem(response: httpx.Response) -> dict[str, Any]:
    if "json" not in response.headers.get("content-type", ""):
        return {}
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _seconds(retry_after: str | None) -> float | None:
    """`Retry-After` holds seconds or a date."""
    if not retry_after:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (moment - dt.datetime.now(dt.UTC)).total_seconds())
