"""Whatever is sent, the answer is one of ours: the right status, problem+json, never HTML, never a 500."""

import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringfence.kernel.auth.model import Role
from tests.harness import Ringfence, running
from tests.kernel.wire import Reply, ask, request, until, wire

PATH = "/api/v1/enrolments"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Any:
    """One for all of these: none of them leaves anything behind that another would see."""
    with running(tmp_path_factory.mktemp("http"), template, max_body=20_000) as found:
        yield found


def post(server: Ringfence, body: bytes, *headers: str, path: str = PATH) -> Reply:
    return ask(server, request("POST", path, *headers, body=body, token=server.admin_token))


# Bodies ---------------------------------------------------------------------------------------------------------------

BAD_JSON = {
    "cut off": b'{"uses": 1',
    "a word": b"nope",
    "two values": b"{} {}",
    "a trailing comma": b'{"uses": 1,}',
    "single quotes": b"{'uses': 1}",
    "a comment": b"{/* */}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"uses": 1}'.encode("utf-16"),
    "no UTF-8": b'{"note": "\xff"}',
    "an encoded surrogate": b'{"note": "\xed\xa0\x80"}',
    "a lone surrogate": b'{"note": "\\ud800"}',
    "a lone low surrogate": b'{"note": "\\udc00x"}',
    "a raw NUL": b'{"note": "a\0b"}',
    "an escaped NUL": b'{"note": "a\\u0000b"}',
    "a NUL in a key": b'{"no\\u0000te": "a"}',
    "NaN": b'{"days": NaN}',
    "Infinity": b'{"days": Infinity}',
    "-Infinity": b'{"days": -Infinity}',
    "nan as text": b'{"days": "nan"}',
    "beyond a float": b'{"days": 1e400}',
    "beyond an int": b'{"uses": 1e400}',
    "a number of 10,000 digits": b'{"uses": ' + b"9" * 10_000 + b"}",
    "a number beyond 64 bits": b'{"uses": 18446744073709551617}',
    "a negative number": b'{"uses": -1}',
    "nothing": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"1",
    "deep lists": b'{"projects": ' + b"[" * 19_000,
    "deep lists that end": b'{"projects": ' + b"[" * 9000 + b"]" * 9000 + b"}",
    "deep objects": b'{"a":' * 3000,
    "a text for a number": b'{"uses": "1"}',
    "a truth for a number": b'{"uses": true}',
    "a fraction for a number": b'{"uses": 1.5}',
    "a number for a text": b'{"note": 1}',
    "an object for a list": b'{"projects": {}}',
    "a list for a text": b'{"note": []}',
    "null for a number": b'{"uses": null}',
    "a text that is too long": b'{"note": "' + b"x" * 300 + b'"}',
    "a list that is too long": b'{"scopes": [' + b'"x",' * 20 + b'"x"]}',
    "an unknown scope": b'{"scopes": ["god"]}',
}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_a_body_that_cannot_be_understood_is_refused_with_a_reason(server: Ringfence, body: bytes) -> None:
    assert post(server, body).is_problem(400)


def test_a_body_that_is_no_object_is_told_what_to_be(server: Ringfence) -> None:
    assert post(server, b"[1]").json["detail"] == "the body must be a JSON object: {…}"


def test_a_hundred_thousand_levels_are_too_many(tmp_path: Path, template: Path) -> None:
    with running(tmp_path / "data", template) as server:
        for body in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
            assert post(server, body).is_problem(400)


def test_unknown_fields_and_parameters_are_named(server: Ringfence) -> None:
    told = post(server, b'{"usse": 1, "uses": 1}').json
    assert "'usse' is not known here" in told["detail"]
    assert "uses, scopes, projects" in told["detail"]
    told = ask(server, request("GET", "/api/v1/audit?limt=1", token=server.admin_token)).json
    assert "query parameter 'limt' is not known here" in told["detail"]
    assert "limit" in told["detail"]
    told = post(server, b'{"' + b"x" * 5000 + b'": 1}').json
    assert len(told["detail"]) < 500


def test_of_a_key_given_twice_the_last_counts(server: Ringfence) -> None:
    assert post(server, b'{"uses": 7, "uses": 2}').json["uses_left"] == 2


