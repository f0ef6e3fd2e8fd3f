"""What is no good HTTP, or takes too long to become some, on a socket of our own protocol."""

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from ringfence.kernel.http.protocol import Protocol
from tests.harness import Ringfence, running
from tests.kernel.test_http import BAD_HTTP, PATH
from tests.kernel.wire import Wire, request, until, wire

MORE = {
    "a raw query": "GET /ping?a=ü HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
    "a control character in a header": b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \x7f\r\n\r\n",
    "a chunk that is none, later": request("POST", PATH, "Transfer-Encoding: chunked", body=b"2\r\n{}\r\nzz\r\n"),
}


class Hasty(Protocol):
    head_seconds = 0.3


class Echo(asyncio.Protocol):
    """What takes a connection over that was upgraded: it says the bytes again."""

    def __init__(self, **_: Any) -> None:
        pass

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert not hasattr(transport, "plain"), "it is the transport itself"
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Flood:
    """An application that never waits for anything but `send`."""

    chunk, chunks = b"x" * 16_000, 3_000
    size = len(chunk) * chunks
    sent = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.sent = 0
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(self.chunks):
            await send({"type": "http.response.body", "body": self.chunk, "more_body": True})
            self.sent += 1
        await send({"type": "http.response.body", "body": b""})

    def is_still(self) -> bool:
        before = self.sent
        time.sleep(0.1)
        return self.sent == before


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path_factory.mktemp("protocol"), template) as found:
        yield found


@pytest.fixture(scope="module")
def port(server: Ringfence) -> int:
    """The real server's."""
    return server.port


@pytest.fixture(scope="module")
def hasty(server: Ringfence) -> Iterator[int]:
    yield from _listening(server, server.house.asgi, http=Hasty)


@pytest.fixture(scope="module")
def upgrading(server: Ringfence) -> Iterator[int]:
    yield from _listening(server, server.house.asgi, http=Protocol, ws=Echo)


@pytest.fixture(scope="module")
def flood() -> Flood:
    return Flood()


@pytest.fixture(scope="module")
def flooding(server: Ringfence, flood: Flood) -> Iterator[int]:
    yield from _listening(server, flood, http=Protocol)


