"""What ends a command early: a sentence for the reader, and an exit code for scripts.

Problem           1  refused by a rule, or failed
├── Usage         2  the command was not understood
├── NotFound      3  no such thing, or not yours to see
├── NotAllowed    4  not signed in, or not allowed to
├── Conflict      5  by how things stand
├── TooOften      6  rate limited
└── Unreachable   7  no server answers
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class Problem(Exception):
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.facts = facts or {}  # what the server said besides


class Usage(Problem):
    exit_code = 2


class NotFound(Problem):
    exit_code = 3


class NotAllowed(Problem):
    exit_code = 4


class Conflict(Problem):
    exit_code = 5


class TooOften(Problem):
    exit_code = 6


class Unreachable(Problem):
    exit_code = 7


WARNED = 8
INTERRUPTED = 130

EXIT_CODES = {
    0: "done; also when a proposal waits for approval",
    1: "refused by a rule, or failed",
    2: "the command was not understood",
    3: "there is no such thing, or it is not yours to see",
    4: "not signed in, or not allowed to",
    5: "conflicts with how things stand",
    6: "asked too often",
    7: "no server answers",
    WARNED: "as it should be, but for what was warned of (doctor; sandbox check --strict)",
    INTERRUPTED: "interrupted",
}


def of_status(status: int) -> type[Problem]:
    match status:
        case 401 | 403:
            return NotAllowed
        case 404 | 410:
            return NotFound
        case 409 | 412:
            return Conflict
        case 429:
            return TooOften
        case 502 | 503 | 504:
            return Unreachable
    return Problem
