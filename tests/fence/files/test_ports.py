"""TCP ports inside native sandboxes: listed, and connected to over a WebSocket."""

import json

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ringfence.kernel.auth.model import Role
from tests.fence.conftest import until
from tests.fence.files.conftest import Box
from tests.harness import Ringfence

ECHO = """
import socket, threading
server = socket.create_server(("127.0.0.1", 7007))
def serve(found):
    while data := found.recv(65536):
        found.sendall(data)
    found.sendall(b"bye")
    found.close()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],)).start()
"""


@pytest.fixture
def echo(box: Box) -> Box:
    box.write("echo.py", ECHO.encode())
    box.admin.post(f"{box.path}/exec", json={"argv": ["python3", "echo.py"], "detach": True})
    until(lambda: ports(box), "it listens")
    return box


def ports(box: Box) -> dict[int, bool]:
    found = box.admin.get(f"{box.path}/ports").json()["items"]
    return {each["port"]: each["reachable"] for each in found}


def test_ports_are_listed_with_whether_they_can_be_reached(box: Box) -> None:
    assert ports(box) == {}
    box.write(
        "listen.py",
        b"import socket, time\nfor host, port in (('127.0.0.1', 1111), ('0.0.0.0', 2222), ('127.0.0.5', 3333)):\n"
        b"  s = socket.create_server((host, port)); globals()[host] = s\ntime.sleep(60)",
    )
    box.admin.post(f"{box.path}/exec", json={"argv": ["python3", "listen.py"], "detach": True})
    until(lambda: len(ports(box)) == 3, "all listen")
    assert ports(box) == {1111: True, 2222: True, 3333: False}


def test_bytes_go_to_a_port_and_come_back(echo: Box) -> None:
    with echo.socket("ports/7007") as ws:
        ws.send(b"hello")
        assert ws.recv(5) == b"hello"
        ws.send(json.dumps({"type": "end_input"}))
        assert ws.recv(5) == b"bye"
        with pytest.raises(ConnectionClosed):
            ws.recv(5)
    assert [one["port"] for one in echo.events("port_dialled")] == [7007]


def test_much_goes_through_a_port_whole(echo: Box) -> None:
    sent = bytes(range(256)) * 8000
    got = bytearray()
    with echo.socket("ports/7007") as ws:
        for at in range(0, len(sent), 64_000):
            ws.send(sent[at : at + 64_000])
            while len(got) < at:
                got += bytes(ws.recv(10))  # type: ignore[arg-type]
        while len(got) < len(sent):
            got += bytes(ws.recv(10))  # type: ignore[arg-type]
    assert bytes(got) == sent


def test_a_client_that_goes_away_ends_the_connection(echo: Box) -> None:
    with echo.socket("ports/7007") as ws:
        ws.send(b"x")
        ws.recv(5)
        assert echo.acts() == 1
    until(lambda: not echo.acts(), "the connection has ended")


@pytest.mark.parametrize(("where", "status", "code"), [
    ("ports/7008", 409, "port_closed"), ("ports/0", 400, "invalid_port"), ("ports/65536", 400, "invalid_port"),
    ("ports/x", 400, "invalid_port"), ("ports/99999999999999", 400, "invalid_port"),
])  # fmt: skip
def test_a_port_that_does_not_answer_is_refused_before_there_is_a_connection(
    box: Box, where: str, status: int, code: str
) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        box.socket(where)
    assert refusal.value.response.status_code == status
    assert json.loads(refusal.value.response.body or b"")["code"] == code


def test_ports_are_for_who_may_use_the_sandbox(echo: Box, native: Ringfence) -> None:
    for token in (native.token("vera", Role.VIEWER), "nonsense"):
        with pytest.raises(InvalidStatus):
            echo.socket("ports/7007", token)
    agent = native.agent("port-thief").headers["authorization"][7:]
    with pytest.raises(InvalidStatus) as refusal:
        echo.socket("ports/7007", agent)
    assert refusal.value.response.status_code == 404


@pytest.mark.parametrize("said", ["no json", '{"type": "dance"}'])
def test_a_text_message_that_is_none_closes_the_connection(echo: Box, said: str) -> None:
    with echo.socket("ports/7007") as ws:
        ws.send(said)
        assert json.loads(ws.recv(5))["type"] == "error"
        with pytest.raises(ConnectionClosed):
            ws.recv(5)
