"""Whatever is killed, whenever: sandboxes outlive the server, nothing is lost, told wrong, or left behind."""

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fence.conftest import until
from tests.fence.torture import SANDBOXES, SETTLED_WITHIN, Killer, Load, Tortured, said_by

FEW, MANY = 20, 200
PAUSES = (0.02, 0.1, 0.3, 0.8)  # seconds between two kills
BYTES = 3_000_000  # more than a warden keeps: the program has to wait for a server


@pytest.fixture
def tortured() -> Iterator[Tortured]:
    folder = Path(tempfile.mkdtemp(prefix="rf-torture-", dir="/var/tmp"))
    folder.chmod(0o711)
    server = Tortured(folder / "data")
    try:
        yield server
    finally:
        server.close()
        subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def client(tortured: Tortured) -> Iterator[httpx.Client]:
    with tortured.client() as found:
        yield found


def created(client: httpx.Client, **body: Any) -> str:
    answer = client.post(SANDBOXES, json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def shown(client: httpx.Client, sandbox: str) -> dict[str, Any]:
    return dict(client.get(f"{SANDBOXES}/{sandbox}").json())


def ran(client: httpx.Client, sandbox: str, *argv: str, **more: Any) -> dict[str, Any]:
    answer = client.post(f"{SANDBOXES}/{sandbox}/exec", json={"argv": list(argv), **more})
    assert answer.is_success, answer.text
    return dict(answer.json())


def everything(client: httpx.Client, path: str, **params: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = client.get(path, params={**params, "limit": "100"}).json()
        found += page["items"]
        if not page["next"]:
            return found
        params["cursor"] = page["next"]


def alone(tortured: Tortured, sandbox: str, name: str) -> int:
    """The one process of that name in the one sandbox."""
    [found] = [pid for pid, each in tortured.processes().items() if each == name]
    return found


def test_twenty_kills_at_random_lose_nothing_and_leave_nothing(tortured: Tortured, client: httpx.Client) -> None:
    torture(tortured, client, FEW)


@pytest.mark.long
def test_two_hundred_kills_at_random_lose_nothing_and_leave_nothing(tortured: Tortured, client: httpx.Client) -> None:
    torture(tortured, client, MANY)


def torture(tortured: Tortured, client: httpx.Client, kills: int) -> None:
    first = created(client)
    client.delete(f"{SANDBOXES}/{first}")
    before = tortured.descriptors()
    load = Load(tortured, [created(client, name=f"home-{number}") for number in range(3)])
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    killer = Killer(tortured, dice)
    load.begin()
    try:
        for _ in range(kills):
            time.sleep(dice.choice(PAUSES))  # what is killed is to be in the middle of something
            killer.strike()
        tortured.await_ready()
    finally:
        load.end()
    assert killer.killed.total() >= kills, killer.killed
    print(killer.killed, load.made, len(load.written), len(load.answered))
    everything_has_settled(tortured, client)
    ends = ended_wardens(client)
    # What was bubblewrap when it was chosen may have become the warden when it was struck.
    assert len(ends) <= killer.killed["warden"] + killer.killed["bubblewrap"], "a warden ended that nobody killed"
    nothing_was_lost(client, load, ends)
    nothing_is_left(tortured, client, before)


def everything_has_settled(tortured: Tortured, client: httpx.Client) -> None:
    """What the database says of each sandbox is so, and every program has an end."""

    def unsettled() -> list[str]:
        return [
            f"{each['id']} is {each['state']}, and wanted {each['wanted']}"
            for each in everything(client, SANDBOXES)
            if each["state"] == "creating" or (each["state"] == "stopped" and each["wanted"] == "running")
        ]

    until(lambda: not unsettled(), "every sandbox is what it is to be", SETTLED_WITHIN)
    for each in everything(client, SANDBOXES):
        sandbox = each["id"]
        if each["state"] == "running":
            assert ran(client, sandbox, "echo", "well")["stdout"] == "well\n"
        path = f"{SANDBOXES}/{sandbox}/execs"
        until(partial(_all_ended, client, path), "every program ends", SETTLED_WITHIN)
        inside = [name for name in tortured.processes().values() if name == "warden"]
    alive = sum(each["state"] == "running" for each in everything(client, SANDBOXES))
    assert len(inside) == alive


def _all_ended(client: httpx.Client, path: str) -> bool:
    return not everything(client, path, running="true")


def ended_wardens(client: httpx.Client) -> list[tuple[str, str]]:
    """Which sandbox's, and when."""
    kinds = ("sandbox_crashed", "sandbox_lost")
    told = [each for kind in kinds for each in everything(client, "/api/v1/audit", kind=kind)]
    return [(each["subject"], each["time"]) for each in told]


def nothing_was_lost(client: httpx.Client, load: Load, ends: list[tuple[str, str]]) -> None:
    never_ran = set()  # the server was killed between writing it down and starting it
    for written in load.written:
        out, err = said_by(written.key)
        path = f"{SANDBOXES}/{written.sandbox}/execs/{written.exec}"
        ended = client.get(path).json()
        said = [client.get(f"{path}/output", params={"channel": name}).content for name in ("stdout", "stderr")]
        if ended["cause"] == "exited":
            assert said == [out, err], (ended, len(said[0]), len(out))
        else:
            of_warden = any(sandbox == written.sandbox and at >= ended["started_at"] for sandbox, at in ends)
            of_reaper = ended["cause"] == "signalled" and ended["signal"] == signal.SIGKILL
            assert of_reaper or ended["cause"] == "lost", ended
            if not of_reaper and not of_warden:
                never_ran.add(written.key)
            assert out.startswith(said[0]) and err.startswith(said[1]), ended
        assert [len(each) for each in said] == [ended["stdout_bytes"], ended["stderr_bytes"]]
        assert out.startswith(written.read), "a follower was told something else"
    assert any(client.get(f"{SANDBOXES}/{w.sandbox}/execs/{w.exec}").json()["cause"] == "exited" for w in load.written)
    keys: list[str] = []
    for home in load.homes:
        if shown(client, home)["state"] != "running":
            client.post(f"{SANDBOXES}/{home}/start")
        keys += ran(client, home, "sh", "-c", "cat /workspace/ran || true")["stdout"].split()
    assert len(keys) == len(set(keys)), "a program ran twice"
    assert set(load.answered) <= set(keys)
    assert not never_ran & set(keys), "a program was lost whose warden nobody killed"


def nothing_is_left(tortured: Tortured, client: httpx.Client, before: Any) -> None:
    for each in everything(client, SANDBOXES):
        assert client.delete(f"{SANDBOXES}/{each['id']}").json()["state"] == "destroyed"
    tortured.known |= {each["id"] for each in everything(client, SANDBOXES, state="destroyed")}
    until(lambda: not any(tortured.leftovers().values()), f"nothing is left: {tortured.leftovers()}")
    client.close()
    until(lambda: not (tortured.descriptors() - before), f"{tortured.descriptors() - before} are open")


def test_what_was_said_while_no_server_ran_is_there_afterwards(tortured: Tortured, client: httpx.Client) -> None:
    sandbox = created(client)
    script = f"sleep 0.3; seq -f %020.0f 1 {BYTES // 21}; echo done >&2"
    answer = ran(client, sandbox, "sh", "-c", script, detach=True)
    path = f"{SANDBOXES}/{sandbox}/execs/{answer['id']}"
    tortured.kill()
    programs = tortured.processes()
    assert "warden" in programs.values()
    until(lambda: _is_stuck(tortured), "the program waits for a server")
    tortured.start()
    tortured.await_ready()
    until(lambda: client.get(path).json()["state"] == "ended", "it ended")
    ended = client.get(path).json()
    assert (ended["cause"], ended["code"]) == ("exited", 0)
    assert client.get(f"{path}/output").content == b"".join(b"%020d\n" % n for n in range(1, BYTES // 21 + 1))
    assert client.get(f"{path}/output", params={"channel": "stderr"}).content == b"done\n"
    assert shown(client, sandbox)["restarts"] == 0


def _is_stuck(tortured: Tortured) -> bool:
    """It writes into a pipe that nobody empties."""
    for pid, name in tortured.processes().items():
        if name == "inside" and b"%020" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return "pipe_write" in Path(f"/proc/{pid}/wchan").read_text() or _sleeps(pid)
    return False


def _sleeps(pid: int) -> bool:
    """Where the kernel does not say in what: it has slept at every one of many looks."""
    return all(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S" for _ in range(200))


def test_a_warden_that_is_killed_again_and_again_is_a_loop_and_alerts(tortured: Tortured, client: httpx.Client) -> None:
    sandbox = created(client, name="looping")
    ran(client, sandbox, "sh", "-c", "echo kept > /workspace/kept")
    for restarts in range(1, 5):
        os.kill(alone(tortured, sandbox, "warden"), signal.SIGKILL)
        until(partial(_restarted, client, sandbox, restarts), f"{restarts} restarts")
    os.kill(alone(tortured, sandbox, "warden"), signal.SIGKILL)
    until(lambda: shown(client, sandbox)["state"] == "failed", "it is stopped for good")
    assert "crashed 5 times" in shown(client, sandbox)["error"]
    told = client.get("/api/v1/audit", params={"kind": "sandbox_crash_loop", "subject": sandbox}).json()["items"]
    assert [(one["data"]["alert"], one["data"]["crashes"]) for one in told] == [(True, 5)]
    assert not tortured.processes()
    # Neither time nor a restart of the server starts it again; a person does.
    tortured.kill()
    tortured.start()
    tortured.await_ready()
    assert client.post(f"{SANDBOXES}/{sandbox}/start").json()["state"] == "running"
    assert ran(client, sandbox, "cat", "/workspace/kept")["stdout"] == "kept\n"


def _restarted(client: httpx.Client, sandbox: str, times: int) -> bool:
    return bool(shown(client, sandbox)["restarts"] == times)
