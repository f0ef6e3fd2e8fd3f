"""A port of this machine's loopback that leads to a port in a sandbox: each connection is a WebSocket of its own."""

import asyncio
import contextlib
import json
import socket
import threading
from types import TracebackType
from typing import Self

from ringfence.sdk.errors import RingfenceError
from ringfence.sdk.sockets import Closed, Sockets

PIECE = 64 << 10
LOOPBACK = "127.0.0.1"
END = json.dumps({"type": "end_input"})


class Forward:
    """Listens until it is closed. `port` is where; `error` is what the last connection that failed failed with."""

    def __init__(self, sockets: Sockets, where: str, local: int) -> None:
        self._sockets, self._where = sockets, where
        self._listening = socket.create_server((LOOPBACK, local))
        self.port: int = self._listening.getsockname()[1]
        self.error: RingfenceError | None = None
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name=f"forward of {self.port}", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self) -> None:
        """Until it is closed."""
        self._thread.join()

    def close(self) -> None:
        for one in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        try:
            with client, self._sockets.open(self._where) as there:
                sending = threading.Thread(target=_send, args=(client, there), daemon=True)
                sending.start()
                with contextlib.suppress(Closed, OSError):
                    while isinstance(said := there.recv(), bytes):
                        client.sendall(said)
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
                sending.join()
        except RingfenceError as error:
            self.error = error
        finally:
            self._open.discard(client)


def _send(client: socket.socket, there: object) -> None:
    connection: object = there
    with contextlib.suppress(Closed, OSError):
        while data := client.recv(PIECE):
            connection.send(data)  # type: ignore[attr-defined]
        connection.send(END)  # type: ignore[attr-defined]


class AsyncForward:
    """`Forward` for asyncio."""

    def __init__(self, sockets: Sockets, where: str) -> None:
        self._sockets, self._where = sockets, where
        self.port = 0
        self.error: RingfenceError | None = None
        self._server: asyncio.Server

    @classmethod
    async def opened(cls, sockets: Sockets, where: str, local: int) -> Self:
        forward = cls(sockets, where)
        forward._server = await asyncio.start_server(forward._serve, LOOPBACK, local)
        forward.port = forward._server.sockets[0].getsockname()[1]
        return forward

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def wait(self) -> None:
        """Until it is closed."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._server.serve_forever()

    async def close(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await self._sockets.open_awaited(self._where)
        except RingfenceError as error:
            self.error = error
            writer.close()
            return

        async def send() -> None:
            with contextlib.suppress(Closed, OSError):
                while data := await reader.read(PIECE):
                    await there.send(data)
                await there.send(END)

        sending = asyncio.create_task(send(), name="forward")
        try:
            with contextlib.suppress(Closed, OSError):
                while isinstance(said := await there.recv(), bytes):
                    writer.write(said)
                    await writer.drain()
        finally:
            writer.close()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await there.close()