def test_odd_but_possible_text_is_kept_as_it_is(server: Ringfence) -> None:
    for note in (
        "ä€😀",
        "\u202e\u200b",
        "a\\b\"c'",
        "<script>",
        "\x01\x1f\x7f",
        "e\u0301",
        "\ufffe",
        "\U0010ffff",
        " ",
    ):
        assert post(server, json.dumps({"note": note}).encode()).json["note"] == note
    assert post(server, b"").status == 201  # nothing given: everything as it is when not given


def test_a_body_over_the_limit_is_refused_however_it_is_sent(server: Ringfence) -> None:
    big = b'{"note": "' + b"x" * 30_000 + b'"}'
    assert post(server, big).is_problem(413)
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (big[:9000], big[9000:])) + b"0\r\n\r\n"
    assert post(server, chunked, "Transfer-Encoding: chunked").is_problem(413)
    announced = request("POST", PATH, "Content-Length: 999999999999", token=server.admin_token)
    assert ask(server, announced + b"{").is_problem(413)  # at once: nothing of it has to arrive
    endless = request("POST", PATH, "Transfer-Encoding: chunked", token=server.admin_token)
    with wire(server) as connection:
        connection.send(endless)
        for _ in range(12):
            connection.send(b"1000\r\n" + b" " * 4096 + b"\r\n")
        assert connection.reply().is_problem(413)
    assert post(server, b" " * 19_998 + b"{}").status == 201


def test_an_announced_length_that_lies_is_not_believed(server: Ringfence) -> None:
    short = request("POST", PATH, "Content-Length: 2", token=server.admin_token, body=b'{} {"uses": 9}')
    with wire(server) as connection:
        connection.send(short)
        assert connection.reply().status in (201, 400)  # the rest is no request
    with wire(server) as connection:  # a client that hangs up before all of it is there
        connection.send(request("POST", PATH, "Content-Length: 50", token=server.admin_token, body=b"{}"))
        connection.socket.shutdown(socket.SHUT_WR)
    until(lambda: server.house.database.waiting == 0)


def test_a_slow_body_keeps_nobody_else_waiting(server: Ringfence) -> None:
    with wire(server) as slow:
        slow.send(request("POST", PATH, "Content-Length: 2", token=server.admin_token)).send(b"{")
        for _ in range(20):
            assert ask(server, request("GET", "/ping")).status == 200
        assert slow.send(b"}").reply().status == 201


def test_who_expects_a_go_ahead_gets_it(server: Ringfence) -> None:
    with wire(server) as connection:
        connection.send(request("POST", PATH, "Content-Length: 2", "Expect: 100-continue", token=server.admin_token))
        assert b"100" in connection.line()
        connection.line()
        assert connection.send(b"{}").reply().status == 201


# Paths and queries ----------------------------------------------------------------------------------------------------

ODD_PATHS = [
    "/nope", "/ping/", "//ping", "/PING", "/ping%00", "/api/v1/tokens/%00", "/api/v1/people/%0d%0aX:%20y",
    "/api/v1/people/%ff%fe", "/api/v1/people/%", "/api/v1/people/%zz", "/api/v1/people/%u0041", "/api/v1/people/..",
    "/api/v1/people/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/people/" + "x" * 5000,
    "/api/v1/people/%f0%9f%98%80", "/api/v1//people", "/api/v1/people/a/b", "/.", "/..", "/;x", "/ping;x=1", "/*", "/%",
    "/api/v1/people/%1b%5b2J", "/api/v1/people/%7f", "/openapi.json/", "/signin/", "/%c0%ae%c0%ae/",
]  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS)
def test_an_odd_path_is_not_found(server: Ringfence, path: str) -> None:
    assert ask(server, request("GET", path, token=server.admin_token)).is_problem(404, 405)
    assert ask(server, request("PATCH", path, token=server.admin_token, body=b"{}")).is_problem(404, 405)


