"""A program in a sandbox, connected to: what it says as it says it, its input, signals, its terminal's size.

`Talk` knows what the messages of `exec/ws` are; `Process` and `AsyncProcess` carry them. Leaving early ends the
program; a connection that breaks does, too.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, cast

import httpx
from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.sync.client import ClientConnection as Connection

from ringfence.sdk import sockets
from ringfence.sdk.calls import given
from ringfence.sdk.errors import RingfenceError, UnexpectedAnswer, answered
from ringfence.sdk.views import Exec

Command = str | Sequence[str | bytes]
Name = Literal["stdout", "stderr"]
Whom = Literal["first", "all", "foreground"]
_CHANNELS: dict[int, Name] = {1: "stdout", 2: "stderr"}
INPUT = 64 << 10


@dataclass(frozen=True, slots=True)
class Output:
    """What it said: where, and the bytes."""

    channel: Name
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def asked_for(command: Command, **more: Any) -> dict[str, Any]:
    """A string is a line for the shell; words are a program and its arguments."""
    if isinstance(command, str):
        return given(command=command, **more)
    from ringfence.sdk.files import word

    return given(argv=[word(one) for one in command], **more)


class Talk:
    def __init__(self, where: str) -> None:
        self.where = where
        self.exec: Exec | None = None
        self.ended = False

    def understand(self, said: str | bytes) -> Output | None:
        """Output; or None, and `exec` and `ended` tell."""
        if isinstance(said, bytes):
            channel = _CHANNELS.get(said[0]) if said else None
            if channel is None:
                raise UnexpectedAnswer("this is no output of a program: is this URL a Ringfence?", asked=self.where)
            return Output(channel, said[1:])
        told = json.loads(said)
        kind = told.pop("type", None)
        if kind == "error":
            raise self._error(told)
        if kind in ("started", "ended"):
            self.exec, self.ended = cast(Exec, told), kind == "ended"
        return None

    def _error(self, told: Mapping[str, Any]) -> RingfenceError:
        response = httpx.Response(int(told.get("status", 400)), json=dict(told))
        return answered(response, self.where)

    @property
    def end(self) -> Exec:
        assert self.exec is not None
        return self.exec

    @staticmethod
    def signal(signal: str | int, whom: Whom) -> str:
        return json.dumps({"type": "signal", "signal": signal, "whom": whom})

    @staticmethod
    def resize(rows: int, columns: int) -> str:
        return json.dumps({"type": "resize", "rows": rows, "columns": columns})

    @staticmethod
    def end_input() -> str:
        return json.dumps({"type": "end_input"})


class Process:
    """Iterate over what it says. Other threads may write, signal and resize meanwhile."""

    def __init__(self, connection: Connection, talk: Talk, asked: Mapping[str, Any]) -> None:
        self._connection, self._talk = connection, talk
        try:
            connection.send(json.dumps(asked))
            while talk.exec is None:
                self._read()
        except BaseException:
            connection.close()
            raise

    @property
    def id(self) -> str:
        return self._talk.end["id"]

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._talk.end["code"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Output:
        while not self._talk.ended:
            if (output := self._read()) is not None:
                return output
        raise StopIteration

    def wait(self) -> Exec:
        """Its end; what it said until then is not kept."""
        for _ in self:
            pass
        return self._talk.end

    def write(self, data: bytes | str) -> None:
        """Input; waits while the program does not read. Reading its output is for another thread then."""
        data = data.encode() if isinstance(data, str) else data
        for at in range(0, len(data), INPUT):
            self._send(b"\0" + data[at : at + INPUT])

    def end_input(self) -> None:
        self._send(Talk.end_input())

    def signal(self, signal: str | int = "TERM", whom: Whom = "all") -> None:
        self._send(Talk.signal(signal, whom))

    def kill(self) -> None:
        """Everything it started, at once."""
        self.signal("KILL")

    def resize(self, rows: int, columns: int) -> None:
        self._send(Talk.resize(rows, columns))

    def close(self) -> None:
        """Leave it, which ends it, unless it was started with `detach`."""
        self._connection.close()

    def _read(self) -> Output | None:
        try:
            return self._talk.understand(self._connection.recv())
        except sockets.Closed as error:
            raise sockets.broken(self._talk.where, error) from error

    def _send(self, message: str | bytes) -> None:
        try:
            self._connection.send(message)
        except sockets.Closed as error:
            if not self._talk.ended:
                raise sockets.broken(self._talk.where, error) from error


class AsyncProcess:
    """`Process` for `async for`; other tasks may write, signal and resize meanwhile."""

    def __init__(self, connection: AsyncConnection, talk: Talk) -> None:
        self._connection, self._talk = connection, talk

    @classmethod
    async def begun(cls, connection: AsyncConnection, talk: Talk, asked: Mapping[str, Any]) -> Self:
        process = cls(connection, talk)
        try:
            await connection.send(json.dumps(asked))
            while talk.exec is None:
                await process._read()
        except BaseException:
            await connection.close()
            raise
        return process

    @property
    def id(self) -> str:
        return self._talk.end["id"]

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._talk.end["code"]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Output:
        while not self._talk.ended:
            if (output := await self._read()) is not None:
                return output
        raise StopAsyncIteration

    async def wait(self) -> Exec:
        """Its end; what it said until then is not kept."""
        async for _ in self:
            pass
        return self._talk.end

    async def write(self, data: bytes | str) -> None:
        """Input; waits while the program does not read. Reading its output is for another task then."""
        data = data.encode() if isinstance(data, str) else data
        for at in range(0, len(data), INPUT):
            await self._send(b"\0" + data[at : at + INPUT])

    async def end_input(self) -> None:
        await self._send(Talk.end_input())

    async def signal(self, signal: str | int = "TERM", whom: Whom = "all") -> None:
        await self._send(Talk.signal(signal, whom))

    async def kill(self) -> None:
        """Everything it started, at once."""
        await self.signal("KILL")

    async def resize(self, rows: int, columns: int) -> None:
        await self._send(Talk.resize(rows, columns))

    async def close(self) -> None:
        """Leave it, which ends it, unless it was started with `detach`."""
        await self._connection.close()

    async def _read(self) -> Output | None:
        try:
            return self._talk.understand(await self._connection.recv())
        except sockets.Closed as error:
            raise sockets.broken(self._talk.where, error) from error

    async def _send(self, message: str | bytes) -> None:
        try:
            await self._connection.send(message)
        except sockets.Closed as error:
            if not self._talk.ended:
                raise sockets.broken(self._talk.where, error) from error
