"""A connection that costs its user little, so that what is timed is the server."""

import asyncio
import json
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from bench.subjects import Subject


class Connection:
    """One request at a time. The hub closes after each answer; `ready()` opens again before anything is timed."""

    def __init__(self, subject: Subject) -> None:
        self._address = subject.address
        token = f"Authorization: Bearer {subject.token}\r\n" if subject.token else ""
        self._headers = f"Host: {self._address[0]}\r\n{token}Content-Type: application/json\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        await self.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    async def ready(self) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)

    async def post(self, path: str, body: object) -> int:
        """The status of the answer, once all of it has come."""
        return (await self.ask("POST", path, body))[0]

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """The status of the answer, and what it holds."""
        await self.ready()
        assert self._streams is not None
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        fields = dict(line.split(b": ", 1) for line in answer.split(b"\r\n")[1:-2])
        held = await reader.readexactly(int(fields[b"content-length"]))
        if fields.get(b"connection") == b"close":
            self._close()
        return int(answer.split(b" ", 2)[1]), held

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def post_all(subject: Subject, requests: Iterable[tuple[str, object]], connections: int = 16) -> None:
    """Each request once, as fast as the server answers; one that is refused ends it."""
    waiting = iter(requests)

    async def work() -> None:
        async with Connection(subject) as connection:
            for path, body in waiting:
                status = await connection.post(path, body)
                if status >= 300:
                    raise RuntimeError(f"{subject.name} answered {status} to {path}")

    await asyncio.gather(*(work() for _ in range(connections)))
