"""What is asked and told of execs over HTTP."""

import base64
import codecs
from typing import Annotated

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from ringfence.fence.link.model import Channel
from ringfence.kernel.clock import SECOND, iso, iso_or_none
from ringfence.kernel.http.endpoint import Fields
from ringfence.kernel.http.octets import Base64, RawWord, decoded, octets, written
from ringfence.sessions.model import LONGEST, TIMEOUT, Command, Exec

Seconds = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]


class Size(Fields):
    rows: int = Field(24, ge=1, le=65535)
    columns: int = Field(80, ge=1, le=65535)


class NewExec(Fields):
    argv: Annotated[list[str | RawWord], Field(min_length=1, max_length=1024)] | None = Field(
        None, description="The program, found by the PATH of the sandbox, and its arguments."
    )
    command: Annotated[str, Field(min_length=1, max_length=65536)] | None = Field(
        None, description="A line for `/bin/sh -c`, instead of `argv`."
    )
    env: Annotated[dict[str, str], Field(max_length=512)] = Field({}, description="Beside the sandbox's own.")
    cwd: Annotated[str, Field(min_length=1, max_length=4096, pattern="^/")] | None = None
    pty: Size | None = Field(None, description="Run it in a terminal; its output and errors are one stream then.")
    stdin: str = Field("", description="Its input, which ends there unless `input` is true.")
    stdin_base64: Base64 = Field("", description="The same, for input that is not UTF-8.")
    input: bool = Field(False, description="More input will be sent to it.")
    timeout: Seconds | None = Field(
        None, description=f"Seconds until all it started is killed; 0: never. For who waits for the end: {TIMEOUT:g}."
    )
    detach: bool = Field(False, description="Answer as soon as it runs; it goes on by itself.")

    @model_validator(mode="after")
    def _one_program(self) -> "NewExec":
        if (self.argv is None) == (self.command is None):
            raise ValueError("give `argv`, or `command`, one of the two")
        if self.stdin and self.stdin_base64:
            raise ValueError("give `stdin`, or `stdin_base64`, one of the two")
        for name in self.env:
            if not name or "=" in name:
                raise ValueError(f"{name!r:.80} cannot be the name of a variable")
        return self

    def wish(self, *, waits: bool) -> Command:
        if self.argv is not None:
            argv = tuple(octets(word) for word in self.argv)
        else:
            argv = (b"/bin/sh", b"-c", (self.command or "").encode())
        timeout = self.timeout if self.timeout is not None else (TIMEOUT if waits else 0)
        return Command(
            argv=argv, env=self.env, cwd=self.cwd, pty=None if self.pty is None else (self.pty.rows, self.pty.columns),
            stdin=decoded(self.stdin_base64) if self.stdin_base64 else self.stdin.encode(), more_input=self.input,
            timeout=timeout or None, detached=self.detach,
        )  # fmt: skip


class InputBody(Fields):
    text: str = ""
    base64: Base64 = ""
    offset: int | None = Field(
        None, ge=0, description="How many bytes were sent before: what was sent already is not typed again."
    )
    end: bool = Field(False, description="Nothing comes after this.")

    def data(self) -> bytes:
        return decoded(self.base64) if self.base64 else self.text.encode()


class SignalBody(Fields):
    signal: str | int = Field("TERM", description="TERM, KILL, INT … or a number.")
    whom: Annotated[str, Field(pattern="^(first|all|foreground)$")] = Field(
        "all", description="Its first process, everything it started, or the terminal's foreground group."
    )


class ExecsQuery(Fields):
    running: bool = False
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(pattern="^[a-z0-9_]{1,64}$")] | None = None


class OutputQuery(Fields):
    channel: Annotated[str, Field(pattern="^(stdout|stderr)$")] = "stdout"
    offset: Annotated[int, Field(ge=0, le=1 << 62)] = 0
    follow: bool = Field(False, description="Go on with what it says, until it ends.")


class ExecView(TypedDict):
    id: str
    sandbox: str
    project: str | None
    agent: str | None
    actor: str
    argv: list[str]
    cwd: str
    terminal: bool
    detached: bool
    timeout: float | None
    state: str
    cause: str | None
    code: int | None
    signal: int | None
    error: str | None
    started_at: str
    ended_at: str | None
    seconds: float | None
    stdout_bytes: int
    stderr_bytes: int
    stdout_kept: int
    stderr_kept: int
    cpu_seconds: float | None
    memory_kib: int | None


class ExecAnswer(ExecView):
    stdout: str
    stderr: str
    stdout_base64: str | None
    stderr_base64: str | None
    truncated: bool


class InputTaken(TypedDict):
    offset: int


def exec_view(it: Exec) -> ExecView:
    exit = it.exit
    return {
        "id": it.id,
        "sandbox": it.sandbox,
        "project": it.project,
        "agent": it.agent,
        "actor": it.actor,
        "argv": list(it.argv),
        "cwd": it.cwd,
        "terminal": it.pty is not None,
        "detached": it.detached,
        "timeout": it.timeout,
        "state": "running" if exit is None else "ended",
        "cause": None if exit is None else exit.why.value,
        "code": None if exit is None else exit.code,
        "signal": None if exit is None else exit.signal or None,
        "error": None if exit is None else exit.error or None,
        "started_at": iso(it.started_at),
        "ended_at": iso_or_none(it.ended_at),
        "seconds": None if it.ended_at is None else (it.ended_at - it.started_at) / SECOND,
        "stdout_bytes": it.out_size,
        "stderr_bytes": it.err_size,
        "stdout_kept": it.out_kept,
        "stderr_kept": it.err_kept,
        "cpu_seconds": None if exit is None else (exit.user_us + exit.system_us) / SECOND,
        "memory_kib": None if exit is None else exit.memory_kib,
    }


def exec_answer(it: Exec, out: bytes, err: bytes) -> ExecAnswer:
    stdout, stdout_base64 = written(out)
    stderr, stderr_base64 = written(err)
    return {
        **exec_view(it),
        "stdout": stdout,
        "stderr": stderr,
        "stdout_base64": stdout_base64,
        "stderr_base64": stderr_base64,
        "truncated": len(out) < it.out_size or len(err) < it.err_size,
    }


class Pieces:
    """Output in pieces as text: a character whose bytes are in two pieces is told with the second."""

    def __init__(self) -> None:
        self._decoders = {channel: codecs.getincrementaldecoder("utf-8")() for channel in Channel}

    def piece(self, channel: Channel, offset: int, data: bytes) -> dict[str, object]:
        decoder = self._decoders[channel]
        before = len(decoder.getstate()[0])
        try:
            return {"offset": offset - before, "text": decoder.decode(data)}
        except UnicodeDecodeError:
            whole = decoder.getstate()[0] + data
            decoder.reset()
            return {"offset": offset - before, "base64": base64.b64encode(whole).decode()}

    def rest(self, channel: Channel, offset: int) -> dict[str, object] | None:
        """Half a character at the end."""
        left = self._decoders[channel].getstate()[0]
        return {"offset": offset - len(left), "base64": base64.b64encode(left).decode()} if left else None
