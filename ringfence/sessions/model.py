"""Execs: programs that are run in a sandbox, from outside. What may be asked, and what is told of them.

    start ──► runs ──► ended: exited, signalled, timeout, killed, failed, lost
      │         │
      └─ row    └─ output, kept as it comes

What an exec said is two sequences of bytes with offsets from 0. So much of each is kept (`KEPT`); of more it is known
how much it was. Words that look like secrets are in no row and no event: they stay what the program alone was told.
"""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringfence.fence.link.model import Exit, Why
from ringfence.kernel.errors import Invalid

KEPT = 16 << 20  # bytes of each channel
ANSWERED = 4 << 20  # bytes of each channel in an answer; the rest is read in pieces
AT_HAND = 64 << 10  # bytes of each channel that are kept in memory, and then in the row, without a file
TIMEOUT = 600.0  # seconds, for who waits for the end and does not say
LONGEST = 30 * 24 * 3600.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HIDDEN = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What an exec must know of the sandbox it runs in."""

    id: str
    project: str | None = None
    agent: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/workspace"
    home: str = "/home/agent"
    user: str = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is to be run."""

    argv: tuple[bytes, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    pty: tuple[int, int] | None = None
    stdin: bytes = b""
    more_input: bool = False  # beyond `stdin`
    timeout: float | None = None
    detached: bool = False  # it goes on without whoever asked

    @property
    def takes_input(self) -> bool:
        return bool(self.stdin) or self.more_input


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    id: str
    sandbox: str
    project: str | None
    agent: str | None
    actor: str
    argv: tuple[str, ...]  # as it may be shown
    cwd: str
    pty: tuple[int, int] | None
    timeout: float | None
    input: bool
    detached: bool
    started_at: int
    ended_at: int | None = None
    exit: Exit | None = None
    out_size: int = 0  # bytes said
    err_size: int = 0
    out_kept: int = 0  # the first so many can be read
    err_kept: int = 0


def environment(place: Place, command: Command) -> tuple[bytes, ...]:
    """The whole of it: what every program may expect, then the sandbox's, then the command's."""
    whole = {"PATH": PATH, "HOME": place.home, "USER": place.user, "LANG": "C.UTF-8"}
    if command.pty is not None:
        whole |= {"TERM": "xterm-256color", "COLUMNS": str(command.pty[1]), "LINES": str(command.pty[0])}
    whole |= place.env
    whole |= command.env
    return tuple(f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in whole.items())


def signal_number(named: str | int) -> int:
    """`TERM`, `SIGTERM`, `15` or 15."""
    if isinstance(named, str) and not named.isdecimal():
        name = named.upper()
        try:
            return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
        except KeyError:
            raise Invalid(
                f"{named!r:.40} is not a signal: TERM, KILL, INT, HUP … or 1 to 64", code="invalid_signal"
            ) from None
    number = int(named)
    if not 1 <= number <= 64:
        raise Invalid(f"{number} is not the number of a signal: 1 to 64 are", code="invalid_signal")
    return number


# Secrets --------------------------------------------------------------------------------------------------------------

_NAMES = (
    r"(?:[A-Za-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|credential|private[_-]?key)"
    r"[A-Za-z0-9_.-]*)"
)
_NAMED = re.compile(rf"(?i)({_NAMES}\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s&;|'\"]+)")
_FLAG = re.compile(rf"(?i)(?<!\S)(--?{_NAMES}\s+)(?:\"[^\"]*\"|'[^']*'|[^\s&;|'\"-][^\s&;|'\"]*)")
_OPTION = re.compile(rf"(?i)--?{_NAMES}")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}")
_IN_URL = re.compile(r"([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+(?=@)")
_WELL_KNOWN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{30,}|rf[a-z]{2}_[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
LONGEST_SHOWN = 4096  # characters of all words together


def shown(argv: Sequence[bytes]) -> tuple[str, ...]:
    """A command as it may be written down: without what looks like a secret, and not endless."""
    words: list[str] = []
    room, hide_next = LONGEST_SHOWN, False
    for word in argv:
        text = HIDDEN if hide_next else _without_secrets(word[:LONGEST_SHOWN].decode("utf-8", "backslashreplace"))
        hide_next = _OPTION.fullmatch(text) is not None
        if len(text) > room:
            words.append(text[:room] + "…")
            break
        room -= len(text)
        words.append(text)
    return tuple(words)


def _without_secrets(text: str) -> str:
    text = _PEM.sub(HIDDEN, text)
    text = _IN_URL.sub(rf"\1{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    text = _NAMED.sub(rf"\1{HIDDEN}", text)
    text = _FLAG.sub(rf"\1{HIDDEN}", text)
    return _WELL_KNOWN.sub(HIDDEN, text)


LOST = Exit(why=Why.LOST, code=-1)
