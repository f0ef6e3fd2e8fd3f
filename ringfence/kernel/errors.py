"""Every error a caller can meet.

    RingfenceError
    ├── Invalid            400  the request cannot be understood
    ├── NotFound           404  no such thing, or not yours to see
    ├── TooLarge           413  more bytes than are taken here
    ├── Refused                 understood, and not allowed: recorded in the audit log
    │   ├── Unauthenticated 401 nobody we know
    │   ├── Forbidden      403  by who asks
    │   ├── Conflict       409  by how things stand
    │   ├── RuleBroken     400  by a rule of the board
    │   └── RateLimited    429  by how often
    └── Unavailable        503  not now
        └── StorageFull    507  the disk is full: nothing was changed

Services raise them; each door maps them once (`kernel/http.py` for HTTP). A message is a sentence for the reader: what
was wrong, with the value, and what to do. `code` is stable; `details` are further fields for programs.
"""

from typing import ClassVar


class RingfenceError(Exception):
    status: ClassVar[int] = 500
    default_code: ClassVar[str] = "internal"

    def __init__(
        self, message: str, *, code: str | None = None, http_status: int | None = None, **details: object
    ) -> None:
        super().__init__(message)
        self.message = message
        self.http_status = http_status  # where HTTP has a more telling one than `status`
        self.code = code or self.default_code
        self.details = details


class Invalid(RingfenceError):
    status, default_code = 400, "invalid"


class NotFound(RingfenceError):
    status, default_code = 404, "not_found"


class TooLarge(RingfenceError):
    status, default_code = 413, "too_large"


class Refused(RingfenceError):
    """`project`, `agent` and `subject` say where in the record the refusal belongs."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        subject: str | None = None,
        http_status: int | None = None,
        **details: object,
    ) -> None:
        super().__init__(message, code=code, http_status=http_status, **details)
        self.project, self.agent, self.subject = project, agent, subject
        self.recorded = False  # set once the audit log has it


class Unauthenticated(Refused):
    status, default_code = 401, "unauthenticated"


class Forbidden(Refused):
    status, default_code = 403, "forbidden"


class Conflict(Refused):
    status, default_code = 409, "conflict"


class RuleBroken(Refused):
    status, default_code = 400, "rule_broken"


class RateLimited(Refused):
    status, default_code = 429, "rate_limited"

    def __init__(self, message: str, *, retry_after: int, agent: str | None = None) -> None:
        super().__init__(message, agent=agent, retry_after=retry_after)
        self.retry_after = retry_after


class Unavailable(RingfenceError):
    status, default_code = 503, "unavailable"


class StorageFull(Unavailable):
    status, default_code = 507, "storage_full"