ODD_QUERIES = [
    "limit=abc", "limit=", "limit=-1", "limit=0", "limit=1001", "limit=1e2", "limit=99999999999999999999999",
    "limit=%00",
    "limit=%ff", "cursor=%00", "cursor=abc", "cursor=-1", "cursor=" + "9" * 30, "=1", "%ff=1", "limit=1&x=%zz", "a[]=1",
    "newest_first=maybe", "kind=%00", "kind=" + "x" * 65, "limit=NaN", "limit=1.5",
    "limit=2&limit=1", "actor=a&actor=a", "&".join(["kind=a"] * 101),
]  # fmt: skip


@pytest.mark.parametrize("query", ODD_QUERIES)
def test_an_odd_query_is_refused(server: Ringfence, query: str) -> None:
    assert ask(server, request("GET", f"/api/v1/audit?{query}".encode(), token=server.admin_token)).is_problem(400)


@pytest.mark.parametrize("query", ["", "limit=1", "limit=%31", "kind=%ff", "kind=%F0%9F%98%80", "&&"])
def test_an_unusual_query_that_makes_sense_is_answered(server: Ringfence, query: str) -> None:
    assert ask(server, request("GET", f"/api/v1/audit?{query}", token=server.admin_token)).status == 200


def test_a_very_long_address_is_answered(server: Ringfence) -> None:
    for length in (8_000, 30_000, 60_000):
        assert ask(server, request("GET", "/" + "x" * length)).is_problem(404, 414, 431, 400)
        assert ask(server, request("GET", "/ping?" + "x" * length)).is_problem(400, 414, 431)


# Methods and headers --------------------------------------------------------------------------------------------------


def test_a_wrong_method_is_told_which_are_right(server: Ringfence) -> None:
    for method, path, allow in (
        ("DELETE", "/ping", "GET, HEAD, POST"),
        ("OPTIONS", "/ping", "GET, HEAD, POST"),
        ("PUT", "/api/v1/people/ann", "PATCH"),
        ("PATCH", PATH, "POST"),
        ("GET", PATH, "POST"),
        ("TRACE", "/ping", "GET, HEAD, POST"),
        ("PROPFIND", "/api/v1/people", "GET, HEAD, POST"),
    ):
        reply = ask(server, request(method, path, token=server.admin_token))
        assert reply.is_problem(405)
        assert reply.headers["allow"] == allow
        assert "access-control-allow-origin" not in reply.headers
    assert ask(server, request("BREW", "/ping")).status == 400


def test_head_answers_as_get_does_without_the_body(server: Ringfence) -> None:
    for path in ("/ping", "/", "/openapi.json", "/api/v1/people", "/api/v1/nope"):
        got = ask(server, request("GET", path, token=server.admin_token))
        with wire(server) as connection:
            head = connection.send(request("HEAD", path, token=server.admin_token)).reply("HEAD")
            assert (head.status, head.headers["content-type"]) == (got.status, got.headers["content-type"])
            assert head.body == b""
            assert connection.send(request("GET", "/ping")).reply().status == 200  # nothing was left on the wire


