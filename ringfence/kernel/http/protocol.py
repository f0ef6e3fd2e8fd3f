"""HTTP/1.1 on a socket, by uvicorn and httptools, with what they leave open: an end to the head of a request, in bytes
and in seconds, problem+json for what cannot be parsed, and one system call for an answer instead of two."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ringfence.kernel.errors import Invalid
from ringfence.kernel.http.application import problem
from ringfence.kernel.ids import new

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 20.0


class _Gathered:
    """A transport that keeps what is written until this step of the loop is over: the head of an answer and its body
    leave together, and so do the answers to requests that came together."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class Protocol(HttpToolsProtocol):
    head_bytes = HEAD_BYTES
    head_seconds = HEAD_SECONDS

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._in_head = True
        self._head = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = _Gathered(transport, self.loop)  # type: ignore[assignment]
        self._deadline = self.loop.call_later(self.head_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)
            if self._head > self.head_bytes:
                self._refuse(431, f"the head of the request has more than {self.head_bytes} bytes", "head_too_large")
            elif self._deadline is None:
                self._deadline = self.loop.call_later(self.head_seconds, self._late)

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not HTTP/1.1 as it is written down", "invalid_http")

    def _late(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self._refuse(408, f"the head of the request did not arrive within {self.head_seconds:g} s", "too_slow")

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: int, message: str, code: str) -> None:
        """Answer and hang up; after the answers that are under way, as far as they can be given."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            if not self.cycle.more_body:
                self.cycle.keep_alive = False
                self.flow.pause_reading()
                return
            if self.cycle.response_started or self.pipeline:
                self.transport.close()
                return
        body = json.dumps(problem(Invalid(message, code=code), status, new("req"))).encode()
        self.transport.write(
            b"%scontent-type: application/problem+json\r\nx-content-type-options: nosniff\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (STATUS_LINE[status], len(body), body)
        )
        self.transport.close()