def _listening(server: Ringfence, application: Any, **more: Any) -> Iterator[int]:
    """An application on one more socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, lifespan="off", log_config=None, server_header=False, **more)
    front = uvicorn.Server(config)
    serving = asyncio.run_coroutine_threadsafe(front.serve(sockets=[listener]), server.loop)
    yield listener.getsockname()[1]
    front.should_exit = True
    serving.result(20)
    listener.close()


@pytest.mark.parametrize("data", [*BAD_HTTP.values(), *MORE.values()], ids=[*BAD_HTTP, *MORE])
def test_what_is_no_good_http_is_told_so_as_everything_else(port: int, data: bytes) -> None:
    with wire(port) as connection:
        reply = connection.send(data).reply()
        assert reply.status == 200 or reply.is_problem()
    with wire(port) as connection:
        assert connection.send(request("GET", "/ping")).reply().status == 200


def test_a_good_request_is_answered_though_the_next_is_none(server: Ringfence, port: int) -> None:
    good = request("POST", PATH, "Content-Length: 2", token=server.admin_token, body=b"{}")
    with wire(port) as connection:
        connection.send(good + b"nonsense\r\n\r\n")
        assert connection.reply().status == 201
        assert connection.ended()


def test_a_head_without_end_is_cut_off(port: int) -> None:
    for line in (b"X-%d: " + b"x" * 1000 + b"\r\n", b"Cookie: %d=" + b"y" * 3000 + b"\r\n"):
        with wire(port) as connection:
            connection.send(b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            for number in range(200):
                connection.send(line % number)
            assert connection.reply().is_problem(431)
    with wire(port) as connection:
        connection.send(b"GET /" + b"x" * 200_000)
        assert connection.reply().is_problem(431)
    with wire(port) as connection:
        assert connection.send(request("GET", "/ping", "X: " + "x" * 60_000)).reply().status == 200


@pytest.mark.parametrize(
    "start", [b"", b"GET", b"GET /ping HTTP/1.1\r\n", b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nX"]
)
def test_a_head_that_does_not_arrive_is_not_waited_for(hasty: int, start: bytes) -> None:
    with wire(hasty) as connection:
        started = time.monotonic()
        connection.send(start)
        assert connection.reply().is_problem(408)
        assert connection.ended()
        assert time.monotonic() - started < 10


def test_a_head_that_drips_is_not_waited_for_either(hasty: int) -> None:
    with wire(hasty) as connection:
        assert connection.send(request("GET", "/ping")).reply().status == 200
        started = time.monotonic()
        try:
            for sign in b"GET /ping HTTP/1.1\r\n" + b"X" * 10_000:
                connection.socket.sendall(bytes([sign]))
                time.sleep(0.01)
        except OSError:
            pass
        assert time.monotonic() - started < 10
        assert connection.reply().is_problem(408)


def test_a_connection_that_is_used_has_all_the_time_it_needs(server: Ringfence, hasty: int) -> None:
    with wire(hasty) as connection:
        post = request("POST", PATH, "Content-Length: 2", token=server.admin_token)
        connection.send(post)
        time.sleep(0.6)
        assert connection.send(b"{}").reply().status == 201
        time.sleep(0.6)
        assert connection.send(request("GET", "/ping")).reply().status == 200


UPGRADES = {
    "HTTP/2": ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"),
    "a WebSocket": ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: eHh4"),
}


@pytest.mark.parametrize("offer", UPGRADES.values(), ids=UPGRADES.keys())
def test_a_request_that_offers_another_protocol_is_answered_in_this_one(
    server: Ringfence, port: int, offer: tuple[str, ...]
) -> None:
    """As many clients do with every request: its body counts, and so do the requests after it."""
    body = b'{"note": "its body was read"}'
    whole = request("POST", PATH, *offer, token=server.admin_token, body=body)
    head, _, tail = whole.partition(b"\r\n\r\n")
    chunked = request("POST", PATH, *offer, "Transfer-Encoding: chunked", token=server.admin_token)
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with wire(port) as connection:
        for parts in ((whole,), (head + b"\r\n\r\n", tail), (chunked + chunks,), (chunked, chunks)):
            for part in parts:
                connection.send(part)
            connection.send(request("GET", "/ping"))
            assert connection.reply().json["note"] == "its body was read"
            assert connection.reply().status == 200


def test_a_connection_that_is_upgraded_is_handed_over_after_the_answers_before(upgrading: int) -> None:
    upgrade = request("GET", "/ws", *UPGRADES["a WebSocket"], "Sec-WebSocket-Version: 13")
    with wire(upgrading) as connection:
        assert connection.send(request("GET", "/ping")).reply().status == 200
        connection.send(upgrade)
        assert connection.line() == b"GET /ws HTTP/1.1\r\n"
        while connection.line() != b"\r\n":
            pass
        for word in (b"one\n", b"two\n"):
            assert connection.send(word).line() == word


def test_who_does_not_read_is_not_written_to_for_ever(flood: Flood, flooding: int) -> None:
    """Though the application never waits: no more is kept for it than a socket's buffers and ours hold."""
    with wire(flooding, receive_buffer=4096) as connection:
        connection.send(request("GET", "/"))
        until(lambda: flood.sent > 0 and flood.is_still())
        assert flood.sent < flood.chunks / 3
        assert len(connection.reply().body) == flood.size


def test_who_leaves_in_the_middle_of_an_answer_breaks_nothing(
    flood: Flood, flooding: int, caplog: pytest.LogCaptureFixture
) -> None:
    for leave in (Wire.close, _reset):
        connection = Wire(flooding)
        connection.send(request("GET", "/")).line()
        leave(connection)
        until(flood.is_still)
    with wire(flooding) as connection:
        assert len(connection.send(request("GET", "/")).reply().body) == flood.size
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def _reset(connection: Wire) -> None:
    """Not a farewell, but an RST."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_an_answer_is_one_segment(port: int) -> None:
    """The head and the body of an answer leave in one system call: the first read has both."""
    with wire(port) as connection:
        for _ in range(20):
            connection.send(request("GET", "/ping"))
            assert connection.socket.recv(65536).endswith(b'{"status":"ok"}')


def test_an_answer_and_the_end_of_the_connection_arrive_whole(port: int) -> None:
    with wire(port) as connection:
        assert connection.send(request("GET", "/openapi.json", "Connection: close")).reply().json["openapi"]
        assert connection.ended()