def test_every_answer_names_its_request_and_no_header_can_be_put_in(server: Ringfence) -> None:
    assert ask(server, request("GET", "/ping", "X-Request-ID: abc-1.2_3")).headers["x-request-id"] == "abc-1.2_3"
    for odd in ("", "a b", "x" * 65, "a\tb", "\xff", "<script>", "a;b", "ä"):
        given = ask(server, request("GET", "/nope", f"X-Request-ID: {odd}"))
        assert given.headers["x-request-id"].startswith("req_")
        assert given.json["request_id"] == given.headers["x-request-id"]
    reply = ask(server, b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-ID: a\r\n b: c\r\n\r\n")
    assert "b" not in reply.headers
    assert ask(server, request("GET", "/ping")).headers["x-content-type-options"] == "nosniff"


# What is no HTTP at all is answered below this application: test_protocol.py.
BAD_HTTP = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an unknown version": b"GET /ping HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    "no version": b"GET /ping\r\n\r\n",
    "a wrong length": request("POST", PATH, "Content-Length: abc", body=b"{}"),
    "a negative length": request("POST", PATH, "Content-Length: -1", body=b"{}"),
    "a huge length": request("POST", PATH, "Content-Length: 99999999999999999999999999", body=b"{}"),
    "two lengths": request("POST", PATH, "Content-Length: 2", "Content-Length: 3", body=b"{}"),
    "a length and chunks": request("POST", PATH, "Content-Length: 2", "Transfer-Encoding: chunked", body=b"{}"),
    "chunks that are none": request("POST", PATH, "Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "a space before the colon": b"GET /ping HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    "a header without a colon": b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nnope\r\n\r\n",
    "a NUL in a header": b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n",
    "a NUL in the path": b"GET /pi\0ng HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a space in the path": b"GET /pi ng HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a path of raw bytes": b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a path without a slash": b"GET ping HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "an address of elsewhere": b"GET http://evil.com/ping HTTP/1.1\r\nHost: evil.com\r\n\r\n",
    "a tunnel": b"CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n",
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a bare line end": b"GET /ping HTTP/1.1\nHost: 127.0.0.1\n\n",
}


@pytest.mark.parametrize("data", BAD_HTTP.values(), ids=BAD_HTTP.keys())
def test_what_is_no_good_http_is_refused_and_breaks_nothing(server: Ringfence, data: bytes) -> None:
    with wire(server) as connection:
        reply = connection.send(data).reply()
        assert 400 <= reply.status < 500 or (reply.status == 200 and reply.body == b'{"status":"ok"}')
        assert "html" not in reply.headers["content-type"]
        assert b"Traceback" not in reply.body
    assert ask(server, request("GET", "/ping")).status == 200


def test_requests_sent_without_waiting_are_answered_in_order(server: Ringfence) -> None:
    paths = ["/ping", "/nope", "/api/v1/me", "/healthz", "/api/v1/people", "/api/v1/audit?limit=1"] * 5
    with wire(server) as connection:
        connection.send(
            b"".join(
                request("GET", path, f"X-Request-ID: r{n}", token=server.admin_token) for n, path in enumerate(paths)
            )
        )
        replies = [connection.reply() for _ in paths]
    assert [reply.headers["x-request-id"] for reply in replies] == [f"r{n}" for n in range(len(paths))]
    assert [reply.status for reply in replies] == [200, 404, 200, 200, 200, 200] * 5


def test_an_upgrade_that_is_not_offered_is_not_made(server: Ringfence) -> None:
    headers = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eHh4")
    reply = ask(server, request("GET", "/events", *headers, "Origin: https://evil.com", token=server.admin_token))
    assert reply.status in (400, 403, 404)
    assert ask(server, request("GET", "/ping", "Connection: Upgrade", "Upgrade: h2c")).status in (200, 400)


methods = st.sampled_from(["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"])
pieces = st.sampled_from(
    ["/", "/api/v1/", "people", "tokens", "enrolments", "events", "audit", "agents", "projects", "tasks", "messages",
     "?", "limit=", "&", "=", "%", "%00", "%ff", "%2f", "..", "1", "-1", "x", "*", "#", ";", "{id}", "+", "\u00e9",
     "signin", "register"]
)  # fmt: skip
targets = st.lists(pieces, max_size=8).map(lambda found: "/" + "".join(found).replace("#", "%23"))
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(["name", "uses"]), inner, max_size=3)
    ),
    max_leaves=8,
)
bodies = (
    st.binary(max_size=60)
    | json_like.map(lambda value: json.dumps(value).encode())
    | st.sampled_from(list(BAD_JSON.values()))
)
header_names = st.sampled_from(
    ["Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Request-ID", "Origin", "Cookie", "Accept", "Range",
     "Expect", "X-Ringfence-CSRF", "Connection", "X-Forwarded-For", "X-Forwarded-Host", "Content-Encoding", "If-Match",
     "X-HTTP-Method-Override"]
)  # fmt: skip
header_values = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=20)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(methods, targets, st.lists(st.tuples(header_names, header_values), max_size=3), bodies, st.booleans())
def test_nothing_that_is_sent_makes_a_500(
    server: Ringfence, method: str, target: str, headers: list[tuple[str, str]], body: bytes, known: bool
) -> None:
    lines = [f"{name}: {value}" for name, value in headers]
    token = server.admin_token if known else ""
    data = request(method, target.encode("utf-8"), *lines, "Connection: close", body=body, token=token)
    with wire(server, seconds=5) as connection:
        reply = connection.send(data).reply(method)
        assert reply.status < 500, (reply.status, data)
        kind = reply.headers["content-type"] or ""
        assert "html" not in kind or reply.status == 200  # the page at /
        if reply.status >= 400 and method != "HEAD":
            assert kind == "application/problem+json" or reply.status == 400, (kind, data)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.integers(0, 80), st.sampled_from(list(BAD_HTTP.values())))
