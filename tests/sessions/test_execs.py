"""Execs over HTTP, on scripted wardens."""

import asyncio
import base64
import contextlib
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import pytest

from ringfence.kernel.auth.model import Role
from tests.fence.fake_warden import Process
from tests.fence.programs import pattern
from tests.sessions.conftest import Box, Scripted, events_of, until


def test_a_program_is_run_and_answered_when_it_has_ended(box: Box) -> None:
    answer = box.run("echo", "hello", "you")
    assert answer["stdout"] == "hello you\n" and answer["stderr"] == ""
    assert (answer["code"], answer["cause"], answer["state"]) == (0, "exited", "ended")
    assert answer["truncated"] is False and answer["stdout_base64"] is None
    assert answer["ended_at"] >= answer["started_at"] and answer["seconds"] >= 0
    assert answer["cpu_seconds"] == 0.0015 and answer["memory_kib"] == 2048
    assert answer["actor"] == "operator:admin"
    until(lambda: not box.processes())  # and it was forgotten


def test_a_sandbox_is_called_by_its_name_too(box: Box) -> None:
    answer = box.admin.post("/api/v1/sandboxes/box/exec", json={"argv": ["echo", "x"]})
    assert answer.json()["stdout"] == "x\n"


def test_a_line_is_given_to_the_shell(box: Box, runtime: Scripted) -> None:
    runtime.programs[b"/bin/sh"] = runtime.programs[b"echo"]
    box.warden.programs = runtime.programs
    answer = box.admin.post(f"{box.path}/exec", json={"command": "ls | wc"})
    assert answer.json()["stdout"] == "-c ls | wc\n"


def test_errors_are_apart_and_the_exit_code_is_told(box: Box) -> None:
    answer = box.run("fail", "3")
    assert (answer["stdout"], answer["stderr"], answer["code"]) == ("", "no\n", 3)


def test_input_arrives_and_ends(box: Box) -> None:
    assert box.run("cat", stdin="some words")["stdout"] == "some words"
    raw = bytes(range(256))
    answer = box.run("cat", stdin_base64=base64.b64encode(raw).decode())
    assert base64.b64decode(answer["stdout_base64"]) == raw
    assert box.run("cat")["stdout"] == ""  # no input is at its end at once


def test_input_longer_than_what_may_be_under_way_arrives(box: Box) -> None:
    text = "0123456789" * 40_000
    assert box.run("cat", stdin=text)["stdout"] == text


def test_words_that_are_no_text_arrive_as_they_are(box: Box) -> None:
    word = {"base64": base64.b64encode(b"\xff\xfe").decode()}
    answer = box.admin.post(f"{box.path}/exec", json={"argv": ["echo", word]}).json()
    assert base64.b64decode(answer["stdout_base64"]) == b"\xff\xfe\n"


def test_the_environment_is_clean_and_what_was_asked_for(box: Box) -> None:
    lines = box.run("env", env={"MINE": "é=1"}, cwd="/tmp")["stdout"].splitlines()
    assert "MINE=é=1" in lines and "cwd /tmp" in lines and "HOME=/home/agent" in lines
    assert {line.partition("=")[0] for line in lines} == {"MINE", "HOME", "PATH", "USER", "LANG", "cwd /tmp"}
    assert "cwd /workspace" in box.run("env")["stdout"]
    lines = box.run("env", pty={"rows": 10, "columns": 20})["stdout"].splitlines()
    assert {"TERM=xterm-256color", "LINES=10", "COLUMNS=20"} <= set(lines)


def test_a_timeout_keeps_what_was_said_until_then(box: Box) -> None:
    answer = box.run("hang", timeout=0.1)
    assert (answer["cause"], answer["signal"], answer["stdout"]) == ("timeout", 9, "so far\n")


def test_what_cannot_be_started_is_told_as_its_end(box: Box) -> None:
    answer = box.run("nonsense")
    assert (answer["cause"], answer["code"], answer["error"]) == ("failed", 127, "No such file or directory")


