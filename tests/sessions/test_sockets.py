"""Execs over a WebSocket."""

import json
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ringfence.kernel.auth.model import Role
from tests.fence.programs import pattern
from tests.sessions.conftest import Box, until


def test_a_program_is_talked_with(box: Box) -> None:
    with box.socket() as ws:
        ws.send(json.dumps({"argv": ["cat"], "input": True}))
        started = json.loads(ws.recv(5))
        assert started["type"] == "started"
        ws.send(b"\0hello")
        assert ws.recv(5) == b"\1hello"
        ws.send(json.dumps({"type": "end_input"}))
        ended = json.loads(ws.recv(5))
        assert (ended["type"], ended["code"], ended["stdout_bytes"]) == ("ended", 0, 5)
        with pytest.raises(ConnectionClosed):
            ws.recv(5)


def test_errors_come_on_a_channel_of_their_own(box: Box) -> None:
    with box.socket() as ws:
        ws.send(json.dumps({"argv": ["fail", "4"]}))
        ws.recv(5)
        assert ws.recv(5) == b"\2no\n"
        assert json.loads(ws.recv(5))["code"] == 4


def test_signals_and_sizes_are_sent(box: Box) -> None:
    with box.socket() as ws:
        ws.send(json.dumps({"argv": ["trap"], "pty": {"rows": 10, "columns": 10}}))
        ws.recv(5)
        assert ws.recv(5) == b"\1ready\n"
        ws.send(json.dumps({"type": "resize", "rows": 40, "columns": 50}))
        ws.send(json.dumps({"type": "signal", "signal": "INT", "whom": "foreground"}))
        assert ws.recv(5) == b"\0012\n"
        assert box.processes()[0].size == (40, 50)
        ws.send(json.dumps({"type": "signal", "signal": "KILL"}))
        assert json.loads(ws.recv(5))["cause"] == "killed"


@pytest.mark.parametrize("detach", [False, True])
def test_a_client_that_goes_away_ends_the_program_unless_it_is_detached(box: Box, detach: bool) -> None:
    with box.socket() as ws:
        ws.send(json.dumps({"argv": ["hang"], "detach": detach}))
        exec_id = json.loads(ws.recv(5))["id"]
        assert ws.recv(5) == b"\1so far\n"
    if detach:
        assert box.show(exec_id)["state"] == "running"
    else:
        assert box.ended(exec_id)["cause"] == "killed"


def test_a_slow_client_makes_the_program_wait(box: Box) -> None:
    with box.socket() as ws:
        ws.send(json.dumps({"argv": ["flood", "60000000"]}))
        ws.recv(5)
        ws.recv(5)
        [process] = until(box.processes)
        last = -1
        while process.rings[1].end != last:
            last = process.rings[1].end
            time.sleep(0.3)
        assert last < 30_000_000
        got = 65_536
        while isinstance(said := ws.recv(20), bytes):
            got += len(said) - 1
        assert json.loads(said)["stdout_bytes"] == 60_000_000


def test_a_flood_arrives_whole(box: Box) -> None:
    with box.socket() as ws:
        ws.send(json.dumps({"argv": ["flood", "20000000"]}))
        ws.recv(5)
        found = bytearray()
        while isinstance(said := ws.recv(20), bytes):
            found += said[1:]
        assert bytes(found) == pattern(0, 20_000_000)


@pytest.mark.parametrize("said", ["no json", "[]", '{"argv": []}', '{"nonsense": 1}', b"\0x"])
def test_a_command_that_is_none_is_told_and_the_connection_closed(box: Box, said: str | bytes) -> None:
    with box.socket() as ws:
        ws.send(said)
        assert json.loads(ws.recv(5))["type"] == "error"
        with pytest.raises(ConnectionClosed):
            ws.recv(5)
    assert box.warden.begun == []


@pytest.mark.parametrize("said", ["no json", '{"type": "dance"}', b"\5x", b"", '{"type": "signal", "signal": "X"}'])
def test_a_message_that_is_none_ends_the_program_with_the_connection(box: Box, said: str | bytes) -> None:
    with box.socket() as ws:
        ws.send(json.dumps({"argv": ["hang"]}))
        exec_id = json.loads(ws.recv(5))["id"]
        ws.recv(5)
        ws.send(said)
        assert json.loads(ws.recv(5))["type"] == "error"
    assert box.ended(exec_id)["cause"] == "killed"


def test_a_refusal_is_an_http_answer_with_a_code(box: Box) -> None:
    with pytest.raises(InvalidStatus) as refused:
        box.socket(token="nonsense")
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["code"] == "token_unknown"
    with pytest.raises(InvalidStatus) as refused:
        box.socket(token=box.server.token("vera", Role.VIEWER))
    assert refused.value.response.status_code == 403
