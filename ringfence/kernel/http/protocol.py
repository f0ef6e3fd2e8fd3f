"""HTTP/1.1 on a socket, by uvicorn and httptools, with what they leave open: an end to the head of a request, in bytes
and in seconds, problem+json for what cannot be parsed, and one system call for an answer instead of two."""

import asyncio
import json
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ringfence.kernel.errors import Invalid
from ringfence.kernel.http.application import problem
from ringfence.kernel.ids import new

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 20.0
GATHERED_BYTES = 32 * 1024


class _Gathered:
    """A transport that keeps what is written until this step of the loop is over: the head of an answer and its body
    leave together, and so do the answers to requests that came together."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.plain = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= GATHERED_BYTES:  # only the transport knows that nobody reads, and says so at once
            self.flush()

    def close(self) -> None:
        self.flush()
        self.plain.close()

    def is_closing(self) -> bool:
        return self.plain.is_closing()

    def flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting and not self.plain.is_closing():
            self.plain.write(b"".join(waiting))


class Protocol(HttpToolsProtocol):
    head_bytes = HEAD_BYTES
    head_seconds = HEAD_SECONDS

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._in_head = True
        self._head = 0
        self._declined = False  # this request offers an upgrade that we do not take
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._gathered = _Gathered(transport, self.loop)
        self.transport = self._gathered  # type: ignore[assignment]
        self._deadline = self.loop.call_later(self.head_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(400, "this is not HTTP/1.1 as it is written down", "invalid_http")
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            elif self._declined:
                self._read_again(data[upgrade.args[0] :])
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)
            if self._head > self.head_bytes:
                self._refuse(431, f"the head of the request has more than {self.head_bytes} bytes", "head_too_large")
            elif self._deadline is None:
                self._deadline = self.loop.call_later(self.head_seconds, self._late)

    def _should_upgrade(self) -> bool:
        """A WebSocket is asked for by GET and a version; other offers are declined, and their requests answered."""
        asked = super()._should_upgrade() and self.parser.get_method() == b"GET"
        return asked and (b"sec-websocket-version", b"13") in self.headers

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        asked = self.parser.should_upgrade() and not self._should_upgrade()
        self._declined = asked and self.parser.get_method() != b"CONNECT"
        if not self._declined:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._declined:
            super().on_message_complete()

    def _read_again(self, body: bytes) -> None:
        """A client may offer to go on in another protocol (`Upgrade: h2c`), and is answered as if it had not. To the
        parser such a request has no body, so it is given the request once more, without the offer."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        self.data_received(b"\r\n".join([*lines, b"", body]))

    def handle_websocket_upgrade(self) -> None:
        self._gathered.flush()
        self.transport = self._gathered.plain  # whoever takes over writes for itself
        super().handle_websocket_upgrade()

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
