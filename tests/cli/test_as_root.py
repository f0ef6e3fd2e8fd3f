"""Run by root: three processes, of which one keeps root; what each may, and what the death of each costs."""

import json
import os
import shutil
import signal
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ringfence.kernel.processes import process_fields, process_started
from ringfence.privileges import view
from ringfence.privileges.users import servers
from ringfence.supervisor import Running
from tests.cli.conftest import Cli, Terminal, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="for anybody but root there is one user")
API = "/api/v1/sandboxes"


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def spawner_of(running: Running) -> int:
    (found,) = [pid for pid in children(running.pid) if b"native.spawner" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


def made(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = cli.api("POST", API)
    return found


def warden_of(cli: Cli, sandbox: str) -> tuple[int, int]:
    """The process and its start time; `lock` is root's own note of it."""
    life = json.loads((cli.data / "sandboxes/boxes" / sandbox / "lock").read_text())["life"]
    return life["pid"], life["started"]


def run(cli: Cli, sandbox: str, *argv: str) -> str:
    answer = cli.api("POST", f"{API}/{sandbox}/exec", argv=list(argv))
    assert answer["code"] == 0, answer
    return str(answer["stdout"])


@pytest.fixture
def sandbox(cli: Cli) -> Any:
    """On a machine with a server; its data folder lies where only root may look."""
    cli.up()
    found = made(cli)
    yield found["id"]
    if Running.on(cli.data) is None:
        cli.up()
    cli.api("DELETE", f"{API}/{found['id']}")


def test_a_sandbox_is_made_used_and_removed_and_nobody_is_root_but_two(cli: Cli, sandbox: str) -> None:
    user = servers()
    assert user is not None
    running = cli.running
    facts = status(running.server_pid)
    assert facts["Uid"].split() == [str(user.uid)] * 4 and facts["Gid"].split() == [str(user.gid)] * 4
    assert facts["Groups"] == "" and facts["NoNewPrivs"] == "1"
    assert {int(facts[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status(spawner_of(running))["Uid"].split()[0] == status(running.pid)["Uid"].split()[0] == "0"
    assert len(children(running.pid)) == 2
    assert run(cli, sandbox, "id", "-u") == "1000\n"
    assert int(status(warden_of(cli, sandbox)[0])["Uid"].split()[0]) not in (0, user.uid)
    for action in ("pause", "resume", "stop", "start"):
        cli.api("POST", f"{API}/{sandbox}/{action}")
    assert run(cli, sandbox, "echo", "again") == "again\n"
    other = made(cli)["id"]
    cli.api("DELETE", f"{API}/{other}")
    assert not (cli.data / "sandboxes/boxes" / other).exists()
    told = [json.loads(line) for line in (cli.data / "run/spawner.log").read_text().splitlines()]
    assert [it["operation"] for it in told if it["sandbox"] == other] == ["create", "start", "destroy"]


def test_an_image_is_imported_used_and_forgotten_through_the_spawner(cli: Cli) -> None:
    """Its archive lies with the server's files, of which root follows no link."""
    cli.up()
    root = cli.home / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/sh", root / "bin/sh")
    with tarfile.open(cli.home / "image.tar", "w") as tar:
        tar.add(root, ".")
    cli.ok("image", "import", cli.home / "image.tar", "--name", "tiny")
    found = cli.api("POST", API, image="tiny")
    cli.api("DELETE", f"{API}/{found['id']}")
    cli.ok("image", "rm", "--yes", "tiny")
    assert list((cli.data / "incoming").iterdir()) == []
    told = [json.loads(line)["operation"] for line in (cli.data / "run/spawner.log").read_text().splitlines()]
    assert told == ["import_image", "create", "start", "destroy", "forget_image"]


def test_no_sandbox_may_have_the_id_of_the_server(cli: Cli) -> None:
    said = cli("up", "--port", "0", "--detach", RINGFENCE_UID_BASE="100000")
    if (servers() or pytest.fail()).uid < 100_000:  # a user `ringfence` of this host
        assert said.code == 0
    else:
        assert said.code == 1 and "uid_base" in said.err


def test_the_server_knows_nothing_of_roots_environment(cli: Cli) -> None:
    cli.ok("up", "--port", "0", "--detach", AWS_SECRET_ACCESS_KEY="root's", LC_TIME="C")
    environment = Path(f"/proc/{cli.running.server_pid}/environ").read_bytes()
    assert b"root's" not in environment and b"RINGFENCE_DATA" not in environment
    assert b"LC_TIME=C" in environment and f"HOME={cli.data}".encode() in environment


def test_a_certificate_that_is_none_is_told_by_its_name(cli: Cli) -> None:
    cert, key = cli.home / "cert.pem", cli.home / "key.pem"
    for path in (cert, key):
        path.write_text("this is none")
        path.chmod(0o600)
    said = cli("up", "--port", "0", "--detach", "--tls-cert", cert, "--tls-key", key)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert str(cert) in said.err and str(key) in said.err


def test_the_doctor_tells_of_what_the_spawner_can_and_not_of_what_the_server_may(cli: Cli) -> None:
    cli.up()
    alone = cli("doctor", "--json").json
    for told in (alone, cli.api("GET", "/api/v1/doctor")):
        found = {it["id"]: it for it in told["findings"]}
        assert told["level"] != "missing", told
        assert (found["ids"]["level"], found["ids"]["found"]) == ("ok", "a range of ids each")


def test_the_rest_of_roots_home_is_not_there_for_the_server(cli: Cli) -> None:
    (cli.home / "secret").write_text("root's")
    running = cli.up()
    seen = Path(f"/proc/{running.server_pid}/root")
    assert (seen / cli.data.relative_to("/") / "ringfence.db").exists()
    assert not (seen / (cli.home / "secret").relative_to("/")).exists()


def test_a_server_that_was_killed_finds_its_sandboxes_and_the_same_spawner(cli: Cli, sandbox: str) -> None:
    before, spawner, warden = cli.running, spawner_of(cli.running), warden_of(cli, sandbox)
    os.kill(before.server_pid, signal.SIGKILL)
    until(lambda: (now := Running.on(cli.data)) and now.server_pid != before.server_pid, "it is back")
    assert run(cli, sandbox, "echo", "alive") == "alive\n"
    assert warden_of(cli, sandbox) == warden
    assert spawner_of(cli.running) == spawner
    cli.api("DELETE", f"{API}/{made(cli)['id']}")


def test_a_spawner_that_was_killed_is_replaced_and_nothing_else_notices(cli: Cli, sandbox: str) -> None:
    before, warden = cli.running, warden_of(cli, sandbox)
    os.kill(spawner_of(before), signal.SIGKILL)
    assert run(cli, sandbox, "echo", "alive") == "alive\n"  # needs none
    cli.api("DELETE", f"{API}/{made(cli)['id']}")  # waits for the next
    assert warden_of(cli, sandbox) == warden
    assert cli.running.server_pid == before.server_pid
    assert "the spawner died (signal 9" in (cli.data / "run/server.log").read_text()


def test_with_a_supervisor_that_was_killed_all_end_but_the_sandboxes(cli: Cli, sandbox: str) -> None:
    before, spawner, (warden, started) = cli.running, spawner_of(cli.running), warden_of(cli, sandbox)
    os.kill(before.pid, signal.SIGKILL)
    for pid in (before.server_pid, spawner):
        until(lambda pid=pid: process_started(pid) is None, "it ended with its supervisor")  # type: ignore[misc]
    assert process_started(warden) == started
    cli.up()
    assert run(cli, sandbox, "echo", "alive") == "alive\n"
    assert warden_of(cli, sandbox) == (warden, started)


def test_what_a_server_of_roots_own_left_is_taken_over_with_its_living_sandboxes(cli: Cli, sandbox: str) -> None:
    """As before there was a spawner: everything is root's, the server's sockets too."""
    run(cli, sandbox, "sh", "-c", "echo kept > /home/agent/file")
    warden = warden_of(cli, sandbox)
    cli.ok("down")
    box = cli.data / "sandboxes/boxes" / sandbox
    group = box.stat().st_gid
    for path in (cli.data, *cli.data.glob("ringfence.db*"), cli.data / "fence", *(cli.data / "fence").rglob("*")):
        os.chown(path, 0, 0)
    os.chown(box / "run", 0, group)
    box.chmod(0o710)
    cli.data.chmod(0o711)
    cli.up()
    assert run(cli, sandbox, "cat", "/home/agent/file") == "kept\n"
    assert warden_of(cli, sandbox) == warden
    assert {path.stat().st_uid for path in cli.data.glob("ringfence.db*")} == {servers().uid}  # type: ignore[union-attr]


def as_server(work: str, cli: Cli) -> subprocess.CompletedProcess[str]:
    """Shell in the data folder as the server's user, which its own namespace shows."""
    user = servers()
    assert user is not None

    def become() -> None:
        view.enter([view.Needed(cli.data, writable=True)])
        view.become(user)

    return subprocess.run(
        ["sh", "-c", f"cd '{cli.data}' && {work}"], preexec_fn=become, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "attempt",
    [
        "mv run away", "rm -r run", "touch run/x", "cat run/server.json", "cat run/lock", "mv sandboxes away",
        "touch sandboxes/x", "ls sandboxes", "echo > ringfence.toml", "rm ringfence.toml", "chmod 777 .",
        "mv ../data ../x", "ln ringfence.toml y && echo >> y",
    ],
)  # fmt: skip
def test_a_hostile_server_cannot_bend_what_root_works_with(cli: Cli, attempt: str) -> None:
    cli.data.mkdir(mode=0o700)
    (cli.data / "ringfence.toml").write_text("")
    cli.ok("token", "create", "--name", "ci", "--data", cli.data)
    assert as_server("touch probe && rm probe", cli).returncode == 0
    done = as_server(attempt, cli)
    assert (done.returncode != 0 and "denied" in done.stderr) or "not permitted" in done.stderr, done


@pytest.mark.parametrize(
    "name", ["ringfence.db", "ringfence.db-wal", "ringfence.db-shm", "ringfence.db-journal", "files"]
)
def test_the_command_run_by_root_follows_no_link_that_a_hostile_server_laid(cli: Cli, name: str) -> None:
    cli.ok("token", "create", "--name", "ci", "--data", cli.data)
    secret = cli.home / "secret"
    secret.mkdir() if name == "files" else secret.write_bytes(b"")
    secret.chmod(0o644)
    before = secret.stat()
    assert as_server(f"rm -rf {name} && ln -s {secret} {name}", cli).returncode == 0
    cli("token", "create", "--name", "cd", "--data", cli.data)
    cli("backup", "create", "--data", cli.data, "-o", cli.home / "backup.tar")
    said = cli("up", "--port", "0", "--detach")
    assert said.code in (0, 1)
    after = secret.stat()
    assert (after.st_uid, after.st_mode, after.st_size, after.st_mtime_ns) == (
        0, before.st_mode, before.st_size, before.st_mtime_ns
    )  # fmt: skip


def test_offline_work_leaves_files_of_the_servers_user(cli: Cli) -> None:
    cli.ok("token", "create", "--name", "ci", "--data", cli.data)
    cli.ok("backup", "create", "--data", cli.data, "-o", cli.home / "backup.tar")
    assert (cli.home / "backup.tar").stat().st_uid == 0
    assert stat.S_IMODE((cli.home / "backup.tar").stat().st_mode) == 0o600
    cli.ok("backup", "restore", cli.home / "backup.tar", "--data", cli.home / "restored")
    for data in (cli.data, cli.home / "restored"):
        assert {path.stat().st_uid for path in data.glob("ringfence.db*")} == {servers().uid}  # type: ignore[union-attr]
    cli.ok("up", "--port", "0", "--detach", "--data", cli.home / "restored")
    cli.ok("down", "--data", cli.home / "restored")


def test_the_server_has_no_part_in_roots_terminal(cli: Cli) -> None:
    """Else it could read what root types there, or type for root."""
    terminal = Terminal(cli, "up", "--port", "0")
    terminal.see("Stop it:")
    server = cli.running.server_pid
    fields = process_fields(server)
    assert fields is not None and int(fields[4]) == 0, "no controlling terminal"
    assert not [fd for fd in Path(f"/proc/{server}/fd").iterdir() if "/dev/pts" in str(fd.readlink())]
    terminal.type("\x03")
    assert terminal.end() == 0
