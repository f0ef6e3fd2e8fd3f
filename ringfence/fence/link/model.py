"""What the rest of the house knows of a link: sessions in a sandbox, started, followed, ended. docs/link.md says how.

    Links.listen(sandbox) ──► a warden dials ──► Link ──► Session, one for each START

A `Ledger` remembers on disk what a session said, so that what the warden still holds and what is stored meet without a
gap or a repeat after a restart of either the connection or the server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Protocol

from ringfence.kernel.errors import Conflict


class Channel(IntEnum):
    OUT = 1  # standard output, a terminal, or what an act answers
    ERR = 2


class Whom(IntEnum):
    """Whom a signal is for."""

    FIRST = 0  # the session's first process
    ALL = 1  # everything it started
    FOREGROUND = 2  # the terminal's foreground group


class Why(StrEnum):
    """Why a session is over."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMEOUT = "timeout"
    KILLED = "killed"
    FAILED = "failed"  # it could not be started, or the act failed
    LOST = "lost"  # its sandbox ended under it; said by the server, never by a warden


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A START; `act` and `arguments`, or `argv`."""

    id: bytes  # 16 bytes: a repeat of a START starts nothing
    argv: tuple[bytes, ...] = ()
    act: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    env: tuple[bytes, ...] = ()
    cwd: bytes = b"/"
    pty: tuple[int, int] | None = None  # rows, columns
    stdin: bool = False
    timeout: float | None = None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    why: Why
    code: int  # exit status, or 128 + signal
    signal: int = 0
    out: int = 0  # bytes there were on each channel
    err: int = 0
    user_us: int = 0
    system_us: int = 0
    memory_kib: int = 0
    errno: int = 0
    error: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


class Ledger(Protocol):
    """Where a session's output is kept. Called on the loop, one session's calls in order; must not block for long."""

    def greeted(self, sandbox: str, held: frozenset[bytes]) -> None:
        """The warden is there, with these sessions. Any other that was open before the server started is lost."""

    def stored(self, session: bytes) -> tuple[int, int] | None:
        """Up to where both channels outlive the server; None: not a session that anybody knows, let it be killed."""

    def keep(self, session: bytes, channel: Channel, data: memoryview) -> int:
        """The bytes right after those it was given before (at first: after `stored`). Returns up to where this channel
        outlives the server: the warden may forget that much. `data` is good during the call only."""

    def ended(self, session: bytes, exit: Exit, forget: Callable[[], None]) -> None:
        """Everything it said was given to `keep`. `forget` is to be called when all of it, and its end, outlives the
        server: until then the warden tells of it again."""


class Output(Protocol):
    """What a session says, as it comes; ends with it. A consumer that is slow makes the program wait (credit: what was
    not consumed is not STORED). A chunk counts as consumed when the next one is asked for."""

    def __aiter__(self) -> "Output": ...

    async def __anext__(self) -> tuple[Channel, bytes]: ...

    def close(self) -> None:
        """Consume no more: the program need not wait for this any longer."""


class InputClosed(Conflict):
    """The session has ended, so that nobody reads what is sent to it."""

    default_code = "session_ended"


class Session(Protocol):
    @property
    def id(self) -> bytes: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def input_offset(self) -> int:
        """How many bytes of input there were so far."""

    async def send(self, data: bytes | memoryview) -> None:
        """Input, waiting while the program does not read; `InputClosed` when it has ended."""

    async def end_input(self) -> None: ...

    def signal(self, number: int, whom: Whom = Whom.ALL) -> None: ...

    def resize(self, rows: int, columns: int) -> None: ...

    async def begun(self) -> None:
        """Wait until the warden says that it runs (an act: that what was asked for can begin), or for its end."""

    def output(self) -> Output:
        """What it says from this call on; all it said, for the first call when it was started without a ledger."""

    async def exit(self) -> Exit:
        """Wait for its end; everything it said was kept by then."""


class Link(Protocol):
    """The live connection with one warden; it outlives reconnects of that warden, and ends with it."""

    sandbox: str

    def sessions(self) -> Sequence[Session]:
        """Those that have not ended, whoever started them."""

    async def start(self, start: Start, ledger: Ledger | None = None) -> Session:
        """Back as soon as START is on its way: nothing can have been said by then. Without a ledger its output is only
        for `Session.output`, and it ends when the server does."""


class Links(Protocol):
    async def listen(self, sandbox: str, folder: Path, key: bytes, ledger: Ledger) -> None:
        """Make `folder`/link.sock and await the warden there. `ledger` answers for sessions it comes back with."""

    async def link(self, sandbox: str, within: float = 10.0) -> Link:
        """The link, awaited while the warden is on its way: `Unavailable` when it does not come."""

    async def forget(self, sandbox: str) -> None:
        """Stop listening, and end the link: sessions end as LOST."""

    async def close(self) -> None:
        """Let go of every link: what runs in the sandboxes goes on."""

    def suspend(self, sandbox: str) -> None:
        """It is paused: its silence means nothing until `resume`."""

    def resume(self, sandbox: str) -> None: ...