def test_bytes_thrown_at_the_socket_break_nothing(server: Ringfence, junk: bytes, cut: int, start: bytes) -> None:
    with wire(server, seconds=5) as connection:
        connection.send(start[:cut] + junk)
        connection.socket.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while more := connection.socket.recv(65536):
                said += more
        except ConnectionResetError:
            pass
        assert b" 500 " not in said
        assert b"Traceback" not in said
    assert ask(server, request("GET", "/ping")).status == 200


# Idempotency-Key ------------------------------------------------------------------------------------------------------


def made(client: httpx.Client, key: str, path: str = PATH, **body: Any) -> httpx.Response:
    return client.post(path, json=body, headers={"idempotency-key": key})


def test_a_repeat_is_answered_as_the_first_was_secrets_and_all(either: Ringfence) -> None:
    first = made(either.admin, "k1", uses=2)
    again = made(either.admin, "k1", uses=2)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (201, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    registered = either.client(again.json()["token"]).post("/agents/register", json={"name": "claude"})
    assert registered.status_code == 201
    either.restart()
    assert made(either.admin, "k1", uses=2).content == first.content
    total = [t for t in either.admin.get("/api/v1/tokens").json()["items"] if t["kind"] == "enrolment"]
    assert len(total) == 1


def test_a_key_used_for_something_else_is_refused(server: Ringfence) -> None:
    assert made(server.admin, "k2", uses=1).status_code == 201
    for answer in (
        made(server.admin, "k2", uses=2),
        made(server.admin, "k2", "/api/v1/tokens", name="ci"),
        server.admin.post(PATH, content=b'{"uses":  1}', headers={"idempotency-key": "k2"}),
    ):
        assert answer.status_code == 409
        assert answer.json()["code"] == "idempotency_key_reused"


def test_the_same_key_of_somebody_else_is_another_key(server: Ringfence) -> None:
    first = made(server.admin, "k3", uses=1).json()
    for token in (server.token("ann", Role.OPERATOR), server.token("admin", Role.ADMIN)):
        other = made(server.client(token), "k3", uses=1)
        assert other.status_code == 201
        assert other.json()["id"] != first["id"]
        mine = other.json()["token"]
        assert server.client(mine).get("/api/v1/me").status_code == 403  # it is known


def test_two_enrolments_may_use_the_same_key(server: Ringfence) -> None:
    tokens = [server.admin.post(PATH, json={}).json()["token"] for _ in range(2)]
    for number, token in enumerate(tokens):
        answer = made(server.client(token), "register", "/agents/register", name=f"same-key-{number}")
        assert answer.status_code == 201
        assert server.client(answer.json()["token"]).get("/api/v1/me").json()["name"] == f"same-key-{number}"


def test_a_request_sent_twice_at_once_runs_once(either: Ringfence) -> None:
    clients = [either.client(either.admin_token) for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda client: made(client, "k4", uses=5), clients))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1


def test_a_failed_request_may_be_repeated_with_its_key(server: Ringfence) -> None:
    server.admin.post("/api/v1/tokens", json={"name": "holder"})
    for status, body in ((400, {"name": "bad name"}), (409, {"name": "holder"})):
        assert made(server.admin, "k5", "/api/v1/people", **body).status_code == status
    assert made(server.admin, "k5", "/api/v1/people", name="fine").status_code == 201


def test_a_key_that_was_forgotten_makes_another_secret(either: Ringfence) -> None:
    first = made(either.admin, "k6", uses=1).json()
    either.clock.advance(86_400 - 100)
    either.write(either.house.auth.forget)
    assert made(either.admin, "k6", uses=1).json() == first
    either.clock.advance(200)
    forever = either.client(either.admin_token)
    either.write(either.house.auth.forget)
    either.admin_token = either.token("admin", Role.ADMIN)
    del forever
    again = made(either.client(either.admin_token), "k6", uses=1)
    assert again.status_code == 201
    assert again.json()["token"] != first["token"]


