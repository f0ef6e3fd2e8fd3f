"""Bytes on a socket, for what no client library would send."""

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.harness import Ringfence


@dataclass
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_problem(self, *statuses: int) -> bool:
        """Whether this is an error as every error is to be told."""
        assert self.status in (statuses or range(400, 500)), (self.status, self.body[:500])
        assert self.headers["content-type"] == "application/problem+json", self.body[:200]
        assert b"Traceback" not in self.body
        told = self.json
        assert {"type", "title", "status", "detail", "code", "error", "request_id"} <= set(told)
        assert told["status"] == self.status
        assert told["detail"] == told["error"]
        return True


class Wire:
    """One connection."""

    def __init__(self, port: int, receive_buffer: int | None = None, seconds: float = 20) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(seconds)
        self.socket.connect(("127.0.0.1", port))
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> "Wire":
        # A server that has answered and hung up already does not read the rest.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)
        return self

    def reply(self, method: str = "GET") -> Reply:
        """The next answer; of a stream of events only its head."""
        response = http.client.HTTPResponse(self, method=method)  # type: ignore[arg-type]
        response.begin()
        streams = (response.headers["content-type"] or "").startswith("text/event-stream")
        return Reply(response.status, response.headers, b"" if streams else response.read())

    def makefile(self, *_: object, **__: object) -> Any:
        """What HTTPResponse reads from; it closes it, and more replies may follow."""
        return _Kept(self._file)

    def line(self) -> bytes:
        return self._file.readline()

    def ended(self) -> bool:
        """Whether the server hung up, having said nothing more."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class _Kept:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        pass


@contextlib.contextmanager
def wire(server: Ringfence | int, **more: Any) -> Iterator[Wire]:
    found = Wire(server if isinstance(server, int) else server.port, **more)
    try:
        yield found
    finally:
        found.close()


def request(
    method: str, target: str | bytes, *headers: str | bytes, body: bytes = b"", token: str = "", host: str = "127.0.0.1"
) -> bytes:
    """A request as it goes over the wire; nothing about it is checked."""
    raw = target if isinstance(target, bytes) else target.encode()
    lines = [method.encode() + b" " + raw + b" HTTP/1.1", f"Host: {host}".encode()] if host else []
    if not host:
        lines = [method.encode() + b" " + raw + b" HTTP/1.1"]
    if token:
        lines.append(f"Authorization: Bearer {token}".encode())
    lines += [header if isinstance(header, bytes) else header.encode("latin-1") for header in headers]
    names = {line.partition(b":")[0].lower() for line in lines}
    if body and not {b"content-length", b"transfer-encoding"} & names:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


def ask(server: Ringfence, data: bytes, method: str = "GET") -> Reply:
    with wire(server) as connection:
        return connection.send(data).reply(method)


class Stream:
    """An open event stream, read event by event."""

    def __init__(self, port: int, token: str, after: int | None = None, query: str = "", **more: Any) -> None:
        self.wire = Wire(port, **more)
        last = [] if after is None else [f"Last-Event-ID: {after}"]
        self.wire.send(request("GET", f"/events{query}", *last, token=token))
        self.status = int(self.wire.line().split()[1])
        self.headers = dict(iter(self._header, None))
        self.ended = False
        self._text = b""

    def _header(self) -> tuple[str, str] | None:
        name, _, value = self.wire.line().decode().strip().partition(": ")
        return (name.lower(), value) if name else None

    def _line(self) -> bytes:
        while b"\n" not in self._text:
            size = int(self.wire.line() or b"0", 16)
            if size == 0:
                self.ended = True
                return b""
            self._text += self.wire._file.read(size)
            self.wire.line()
        line, _, self._text = self._text.partition(b"\n")
        return line

    def block(self) -> dict[str, str]:
        """The next block of the stream: an event, or a comment (under the name ``)."""
        found: dict[str, str] = {}
        while line := self._line():
            name, _, value = line.decode().partition(": ")
            found[name] = value
        return found

    def event(self) -> dict[str, str] | None:
        """The next event; None at the end."""
        while True:
            found = self.block()
            if "data" in found or self.ended:
                return found if "data" in found else None

    def events(self, through: int) -> list[int]:
        """The numbers of the events up to number `through`."""
        numbers: list[int] = []
        while not numbers or numbers[-1] < through:
            found = self.event()
            assert found is not None, f"the stream ended after {numbers[-3:]}"
            numbers.append(int(found["id"]))
        return numbers

    def close(self) -> None:
        self.wire.close()


@contextlib.contextmanager
def stream(
    server: Ringfence, token: str = "", after: int | None = None, query: str = "", **more: Any
) -> Iterator[Stream]:
    found = Stream(server.port, token or server.admin_token, after, query, **more)
    try:
        yield found
    finally:
        found.close()


def until(condition: Any, seconds: float = 20) -> None:
    """Wait for what happens by itself."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
