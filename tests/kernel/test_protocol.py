"""What is no good HTTP, or takes too long to become some, on a socket of our own protocol."""

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from ringfence.kernel.http.protocol import Protocol
from tests.harness import Ringfence, running
from tests.kernel.test_http import BAD_HTTP, PATH
from tests.kernel.wire import request, wire

MORE = {
    "a raw query": "GET /ping?a=ü HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
    "a control character in a header": b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \x7f\r\n\r\n",
    "a chunk that is none, later": request("POST", PATH, "Transfer-Encoding: chunked", body=b"2\r\n{}\r\nzz\r\n"),
}


class Hasty(Protocol):
    head_seconds = 0.3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path_factory.mktemp("protocol"), template) as found:
        yield found


@pytest.fixture(scope="module")
def port(server: Ringfence) -> Iterator[int]:
    yield from _listening(server, Protocol)


@pytest.fixture(scope="module")
def hasty(server: Ringfence) -> Iterator[int]:
    yield from _listening(server, Hasty)


def _listening(server: Ringfence, protocol: type[Protocol]) -> Iterator[int]:
    """The same application on one more socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server.house.asgi, http=protocol, lifespan="off", log_config=None, server_header=False)
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