@pytest.mark.parametrize("key", ["", "x" * 256, "ä", "a\tb", "\xff"])
def test_a_bad_key_is_refused(server: Ringfence, key: str) -> None:
    assert post(server, b"{}", f"Idempotency-Key: {key}").is_problem(400)


# Routes ---------------------------------------------------------------------------------------------------------------


def test_every_registered_path_is_reachable(server: Ringfence) -> None:
    """None is shadowed by a pattern that comes before it: the figures say which one a request came to."""
    paths = {endpoint.path for endpoint in server.house.endpoints}
    for path in paths:
        concrete = re.sub(r"{(\w+)(:\w+)?}", r"\1", path)
        assert ask(server, request("PROPFIND", concrete)).is_problem(405)
    figures = server.admin.get("/metrics").text
    reached = set(re.findall(r'ringfence_http_requests_total{method="other",route="([^"]+)",status="405"}', figures))
    assert reached == paths


def test_no_endpoint_is_declared_twice(server: Ringfence) -> None:
    declared = [(endpoint.method, endpoint.path) for endpoint in server.house.endpoints]
    assert len(set(declared)) == len(declared)


def test_every_create_takes_a_key(server: Ringfence) -> None:
    """What does not, sets a state, which is the same the second time."""
    sets = re.compile(
        r"/(ping|signout|prune|verify|backup|heartbeat|capabilities|autonomy|set-mode|pause|resume|ack|approve|deny|withdraw|join"
        r"|leave|claim|release|assign|unassign|reviewers/\{name\}|start|stop|restart|recreate|input|signal|resize)$"
    )
    for endpoint in server.house.endpoints:
        if endpoint.method == "POST" and not endpoint.creates:
            assert sets.search(endpoint.path), endpoint.path


def test_everything_but_a_few_asks_who_you_are(server: Ringfence) -> None:
    anonymous = server.client()
    open_to_all = set()
    for endpoint in server.house.endpoints:
        path = endpoint.path.replace(":path}", "}").replace("{", "x").replace("}", "x")
        answer = anonymous.request(endpoint.method, path, follow_redirects=False)
        if answer.status_code != 401:
            open_to_all.add(endpoint.path)
        else:
            assert answer.headers["content-type"] == "application/problem+json"
    assert open_to_all == {"/", "/ping", "/healthz", "/readyz", "/openapi.json"}  # /signin asks for a code


def test_the_server_says_how_it_is_doing(server: Ringfence) -> None:
    ready = server.client().get("/readyz").json()
    assert (ready["status"], ready["database"]) == ("ok", "ok")
    page = server.admin.get("/metrics").text
    for name in ("ringfence_http_requests_total", "ringfence_events_last", "ringfence_writes_waiting"):
        assert f"\n{name}" in page
    settings = {setting["name"]: setting["value"] for setting in server.admin.get("/api/v1/config").json()}
    assert settings["max_body"] == 20_000


def test_a_stop_lets_a_request_end_and_then_takes_none(tmp_path: Path, template: Path) -> None:
    with running(tmp_path / "data", template) as server:
        with wire(server) as slow:
            slow.send(request("POST", PATH, "Content-Length: 2", token=server.admin_token)).send(b"{")
            until(lambda: server.house.asgi._metrics.in_flight._value.get() == 1)  # type: ignore[attr-defined]
            stopping = threading.Thread(target=server.stop)
            started = time.monotonic()
            stopping.start()
            until(lambda: server.house.feed.closing)
            assert slow.send(b"}").reply().status == 201
            stopping.join(20)
            assert time.monotonic() - started < 8
        server.start()


def test_methods_that_nobody_answers_do_not_make_the_metrics_grow(server):
    client = server.client(server.admin_token)
    counted = re.compile(r'requests_total\{method="other",route="/ping",status="405"\} ([0-9.]+)')

    def count() -> float:
        return sum(map(float, counted.findall(client.get("/metrics").text)))

    before = count()
    for method in ("PROPFIND", "MKCOL", "LOCK"):
        assert client.request(method, "/ping").status_code == 405
    assert count() == before + 3
    assert "PROPFIND" not in client.get("/metrics").text
