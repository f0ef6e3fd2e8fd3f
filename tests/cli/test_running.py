"""`ringfence up`, `down` and `status`, and what the supervisor does when things go wrong."""

import contextlib
import json
import os
import re
import resource
import shlex
import signal
import socket
import stat
import subprocess
import threading
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from ringfence.cli.places import default_data
from ringfence.kernel.processes import process_started
from ringfence.settings import default_data as servers_default
from ringfence.supervisor import Lock, Log, Running, listener_on
from tests.cli.conftest import RINGFENCE, Cli, until
from tests.harness import fill_up


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    return False


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Starting -------------------------------------------------------------------------------------------------------------


def test_up_detached_returns_once_it_is_healthy_and_down_ends_it(cli: Cli) -> None:
    said = cli.ok("up", "--port", "0", "--detach")
    running = cli.running
    assert answers(running.url)
    assert running.url in said
    assert "Sign in as alice, once" in said
    assert cli.ok("down") == f"Stopped: {cli.data}\n"
    assert process_started(running.pid) is None
    assert process_started(running.server_pid) is None
    assert not (cli.data / "run/server.json").exists()
    assert cli.ok("down") == f"No Ringfence runs on {cli.data}.\n"


def test_the_link_signs_a_browser_in_once(cli: Cli) -> None:
    facts = cli.json("up", "--port", "0", "--detach")
    with httpx.Client(trust_env=False) as browser:
        assert browser.get(facts["signin_url"]).status_code == 303
        assert browser.get(f"{facts['url']}/api/v1/me").json()["name"] == "alice"
        assert httpx.get(facts["signin_url"], trust_env=False).status_code == 401


@pytest.mark.parametrize(
    ("env", "name"), [({"SUDO_USER": "bob"}, "bob"), ({"USER": "no name!"}, "admin"), ({"USER": ""}, "admin")]
)
def test_the_first_person_is_who_starts_it(cli: Cli, env: dict[str, str], name: str) -> None:
    assert json.loads(cli.ok("up", "--port", "0", "--detach", "--json", **env))["person"] == name


def test_a_name_that_a_script_has_is_not_the_first_persons(cli: Cli) -> None:
    cli.ok("token", "create", "--role", "admin", "--name", "alice", "--data", cli.data)
    assert cli.json("up", "--port", "0", "--detach")["person"] == "admin"


def test_on_every_address_it_says_how_others_reach_it(cli: Cli) -> None:
    said = cli("up", "--port", "0", "--detach", "--host", "0.0.0.0", "--public-url", "https://fence.example/")
    assert "From other machines: https://fence.example\n" in said.out
    assert cli.running.url.startswith("http://127.0.0.1:")
    assert re.search(r"https://fence\.example/signin\?code=", said.out)
    cli.ok("down")
    said = cli("up", "--port", "0", "--detach", "--host", "0.0.0.0")
    elsewhere = cli.running.elsewhere
    if elsewhere is None:
        pytest.skip("this machine is on no network")
    assert answers(elsewhere)
    assert "can read tokens" in said.err
    assert f"\n  {elsewhere}/signin?code=" in said.out
    links = [  # who is invited, and a phone, are not on this machine
        cli.json("person", "invite", "bob")["signin_url"],
        cli.json("login", "--link", "--person", "bob")["url"],
        re.findall(r"https?://\S+", cli("login", "--link").err)[0],
    ]
    for link in links:
        assert link.startswith(f"{elsewhere}/signin?code=")
        signed_in = httpx.get(link, trust_env=False)
        assert (signed_in.status_code, "set-cookie" in signed_in.headers) == (303, True)
    assert cli.ok("login", "--link").startswith(cli.running.url)


def test_a_shells_limit_of_open_files_does_not_limit_its_streams(cli: Cli) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    started = f"ulimit -Sn 256 && exec {shlex.quote(RINGFENCE)} up --port 0 --detach"
    subprocess.run(["bash", "-c", started], env=cli.env, cwd=cli.home, check=True, capture_output=True)
    limits = Path(f"/proc/{cli.running.server_pid}/limits").read_text()
    found = re.search(r"^Max open files +(\d+)", limits, re.MULTILINE)
    assert found
    assert int(found[1]) == min(hard, 65_536)


def test_what_holds_a_token_only_its_owner_can_read(cli: Cli) -> None:
    cli.up()
    assert mode(cli.data / "run") == mode(cli.config) == 0o700
    # Run by root, the server is a user of its own, who adds entries, and so are sandboxes, who pass through to theirs.
    assert mode(cli.data) == (0o1771 if os.geteuid() == 0 else 0o700)
    assert [entry.name for entry in cli.data.iterdir() if entry.name != "sandboxes" and mode(entry) & 0o077] == []
    for secret in (cli.data / "run/server.json", cli.data / "run/server.log", cli.config / "contexts.json"):
        assert mode(secret) == 0o600, secret