@pytest.mark.parametrize(
    "body",
    [
        {}, {"argv": []}, {"argv": ["x"], "command": "x"}, {"argv": ["a\0b"]}, {"argv": ["x"], "cwd": "relative"},
        {"argv": ["x"], "env": {"A=B": "c"}}, {"argv": ["x"], "env": {"": "c"}}, {"argv": ["x"], "timeout": -1},
        {"argv": ["x"], "stdin": "a", "stdin_base64": "YQ=="}, {"argv": [{"base64": "***"}]},
        {"argv": ["x"], "pty": {"rows": 0}}, {"argv": ["x"] * 1025}, {"argv": ["x" * 70_000]},
        {"argv": ["x"], "who": 1}, {"argv": ["x"], "stdin_base64": "YQ"},
    ],
    ids=range(15),
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_runs(box: Box, body: dict[str, object]) -> None:
    answer = box.admin.post(f"{box.path}/exec", json=body)
    assert answer.status_code == 400, answer.text
    assert box.warden.begun == []
    assert box.admin.get(f"{box.path}/execs").json()["items"] == []


# Output ---------------------------------------------------------------------------------------------------------------


def test_what_was_said_is_there_afterwards_byte_for_byte(box: Box) -> None:
    for size in (10, 65_536, 65_537, 3_000_000):
        exec_id = box.begin("flood", str(size))
        assert box.ended(exec_id)["stdout_bytes"] == size
        assert box.output(exec_id) == pattern(0, size)
        assert box.output(exec_id, offset=size - 4) == pattern(size - 4, 4)
        assert box.output(exec_id, offset=size + 4) == b""
        assert box.output(exec_id, "stderr") == b""


def test_more_than_is_kept_is_counted_and_marked(box: Box, tmp_path: Path) -> None:
    answer = box.run("flood", str(40_000_000))
    assert answer["stdout_bytes"] == 40_000_000 and answer["stdout_kept"] == 16 << 20
    assert answer["truncated"] is True
    assert box.output(answer["id"]) == pattern(0, 16 << 20)
    [file] = (tmp_path / "data" / "execs").rglob("*.out")
    assert file.stat().st_size == 40_000_000 and file.stat().st_blocks * 512 <= (16 << 20) + 65_536


def test_an_answer_holds_so_much_and_says_that_there_is_more(box: Box) -> None:
    answer = box.run("flood", str(5 << 20))
    assert answer["truncated"] is True and answer["stdout_kept"] == 5 << 20
    assert base64.b64decode(answer["stdout_base64"]) == pattern(0, 4 << 20)


def test_small_output_takes_no_file(box: Box, tmp_path: Path) -> None:
    box.run("echo", "x")
    assert not (tmp_path / "data" / "execs").exists()


def test_output_is_followed_until_the_end(box: Box) -> None:
    exec_id = box.begin("late", "0.2", "now")
    assert box.output(exec_id, follow="true") == b"now\n"
    assert box.show(exec_id)["state"] == "ended"


# Records --------------------------------------------------------------------------------------------------------------


def test_execs_are_listed_newest_first_in_pages(box: Box) -> None:
    made = [box.run("echo", str(number))["id"] for number in range(5)]
    first = box.admin.get(f"{box.path}/execs", params={"limit": 3}).json()
    assert [one["id"] for one in first["items"]] == made[:1:-1]
    second = box.admin.get(f"{box.path}/execs", params={"limit": 3, "cursor": first["next"]}).json()
    assert [one["id"] for one in second["items"]] == made[1::-1] and second["next"] is None
    running = box.begin("hang")
    assert [one["id"] for one in box.admin.get(f"{box.path}/execs", params={"running": True}).json()["items"]] == [
        running
    ]


def test_every_exec_is_two_events_without_its_secrets(box: Box) -> None:
    secret = "ghp_" + "a" * 36
    answer = box.run("echo", "--password", "hunter22", f"GH_TOKEN={secret}", "plain", env={"API_KEY": "hidden-too"})
    [started], [ended] = box.events("exec_started"), box.events("exec_ended")
    assert started["subject"] == ended["subject"] == answer["id"]
    assert started["actor"] == ended["actor"] == "operator:admin"
    assert started["data"]["argv"] == ["echo", "--password", "***", "GH_TOKEN=***", "plain"]
    assert started["data"]["sandbox"] == box.id
    assert (ended["data"]["cause"], ended["data"]["code"]) == ("exited", 0)
    everything = box.admin.get("/api/v1/audit", params={"limit": 1000}).text + box.admin.get(f"{box.path}/execs").text
    assert "hunter22" not in everything and secret not in everything and "hidden-too" not in everything
    assert "hunter22" in answer["stdout"]  # the program was told


def test_who_may_not_use_the_sandbox_runs_nothing(box: Box) -> None:
    body = {"argv": ["echo", "x"]}
    assert box.viewer().post(f"{box.path}/exec", json=body).status_code == 403
    assert box.agent().post(f"{box.path}/exec", json=body).status_code == 404
    assert httpx.post(f"{box.server.url}{box.path}/exec", json=body).status_code == 401
    assert box.admin.post("/api/v1/sandboxes/none/exec", json=body).status_code == 404
    assert box.warden.begun == []
    exec_id = box.run("echo", "x")["id"]
    assert box.viewer().get(f"{box.path}/execs/{exec_id}").status_code == 200
    assert box.agent().get(f"{box.path}/execs/{exec_id}").status_code == 404
    assert box.admin.get(f"{box.path}/execs/exe_nonsense").status_code == 404


def test_an_agent_runs_programs_in_its_own_sandbox(box: Box) -> None:
    agent = box.server.agent("claude")
    made = box.admin.post("/api/v1/sandboxes", json={"name": "mine", "agent": "claude"}).json()
    answer = agent.post(f"/api/v1/sandboxes/{made['id']}/exec", json={"argv": ["echo", "me"]})
    assert answer.json()["stdout"] == "me\n"
    assert answer.json()["actor"] == "agent:claude" and answer.json()["agent"] == "claude"


def test_a_sandbox_that_does_not_run_says_what_to_do(box: Box) -> None:
    box.run("echo", "x")
    assert box.admin.post(f"{box.path}/stop", json={}).status_code == 200
    answer = box.admin.post(f"{box.path}/exec", json={"argv": ["echo"]})
    assert answer.status_code == 409 and answer.json()["code"] == "sandbox_stopped"
    box.admin.post(f"{box.path}/start", json={})
    assert box.run("echo", "again")["stdout"] == "again\n"


def test_what_ran_in_a_sandbox_that_is_stopped_is_lost(box: Box) -> None:
    exec_id = box.begin("hang")
    until(lambda: box.output(exec_id) == b"so far\n")
    box.admin.post(f"{box.path}/stop", json={"grace": 0})
    ended = box.ended(exec_id)
    assert ended["cause"] in ("lost", "killed", "signalled")
    assert box.output(exec_id) == b"so far\n"


def test_what_was_said_goes_with_the_sandbox(box: Box, tmp_path: Path) -> None:
    small, large = box.run("echo", "x")["id"], box.run("flood", "200000")["id"]
    assert list((tmp_path / "data" / "execs").rglob("*.out"))
    box.admin.delete(box.path)
    until(lambda: not list((tmp_path / "data" / "execs").rglob("*.out")))
    until(lambda: box.output(small) == b"" and box.output(large) == b"")
    assert box.show(small)["stdout_bytes"] == 2


def test_old_execs_are_pruned_with_their_output(box: Box, tmp_path: Path) -> None:
    exec_id = box.run("flood", "200000")["id"]
    running = box.begin("hang")
    box.server.clock.advance(8 * 86_400)
    box.server.write(box.server.house.execs.prune)
    box.server.admin = box.server.client(box.server.token("later", Role.ADMIN))
    assert box.admin.get(f"{box.path}/execs/{exec_id}").status_code == 404
    assert not list((tmp_path / "data" / "execs").rglob("*.out"))
    assert box.show(running)["state"] == "running"


# Repeats --------------------------------------------------------------------------------------------------------------


def test_a_repeat_with_the_same_key_runs_nothing_and_answers_the_same(box: Box) -> None:
    headers, body = {"idempotency-key": "once"}, {"argv": ["echo", "x"]}
    first = box.admin.post(f"{box.path}/exec", json=body, headers=headers).json()
    again = box.admin.post(f"{box.path}/exec", json=body, headers=headers).json()
    assert again == first and len(box.warden.begun) == 1
    other = box.admin.post(f"{box.path}/exec", json={"argv": ["echo", "y"]}, headers=headers)
    assert other.status_code == 409 and other.json()["code"] == "idempotency_key_reused"
    box.restart()
    assert box.admin.post(f"{box.path}/exec", json=body, headers=headers).json() == first
    assert len(box.warden.begun) == 1


def test_what_is_asked_with_a_key_is_written_down_before_it_runs(box: Box) -> None:
    """So that a repeat is recognised by a server that comes after one that died in between."""

    async def known(process: Process) -> int:
        with contextlib.closing(sqlite3.connect(box.server.settings.data / "ringfence.db")) as database:
            [count] = database.execute("SELECT count(*) FROM execs WHERE ended_at IS NULL").fetchone()
        await process.write(b"%d" % count)
        return 0

    box.warden.programs[b"known"] = known
    for number in range(20):
        headers = {"idempotency-key": f"key-{number}"}
        answer = box.admin.post(f"{box.path}/exec", json={"argv": ["known"]}, headers=headers)
        assert answer.json()["stdout"] == "1", answer.text


def test_what_was_written_down_and_could_not_be_started_may_be_asked_again_with_its_key(box: Box) -> None:
    for _ in range(128):
        box.begin("sleep", "60")
    headers, body = {"idempotency-key": "once"}, {"argv": ["echo", "x"]}
    refused = box.admin.post(f"{box.path}/exec", json=body, headers=headers)
    assert refused.json()["code"] == "too_many_sessions"
    [failed] = box.admin.get(f"{box.path}/execs", params={"limit": 1}).json()["items"]
    assert (failed["state"], failed["cause"]) == ("ended", "failed") and "128 sessions" in failed["error"]
    newest = box.admin.get(f"{box.path}/execs", params={"limit": 2}).json()["items"][1]
    box.post(newest["id"], "signal", signal="KILL")
    box.ended(newest["id"])
    assert box.admin.post(f"{box.path}/exec", json=body, headers=headers).json()["stdout"] == "x\n"


def test_repeats_at_once_run_one_program(box: Box) -> None:
    answers: list[dict[str, object]] = []

    def ask() -> None:
        client = box.server.client(box.server.admin_token)
        found = client.post(f"{box.path}/exec", json={"argv": ["late", "0.2", "x"]}, headers={"idempotency-key": "k"})
        answers.append(found.json())

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({str(answer["id"]) for answer in answers}) == 1 and len(box.warden.begun) == 1
    assert all(answer["stdout"] == "x\n" for answer in answers)


# Steering -------------------------------------------------------------------------------------------------------------


def test_input_is_sent_later_and_a_repeat_is_typed_once(box: Box) -> None:
    exec_id = box.begin("cat", input=True)
    assert box.post(exec_id, "input", text="one ", offset=0).json() == {"offset": 4}
    assert box.post(exec_id, "input", text="one ", offset=0).json() == {"offset": 4}
    assert box.post(exec_id, "input", text="one two", offset=0).json() == {"offset": 7}
    gap = box.post(exec_id, "input", text="x", offset=9)
    assert gap.status_code == 409 and gap.json()["code"] == "input_gap" and gap.json()["expected"] == 7
    assert box.post(exec_id, "input", base64="IQ==", end=True).status_code == 200
    assert box.ended(exec_id)["code"] == 0
    assert box.output(exec_id) == b"one two!"
    assert box.post(exec_id, "input", text="x").json()["code"] == "exec_ended"


def test_signals_by_name_and_number_reach_the_program(box: Box) -> None:
    exec_id = box.begin("trap")
    until(lambda: box.output(exec_id) == b"ready\n")
    assert box.post(exec_id, "signal", signal="INT", whom="first").status_code == 200
    assert box.post(exec_id, "signal", signal="1").status_code == 200
    assert box.post(exec_id, "signal", signal="SIGTERM").status_code == 200
    assert box.ended(exec_id)["code"] == 0
    assert box.output(exec_id) == b"ready\n2\n1\n15\n"
    other = box.begin("trap")
    assert box.post(other, "signal", signal="NONSENSE").status_code == 400
    assert box.post(other, "signal", signal=9).status_code == 200
    assert box.ended(other)["cause"] == "killed"


def test_a_terminal_is_resized(box: Box) -> None:
    exec_id = box.begin("hang", pty={"rows": 24, "columns": 80})
    until(box.processes)
    assert box.post(exec_id, "resize", rows=50, columns=100).status_code == 200
    until(lambda: box.processes()[0].size == (50, 100))


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_tells_what_is_said_as_it_is_said(box: Box) -> None:
    body = {"argv": ["cat"], "input": True}
    with box.admin.stream("POST", f"{box.path}/exec/stream", json=body) as answer:
        events = events_of(answer)
        kind, started = next(events)
        assert kind == "started" and started["state"] == "running"
        box.post(started["id"], "input", text="é and")
        assert next(events) == ("stdout", {"offset": 0, "text": "é and"})
        box.post(started["id"], "input", base64=base64.b64encode("ü".encode()[:1]).decode())
        box.post(started["id"], "input", base64=base64.b64encode("ü".encode()[1:]).decode())
        assert [piece for _, piece in (next(events), next(events))] == [
            {"offset": 6, "text": ""}, {"offset": 6, "text": "ü"},
        ]  # fmt: skip
        box.post(started["id"], "input", base64="/w==")
        assert next(events) == ("stdout", {"offset": 8, "base64": "/w=="})
        box.post(started["id"], "input", end=True)
        kind, ended = next(events)
        assert kind == "ended" and ended["code"] == 0 and ended["stdout_bytes"] == 9


def test_an_accept_header_makes_a_stream_of_the_answer(box: Box) -> None:
    with box.admin.stream(
        "POST", f"{box.path}/exec", json={"argv": ["fail", "2"]}, headers={"accept": "text/event-stream"}
    ) as answer:
        assert [kind for kind, _ in events_of(answer)] == ["started", "stderr", "ended"]


@pytest.mark.parametrize("detach", [False, True])
def test_a_reader_who_goes_away_ends_the_program_unless_it_is_detached(box: Box, detach: bool) -> None:
    with box.admin.stream("POST", f"{box.path}/exec/stream", json={"argv": ["hang"], "detach": detach}) as answer:
        kinds = [next(events_of(answer))]
        exec_id = kinds[0][1]["id"]
    if detach:
        time.sleep(0.3)
        assert box.show(exec_id)["state"] == "running"
    else:
        assert box.ended(exec_id)["cause"] == "killed"


def test_a_second_reader_sees_all_of_it_and_ends_nothing_by_going_away(box: Box) -> None:
    exec_id = box.begin("trap")
    until(lambda: box.output(exec_id))
    with box.admin.stream("GET", f"{box.path}/execs/{exec_id}/stream") as answer:
        events = events_of(answer)
        assert [next(events)[0], next(events)[1]["text"]] == ["started", "ready\n"]
        box.post(exec_id, "signal", signal=2)
        assert next(events)[1] == {"offset": 6, "text": "2\n"}
    time.sleep(0.1)
    assert box.show(exec_id)["state"] == "running"
    box.post(exec_id, "signal", signal=15)
    box.ended(exec_id)
    with box.admin.stream("GET", f"{box.path}/execs/{exec_id}/stream") as answer:
        assert [kind for kind, _ in events_of(answer)] == ["started", "stdout", "ended"]


# Restarts -------------------------------------------------------------------------------------------------------------


def test_what_runs_goes_on_while_the_server_is_away_and_what_it_said_is_there(box: Box) -> None:
    late = box.begin("late", "0.3", "I was here")
    ends = box.begin("flood", "300000")
    typed = box.begin("cat", input=True)
    assert box.post(typed, "input", text="before ").json() == {"offset": 7}
    until(lambda: box.output(typed) == b"before ")
    box.restart()
    assert box.ended(ends)["stdout_bytes"] == 300_000 and box.output(ends) == pattern(0, 300_000)
    assert box.ended(late)["cause"] == "exited" and box.output(late) == b"I was here\n"
    assert box.post(typed, "input", text="after", offset=7, end=True).json() == {"offset": 12}
    assert box.ended(typed)["code"] == 0 and box.output(typed) == b"before after"
    assert len(box.warden.begun) == 3
    assert len(box.events("exec_ended")) == 3
    until(lambda: not box.processes())


def test_what_ran_when_the_sandbox_died_under_a_dead_server_is_lost(box: Box) -> None:
    exec_id = box.begin("hang")
    until(lambda: box.output(exec_id))
    box.server.stop()
    asyncio.run(box.runtime.kill(box.id))
    box.server.start()
    box.server.admin = box.server.client(box.server.admin_token)
    assert box.ended(exec_id)["cause"] == "lost"
    [ended] = box.events("exec_ended")
    assert ended["data"]["cause"] == "lost"


def test_a_hundred_execs_at_once_do_not_mix(box: Box) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        client = box.server.client(box.server.admin_token)
        answers[number] = client.post(f"{box.path}/exec", json={"argv": ["echo", str(number)]}).json()["stdout"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"{number}\n" for number in range(100)}
