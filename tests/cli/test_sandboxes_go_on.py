"""`ringfence down` beside sandboxes that live: what it says goes on does, and `--all` ends it."""

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.fence.runtimes.native.living import living
from ringfence.kernel.processes import process_started
from tests.cli.conftest import Cli, until


@pytest.fixture
def cli() -> Iterator[Cli]:
    """In a folder whose parents every user may pass through: run by root, sandboxes are users of their own."""
    home = Path(tempfile.mkdtemp(prefix="rf-down-", dir="/var/tmp"))
    home.chmod(0o711)
    found = Cli(home)
    try:
        yield found
    finally:
        found("down", "--all")
        shutil.rmtree(home)


def with_sandboxes(cli: Cli, *names: str) -> None:
    cli.up()
    for name in names:
        cli.api("POST", "/api/v1/sandboxes", name=name)


def wardens(cli: Cli) -> list[int]:
    lives = [sandbox.box.life() for sandbox in living(cli.data)]
    return [life.pid for life in lives if life is not None]


def test_down_says_which_sandboxes_go_on_and_the_next_server_has_them(cli: Cli) -> None:
    with_sandboxes(cli, "first", "second")
    before = wardens(cli)
    said = cli.ok("down")
    assert said == (f"Stopped: {cli.data}\n2 sandboxes (first, second) go on; to stop that too: ringfence down --all\n")
    assert wardens(cli) == before
    assert cli.ok("down").endswith("2 sandboxes (first, second) go on; to stop that too: ringfence down --all\n")
    cli.up()
    for name in ("first", "second"):
        answer = cli.api("POST", f"/api/v1/sandboxes/{name}/exec", argv=["hostname"])
        assert answer["stdout"] == f"{name}\n"
    assert wardens(cli) == before


def test_down_all_stops_them_as_somebody_who_asked_for_it(cli: Cli) -> None:
    with_sandboxes(cli, "first", "second")
    pids = wardens(cli)
    facts = cli.json("down", "--all")
    assert [one["name"] for one in facts["sandboxes_stopped"]] == ["first", "second"]
    assert (facts["stopped"], facts["sandboxes_left"], wardens(cli)) == (True, [], [])
    assert all(process_started(pid) is None for pid in pids)
    cli.up()
    found = cli.api("GET", "/api/v1/sandboxes")["items"]
    assert [(one["state"], one["wanted"], one["cause"]) for one in found] == [("stopped", "stopped", "stopped")] * 2
    assert wardens(cli) == [], "what was stopped is not started again"


def test_down_all_ends_what_a_server_that_died_left(cli: Cli) -> None:
    with_sandboxes(cli, *(f"box-{number}" for number in range(7)))
    running = cli.running
    os.kill(running.pid, signal.SIGKILL)  # the server dies with its supervisor
    until(lambda: process_started(running.server_pid) is None, "the server is gone")
    said = cli.ok("down")
    assert said.startswith(f"No Ringfence runs on {cli.data}.\n7 sandboxes (box-0, ")
    assert " and 2 more) go on" in said
    assert re.search(r"Stopped 7 sandboxes \(.*and 2 more\)\.\n$", cli.ok("down", "--all"))
    assert wardens(cli) == []
    assert cli.ok("down", "--all") == f"No Ringfence runs on {cli.data}.\n"


def test_down_all_ends_them_where_the_server_does_not_answer(cli: Cli) -> None:
    cli.env["RINGFENCE_DRAIN_SECONDS"] = "1"
    with_sandboxes(cli, "stuck")
    os.kill(cli.running.server_pid, signal.SIGSTOP)
    said = cli("down", "--all")
    assert said.code == 0, said
    assert "sandboxes are ended at once" in said.err
    assert said.out.endswith("Stopped 1 sandbox (stuck).\n")
    assert wardens(cli) == []