def test_started_twice_it_says_so_and_makes_another_link(cli: Cli) -> None:
    running = cli.up()
    again = cli.ok("up")
    assert f"runs already on {cli.data} (process {running.pid})" in again
    link = re.search(r"http\S+/signin\S+", again)
    assert link
    assert httpx.get(link.group(), trust_env=False).status_code == 303
    assert cli.running == running


def test_two_started_at_once_are_one(cli: Cli) -> None:
    both = [cli.start("up", "--port", "0", "--detach", "--json") for _ in range(2)]
    facts = [json.loads(one.communicate(timeout=60)[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert facts[0]["url"] == facts[1]["url"] == cli.running.url


def test_a_taken_port_is_told_with_who_has_it_and_what_to_do(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert listener_on(port) == (os.getpid(), Path("/proc/self/comm").read_text().strip())
        for detached in ([], ["--detach"]):
            said = cli("up", "--port", port, *detached)
            assert said.code == 1
            assert said.err.count("\n") == 1
            assert f"port {port} is in use by" in said.err
            assert f"(process {os.getpid()})" in said.err
            assert "--port" in said.err
    assert Running.on(cli.data) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--host", "203.0.113.7"], "no address '203.0.113.7'"),
        (["--host", "no.such.host.invalid"], "no address 'no.such.host.invalid'"),
        (["--tls-cert", "/nowhere.pem"], "tls_key"),
        (["--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.pem"], "/nowhere.pem"),
        (["--config", "/nowhere.toml"], "/nowhere.toml"),
        (["--database", "mysql://x"], "postgresql://"),
        (["--database", "postgresql://127.0.0.1:1/x"], "PostgreSQL|database"),
        (["--port", "123456"], "port"),
    ],
)
def test_what_cannot_be_started_is_told_in_a_line(cli: Cli, words: list[str], told: str) -> None:
    said = cli("up", "--detach", *(["--port", "0"] if "--port" not in words else []), *words)
    assert said.code == 1
    assert re.search(told, said.err)
    assert said.err.count("\n") == 1
    assert not said.out


def test_a_folder_that_cannot_be_made_is_told(cli: Cli) -> None:
    for detached in ([], ["--detach"]):
        said = cli("up", "--data", "/proc/ringfence", *detached)
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert "--data" in said.err


def test_a_database_of_a_newer_version_is_told(cli: Cli) -> None:
    import sqlite3

    cli.ok("token", "create", "--name", "ci", "--data", str(cli.data))
    with contextlib.closing(sqlite3.connect(cli.data / "ringfence.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = 'zz99'")
        database.commit()
    said = cli("up", "--port", "0", "--detach")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "newer Ringfence" in said.err


def test_settings_come_from_a_file_in_the_folder(cli: Cli) -> None:
    cli.data.mkdir()
    (cli.data / "ringfence.toml").write_text("page_size = 7\n")
    cli.up()
    assert {it["name"]: it["value"] for it in cli.json("config", "list")}["page_size"] == 7
    cli.ok("down")
    (cli.data / "ringfence.toml").write_text("paeg_size = 7\n")
    said = cli("up", "--detach")
    assert said.code == 1
    assert "paeg_size" in said.err


def test_a_folder_of_modules_where_it_is_started_is_not_imported(cli: Cli) -> None:
    (cli.home / "ringfence").mkdir()
    (cli.home / "ringfence/server.py").write_text("raise SystemExit('imported')")
    (cli.home / "uvicorn.py").write_text("raise SystemExit('imported')")
    cli.up()


def test_https_is_served_and_this_machine_trusts_its_own_certificate(cli: Cli) -> None:
    cert, key = cli.home / "cert.pem", cli.home / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=ringfence.example", "-addext", "subjectAltName=DNS:ringfence.example",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    running = cli.up("--tls-cert", str(cert), "--tls-key", str(key))
    assert running.url.startswith("https://")
    assert cli.json("status")["you"] == "alice"
    said = cli("status", "--url", running.url, "--token", running.token)
    assert said.code == 7
    assert "not trusted" in said.err
    port = running.url.rpartition(":")[2]
    by_name = cli("status", "--url", f"https://localhost:{port}", "--token", running.token, RINGFENCE_CA=str(cert))
    assert by_name.code == 7  # trusted, but it is not localhost's


def test_on_postgresql_it_starts_dies_and_comes_back(cli: Cli, postgres_url: str) -> None:
    before = cli.up("--database", postgres_url)
    cli.ok("agent", "register", "kept")
    os.kill(before.server_pid, signal.SIGKILL)
    assert [it["name"] for it in cli.json("agent", "list")] == ["kept"]
    shown = {it["name"]: it["value"] for it in cli.json("config", "list")}["database"]
    assert shown == "postgresql://…"
    cli.ok("down")
    token = cli.ok("token", "create", "--name", "ci", "--data", cli.data, "--database", postgres_url).strip()
    assert not list(cli.data.glob("*.db"))
    assert cli.up("--database", postgres_url).token == before.token
    assert cli.json("status", "--url", cli.running.url, "--token", token)["you"] == "ci"


# In the foreground ----------------------------------------------------------------------------------------------------


def begin(cli: Cli, *words: str) -> "subprocess.Popen[str]":
    process = cli.start("up", "--port", "0", *words)
    until(lambda: Running.on(cli.data) or process.poll() is not None, "ready")
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_in_the_foreground_a_signal_ends_it_gracefully(cli: Cli, number: int) -> None:
    process = begin(cli)
    server = cli.running.server_pid
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Stop it:      Ctrl-C" in out
    assert "stopping" in err
    assert process_started(server) is None


@pytest.mark.parametrize("gone", ["at once", "later"])
def test_it_goes_on_serving_when_nobody_reads_what_it_says(cli: Cli, gone: str) -> None:
    process = cli.start("up", "--port", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    if gone == "later":
        assert any("Stop it" in line for line in process.stdout)
    process.stdout.close()
    process.stderr.close()
    running = until(lambda: Running.on(cli.data), "ready")
    assert answers(running.url)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert process_started(running.server_pid) is None
    assert not (cli.data / "run/server.json").exists()


def test_the_first_signal_lets_a_request_end_and_the_second_does_not(cli: Cli) -> None:
    process = begin(cli)
    running = cli.running
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(
            b"POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n"
            + f"authorization: Bearer {running.token}\r\n\r\n".encode()
        )
        until(lambda: _in_flight(running) >= 2, "the request is under way")
        process.send_signal(signal.SIGTERM)
        lines = iter(process.stderr.readline, "")  # type: ignore[union-attr]
        assert any("stopping" in line for line in lines)
        assert process_started(running.server_pid) is not None
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert time.monotonic() - began < 5
    assert process_started(running.server_pid) is None


def _in_flight(running: Running) -> float:
    found = httpx.get(f"{running.url}/metrics", headers={"authorization": f"Bearer {running.token}"}, trust_env=False)
    match = re.search(r"^ringfence_http_requests_in_flight (\S+)", found.text, re.MULTILINE)
    assert match
    return float(match.group(1))


# Dying, and coming back -----------------------------------------------------------------------------------------------


def test_a_server_that_was_killed_comes_back_on_the_same_port(cli: Cli) -> None:
    before = cli.up()
    cli.ok("agent", "register", "kept")
    os.kill(before.server_pid, signal.SIGKILL)
    # Who asks in the meantime waits, and is answered by the next one.
    assert httpx.get(f"{before.url}/readyz", timeout=30, trust_env=False).status_code == 200
    after = until(lambda: (now := Running.on(cli.data)) and now.server_pid != before.server_pid and now, "it is back")
    assert (after.url, after.pid, after.token) == (before.url, before.pid, before.token)
    assert [it["name"] for it in cli.json("agent", "list")] == ["kept"]
    assert "signal 9" in (cli.data / "run/server.log").read_text()


def test_a_server_dies_with_its_supervisor_and_the_next_start_takes_over(cli: Cli) -> None:
    before = cli.up("--port", str(free_port()))
    os.kill(before.pid, signal.SIGKILL)
    port = before.url.rpartition(":")[2]
    again = cli.json("up", "--port", port, "--detach")
    assert again["url"] == before.url
    assert process_started(before.server_pid) is None
    assert cli.running.token == before.token
    assert answers(before.url)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("stale", ["pid reused", "before a reboot", "garbage", "empty"])
def test_what_a_crash_left_behind_does_not_count(cli: Cli, stale: str) -> None:
    running = cli.up()
    left = json.loads((cli.data / "run/server.json").read_text())
    cli.ok("down")
    left |= {"pid": os.getpid()}
    if stale == "before a reboot":
        left |= {"started": process_started(os.getpid()), "boot": "another"}
    text = {"garbage": "{]", "empty": ""}.get(stale, json.dumps(left))
    (cli.data / "run/server.json").write_text(text)
    (cli.data / "run/lock").write_text(f"{os.getpid()} 1 another\n")
    assert cli("status").code == 7
    assert "No Ringfence runs" in cli.ok("down")
    assert cli.up().pid not in (os.getpid(), running.pid)


def test_down_ends_one_that_is_only_starting(cli: Cli) -> None:
    process = cli.start("up", "--port", "0")
    until(lambda: Lock.holder(cli.data), "the lock is taken")
    cli.ok("down")
    process.communicate(timeout=30)
    assert Running.on(cli.data) is None


def test_a_server_that_never_comes_up_again_is_tried_at_growing_intervals(cli: Cli) -> None:
    running = cli.up()
    for path in cli.data.glob("ringfence.db*"):
        path.unlink()
    (cli.data / "ringfence.db").write_text("this is no database" * 100)
    os.kill(running.server_pid, signal.SIGKILL)
    log = cli.data / "run/server.log"
    until(lambda: "again in 2 s" in log.read_text(), "the second attempt is announced")
    assert Running.on(cli.data) is not None  # the supervisor is there to be stopped
    cli.ok("down")


def test_the_log_has_what_was_refused_under_the_id_that_was_answered(cli: Cli) -> None:
    running = cli.up()
    header = {"authorization": f"Bearer {running.token}"}
    refused = httpx.get(f"{running.url}/projects/prj_none", headers=header, trust_env=False)
    mine = {**header, "x-request-id": "my-own-1"}
    assert httpx.get(f"{running.url}/nowhere", headers=mine, trust_env=False).headers["x-request-id"] == "my-own-1"

    def logged(request_id: str) -> list[dict[str, object]]:
        lines = (cli.data / "run" / "server.log").read_text().splitlines()
        return [json.loads(line) for line in lines if request_id in line]

    for request_id, path in ((refused.headers["x-request-id"], "/projects/prj_none"), ("my-own-1", "/nowhere")):
        until(partial(logged, request_id), f"{request_id} is in the log")
        [line] = logged(request_id)
        assert (line["path"], line["status"], line["method"]) == (path, 404, "GET")
    assert running.token not in (cli.data / "run" / "server.log").read_text()


def test_a_log_turns_over_and_keeps_the_newest(tmp_path: Path) -> None:
    log = Log(tmp_path / "server.log", limit=1000, files=3)
    for number in range(100):
        log.write(f"line {number:04}\n".encode() * 10)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["server.log", "server.log.1", "server.log.2"]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    assert (tmp_path / "server.log").read_text().endswith("line 0099\n")
    for fd in (log.read_fd, log.write_fd):
        os.close(fd)


def test_the_lock_is_held_by_one(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "data"), Lock(tmp_path / "data")
    assert first.take()
    assert not second.take()
    assert Lock.holder(tmp_path / "data") == os.getpid()
    first.release()
    assert second.take()
    second.release()


# Status ---------------------------------------------------------------------------------------------------------------


def test_status_tells_where_and_who(cli: Cli) -> None:
    assert cli("status").code == 7
    assert cli("status", "--json").json["status"] == "unreachable"
    running = cli.up()
    facts = cli.json("status")
    assert facts["status"] == "ok"
    assert (facts["url"], facts["you"], facts["pid"]) == (running.url, "alice", running.pid)
    assert running.url in cli.ok("status")


def test_a_disk_that_is_full_shows_in_the_status_and_at_the_start(cli: Cli, small_disk: Path) -> None:
    data = ("--data", small_disk / "data")
    cli.ok("up", "--port", "0", "--detach", *data)
    try:
        ballast = fill_up(small_disk)
        said = cli("status", *data)
        assert (said.code, "full" in said.out) == (1, True)
        assert "free some space" in said.err
        cli.ok("down", *data)
        ballast.unlink()
        ballast = fill_up(small_disk)  # with what the stop gave back
        said = cli("up", "--port", "0", "--detach", *data)
        assert (said.code, said.out) == (1, "")
        assert "full" in said.err, said.err
        assert "free some space" in said.err
        ballast.unlink()
        cli.ok("up", "--port", "0", "--detach", *data)
        assert cli.json("status", *data)["disk"] == "ok"
    finally:
        cli("down", *data)


def test_status_of_a_server_that_never_answers_ends(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def hang_up() -> None:
            silent.accept()[0].close()

        closing = threading.Thread(target=hang_up)
        closing.start()
        said = cli("status", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}")
        closing.join()
    assert said.code == 7


def test_the_command_line_and_the_server_agree_on_the_default_folder() -> None:
    assert default_data() == servers_default()
