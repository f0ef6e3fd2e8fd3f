"""A warden starts, greets and runs programs: docs/link.md, tried from the server's end."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.fence.warden.conftest import Place
from tests.fence.warden.wire import Closed, Server, Type, Warden


def test_a_warden_greets_as_nobody_without_its_key_can(warden: Warden) -> None:
    server = warden.greet()  # checks the mac
    assert server.hello["v"] == 1
    assert len(server.hello["boot"]) == 16
    assert server.hello["next"] == 1
    assert server.hello["sessions"] == []


def test_a_program_runs_with_the_environment_and_folder_it_was_given_and_no_other(server: Server) -> None:
    said = server.run("sh", "-c", "env; pwd; exit 3", env=[b"PATH=/bin:/usr/bin", b"A=1 \n2"], cwd=b"/usr")
    assert sorted(said.out.splitlines()) == [b"/usr", b"2", b"A=1 ", b"PATH=/bin:/usr/bin", b"PWD=/usr"]
    assert (said.ended["cause"], said.ended["code"], said.ended["signal"]) == ("exited", 3, 0)
    assert said.ended["out"] == len(said.out)


def test_output_and_errors_are_told_apart_and_whole(server: Server) -> None:
    said = server.shell("seq 300000; seq 100000 >&2")
    assert said.out == b"".join(b"%d\n" % n for n in range(1, 300_001))
    assert said.err == b"".join(b"%d\n" % n for n in range(1, 100_001))


def test_input_comes_through_once_whatever_is_repeated(server: Server) -> None:
    stream = server.start("cat", stdin=True)
    server.input(stream, 0, b"hello")
    server.input(stream, 0, b"hello")
    server.input(stream, 3, b"lo, there")
    server.end_input(stream, 12)
    said = server.finish(stream)
    assert said.out == b"hello, there"
    assert said.taken == 12


def test_a_terminal_has_its_size_and_is_typed_into(server: Server) -> None:
    stream = server.start("sh", "-c", "stty size; tty; read line; echo got $line; cat", pty=[33, 111])
    server.until(lambda: b"/dev/pts/" in server.heard[stream].out)
    server.input(stream, 0, b"typed\n")
    server.end_input(stream, 6)
    said = server.finish(stream)
    assert said.out.startswith(b"33 111\r\n/dev/pts/")
    assert said.out.endswith(b"typed\r\ngot typed\r\n")


def test_a_terminal_that_is_resized_tells_its_program(server: Server) -> None:
    stream = server.start(
        "sh", "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done", pty=[1, 2]
    )
    server.until(lambda: b"ready" in server.heard[stream].out)
    server.wire.send(Type.RESIZE, stream, bytes([0, 50, 1, 0]))
    assert server.finish(stream).out.endswith(b"50 256\r\n")


@pytest.mark.parametrize(
    ("keys", "errno", "said"),
    [
        ({"argv": [b"no-such-program"]}, 2, "no-such-program: No such file or directory"),
        ({"argv": [b"/"]}, 13, "/: Permission denied"),
        ({"argv": [b""]}, 2, ": No such file or directory"),
        ({"argv": [b"true"], "cwd": b"/none"}, 2, "its working directory: No such file or directory"),
        ({"argv": [b"\xff\n"]}, 2, "??: No such file or directory"),
    ],
)
def test_what_cannot_be_started_is_told_with_the_reason(server: Server, keys, errno: int, said: str) -> None:
    ended = server.run(**keys).ended
    assert (ended["cause"], ended["errno"], ended["error"]) == ("failed", errno, said)


def test_a_program_that_dies_of_a_signal_is_told_so(server: Server) -> None:
    ended = server.shell("kill -SEGV $$").ended
    assert (ended["cause"], ended["code"], ended["signal"]) == ("signalled", 139, 11)


@pytest.mark.parametrize(("whom", "expected"), [(0, {b"parent"}), (1, {b"parent", b"child"})])
def test_a_signal_reaches_the_first_process_alone_or_all_of_them(
    server: Server, whom: int, expected: set[bytes]
) -> None:
    child = "(trap 'echo child' USR1; echo ready; while :; do sleep 0.01; done)"
    script = f"trap 'echo parent' USR1; {child} & echo ready; while :; do wait; done"
    stream = server.start("sh", "-c", script)
    heard = server.heard[stream]
    server.until(lambda: heard.out.count(b"ready\n") == 2)
    server.signal(stream, signal.SIGUSR1, whom)
    server.until(lambda: expected <= set(bytes(heard.out).split()))
    server.signal(stream, signal.SIGKILL)
    assert server.finish(stream).ended["cause"] == "killed"
    assert set(bytes(heard.out).split()) == {b"ready"} | expected


def test_the_terminals_foreground_group_is_signalled(server: Server) -> None:
    stream = server.start("cat", pty=[24, 80], stdin=True)
    server.input(stream, 0, b"ready\n")
    server.until(lambda: server.heard[stream].out.count(b"ready") == 2)  # the terminal's echo, and then cat's
    server.signal(stream, signal.SIGINT, 2)
    assert server.finish(stream).ended["signal"] == signal.SIGINT


def test_programs_ignore_no_signal_because_whoever_started_the_warden_did(place: Place, tmp_path: Path) -> None:
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD)
    before = [signal.signal(each, signal.SIG_IGN) for each in ignored]
    try:
        warden = Warden(place.warden, place.bwrap, tmp_path)
    finally:
        for each, handler in zip(ignored, before, strict=True):
            signal.signal(each, handler)
    try:
        said = warden.greet().run("grep", "SigIgn", "/proc/self/status").out
    finally:
        warden.stop()
    assert said.split()[-1] == b"0" * 16


def test_killing_everything_leaves_nothing_however_detached(server: Server, warden: Warden) -> None:
    script = (
        "setsid sh -c '(sleep 1000 & sleep 1000) & setsid sleep 1000 &' ; nohup sleep 1000 & echo ready; sleep 1000"
    )
    stream = server.start("sh", "-c", script)
    server.until(lambda: b"ready" in server.heard[stream].out)
    server.signal(stream, signal.SIGKILL)
    assert server.finish(stream).ended["cause"] == "killed"
    assert b"sleep 1000" not in server.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out.replace(b"cat", b"")


def test_what_takes_too_long_is_killed_whole(server: Server) -> None:
    began = time.monotonic()
    ended = server.shell("trap '' TERM HUP; sleep 50 & sleep 50", timeout=200).ended
    assert (ended["cause"], ended["code"]) == ("timeout", 137)
    assert 0.2 <= time.monotonic() - began < 5


def test_the_same_start_again_starts_nothing(server: Server) -> None:
    id = os.urandom(16)
    server.forgets = False
    first = server.start("sh", "-c", "echo $$", id=id)
    said = server.finish(first)
    said.end = None
    server.start("sh", "-c", "echo $$", id=id)
    server.until(lambda: said.end is not None)
    assert server.heard[first + 1].end is None
    assert len(said.out.split()) == 1


def test_what_is_left_running_holds_up_nothing(server: Server) -> None:
    began = time.monotonic()
    said = server.shell("(while sleep 0.01; do seq 1000; done) & echo done", within=5)
    assert b"done" in said.out
    assert time.monotonic() - began < 3


def test_a_connection_that_breaks_costs_no_byte(warden: Warden) -> None:
    server = warden.greet()
    stream = server.start("sh", "-c", "for i in 1 2 3; do seq 200000; sleep 0.1; done")
    server.until(lambda: len(server.heard[stream].out) > 100_000)
    heard = server.heard[stream]
    server.wire.close()
    again = warden.greet(keep=lambda hello: [[stream, len(heard.out), 0]])
    assert [s["stream"] for s in again.hello["sessions"]] == [stream]
    assert again.hello["next"] == stream + 1
    again.heard[stream] = heard
    again.finish(stream)
    assert heard.out == b"".join(b"%d\n" % n for n in range(1, 200_001)) * 3


def test_a_session_the_server_does_not_know_is_killed(warden: Warden) -> None:
    server = warden.greet()
    stream = server.start("sleep", "1000")
    server.until(lambda: server.heard[stream].pid)
    server.wire.close()
    again = warden.greet()
    assert len(again.hello["sessions"]) == 1
    assert b"1000" not in again.shell("sleep 0.1; cat /proc/[0-9]*/cmdline").out.replace(b"cat", b"")
    again.wire.close()
    assert warden.greet().hello["sessions"] == []


@pytest.mark.parametrize(
    ("type", "stream", "payload"),
    [
        (Type.HELLO, 0, b"\x80"),
        (Type.WELCOME, 0, b"\x81\xa4keep\x90"),
        (Type.PING, 0, b"1234567"),
        (Type.START, 1, b"\x80"),
        (Type.START, 1, b"\xdf\xff\xff\xff\xff"),
        (Type.START, 1, b""),
        (Type.SIGNAL, 1, b"\x00\x01"),
        (Type.INPUT, 1, b"12345678"),
        (0x77, 1, b""),
    ],
)
def test_a_frame_that_is_wrong_ends_the_connection_and_no_more(
    warden: Warden, type: int, stream: int, payload: bytes
) -> None:
    server = warden.greet()
    server.wire.send(type, stream, payload)
    with pytest.raises(Closed):
        while True:
            server.step()
    assert warden.greet().run("echo", "well").out == b"well\n"
