"""What happens to sandboxes by themselves, and what a server finds when it comes back."""

import asyncio
import sqlite3
import threading
from dataclasses import replace
from typing import Any

import httpx
import pytest

from ringfence.fence import lives as lives_module
from ringfence.fence.model import Cause, State, Wanted
from ringfence.fence.runtimes.dummy import Dummy
from tests.fence.conftest import SANDBOXES, Fenced, refused, until
from tests.fence.test_service import begin


def kill(fence: Fenced, sandbox: str, cause: Cause = Cause.DIED, said: bytes = b"") -> None:
    fence.server.run(fence.dummy.kill(sandbox, cause, said))


def until_restarted(fence: Fenced, sandbox: str, times: int) -> None:
    until(lambda: fence.show(sandbox)["restarts"] == times, f"it was started again {times} times")


# Crashes --------------------------------------------------------------------------------------------------------------


def test_a_sandbox_whose_warden_dies_is_started_again_with_its_files(fence: Fenced):
    box = fence.create()["id"]
    fence.dummy._boxes[box].files["/workspace/x"] = b"x"
    kill(fence, box, Cause.MEMORY)
    until(lambda: fence.show(box)["restarts"] == 1, "it was started again")
    assert fence.state(box) == "running"
    assert fence.dummy._boxes[box].files["/workspace/x"] == b"x"
    crashed = fence.events(box, "sandbox_crashed")
    assert [(event["data"]["cause"], event["data"]["restarting"]) for event in crashed] == [("memory", True)]
    assert crashed[0]["actor"] == "system"


def test_five_short_lives_are_a_loop_which_stops_it_and_alerts(fence: Fenced):
    box = fence.create()["id"]
    for restarts in range(1, 5):
        kill(fence, box)
        until_restarted(fence, box, restarts)
    kill(fence, box)
    failed = fence.until_state(box, "failed")
    assert "crashed 5 times" in failed["error"]
    alerts = fence.events(box, "sandbox_crash_loop")
    assert [event["data"]["alert"] for event in alerts] == [True]
    assert fence.kinds(box).count("sandbox_crashed") == 5
    assert fence.did(box, "start")["state"] == "running", "a person may try once more"
    kill(fence, box)
    until(lambda: fence.show(box)["restarts"] == 5, "the count began anew")


def test_long_lives_are_no_loop(fence: Fenced):
    box = fence.create()["id"]
    for restarts in range(1, 8):
        fence.server.clock.advance(61)
        kill(fence, box)
        until_restarted(fence, box, restarts)
    assert fence.state(box) == "running"


def test_a_sandbox_that_is_not_to_be_restarted_stays_stopped_with_its_cause(fence: Fenced):
    box = fence.create(on_crash="stop")["id"]
    kill(fence, box, Cause.MEMORY)
    assert fence.until_state(box, "stopped")["cause"] == "memory"
    assert fence.show(box)["wanted"] == "stopped"
    assert fence.did(box, "start")["cause"] is None


def test_programs_of_a_crashed_sandbox_are_lost(fence: Fenced):
    box = fence.create()["id"]
    session = begin(fence, box, "sleep", "3600")
    kill(fence, box)
    assert fence.server.run(session.exit()).why == "lost"


# Starting that fails --------------------------------------------------------------------------------------------------


def test_a_warden_that_dies_before_it_greets_fails_the_create_with_what_it_said(
    fence: Fenced, monkeypatch: pytest.MonkeyPatch
):
    fence.dummy.deaf = True
    problem: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: problem.append(fence.admin.post(SANDBOXES, json={"name": "dead"})))
    asking.start()
    box = until(lambda: fence.listed() and fence.show("dead")["id"], "the row is there before anything is spawned")
    until(lambda: box in fence.dummy._boxes and fence.dummy._boxes[box].life, "its warden was started")
    kill(fence, box, said=b"warden: no kernel for this\n")
    asking.join(10)
    told = refused(problem[0], 409, "sandbox_failed")
    assert "no kernel for this" in told["detail"]
    assert told["sandbox"] == box
    failed = fence.show(box)
    assert (failed["state"], failed["wanted"]) == ("failed", "stopped")
    assert "no kernel for this" in failed["error"]
    fence.dummy.deaf = False
    assert fence.did(box, "start")["state"] == "running"


def test_a_warden_that_never_greets_is_not_waited_for_for_ever(fence: Fenced, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lives_module, "GREETING", 0.3)
    fence.dummy.deaf = True
    refused(fence.admin.post(SANDBOXES, json={"name": "mute"}), 409, "sandbox_failed")
    assert fence.state("mute") == "failed"
    assert fence.dummy._boxes[fence.show("mute")["id"]].life is None, "nothing is left running"


def test_a_caller_who_goes_away_leaves_nothing_half_done(fence: Fenced, monkeypatch: pytest.MonkeyPatch):
    fence.dummy.deaf = True
    with pytest.raises(httpx.ReadTimeout):
        fence.admin.post(SANDBOXES, json={"name": "gone"}, timeout=0.3)
    fence.dummy.deaf = False
    box = fence.show("gone")["id"]
    until(lambda: fence.dummy._boxes[box].life, "its warden was started")
    kill(fence, box)
    fence.until_state(box, "failed")


def test_a_server_without_a_runtime_says_so(server: Any):
    problem = refused(server.admin.post(SANDBOXES, json={}), 503, "no_runtime")
    assert "ringfence doctor" in problem["detail"]
    assert server.admin.get(SANDBOXES).json()["items"] == []


# Coming back ----------------------------------------------------------------------------------------------------------


def test_sandboxes_outlive_the_server_with_what_runs_in_them(fence: Fenced):
    boxes = [fence.create()["id"] for _ in range(10)]
    paused = fence.create()["id"]
    fence.did(paused, "pause")
    before = {box: fence.dummy._boxes[box].life for box in boxes}
    fence.restart()
    until(lambda: fence.events(kind="fence_reconciled"), "it reconciled")
    assert fence.events(kind="fence_reconciled")[0]["data"]["adopted"] == 11
    for box in boxes:
        assert fence.state(box) == "running"
        assert fence.dummy._boxes[box].life == before[box], "the same life goes on"
        assert fence.server.run(begin(fence, box, "true").exit()).code == 0, "and its warden is back on the link"
    assert fence.state(paused) == "paused"
    assert fence.did(paused, "resume")["state"] == "running"
    kill(fence, boxes[0])
    until(lambda: fence.show(boxes[0])["restarts"] == 1, "its owner watches it again")


def test_a_power_cut_loses_sandboxes_and_says_why(fence: Fenced):
    box, stopped = fence.create()["id"], fence.create()["id"]
    fence.did(stopped, "stop")
    fence.server.stop()
    life = fence.dummy._boxes[box].life
    assert life is not None
    fence.dummy.end_world()
    fence.server.start()
    fence.server.admin = fence.server.client(fence.server.admin_token)
    lost = fence.until_state(box, "lost")
    assert lost["error"] == "this machine was restarted"
    assert fence.state(stopped) == "stopped"
    assert fence.events(kind="fence_reconciled")[0]["data"]["lost"] == 1
    assert fence.did(box, "start")["state"] == "running", "its files are there"


ROWS = [
    (state, wanted, world)
    for state in (State.CREATING, State.RUNNING, State.PAUSED, State.STOPPED, State.FAILED, State.LOST)
    for wanted in Wanted
    for world in ("nothing", "files", "its life", "its life, paused", "another life")
]


def expected(state: State, wanted: Wanted, world: str) -> str:
    """What a row is to become: the table in the module's docstring."""
    if wanted is Wanted.DESTROYED:
        return "destroyed"
    if state is State.CREATING:
        return "running"
    if state in (State.RUNNING, State.PAUSED):
        if wanted is Wanted.STOPPED:
            return "stopped"
        if not world.startswith("its life"):
            return "lost"
        return "running" if wanted is Wanted.PAUSED else str(state)  # no agent of these stands still
    if state is State.STOPPED and wanted is Wanted.RUNNING:
        return "running" if world != "nothing" else "failed"
    return str(state)


def test_whatever_a_crash_left_behind_world_and_rows_are_one_again(fence: Fenced, dummy: Dummy):
    cases = {fence.create()["id"]: row for row in ROWS for _ in range(1)}
    orphans = [fence.create()["id"] for _ in range(3)]
    fence.server.stop()
    rows = sqlite3.connect(fence.server.settings.data / "ringfence.db")
    for box, (state, wanted, world) in cases.items():
        rows.execute("UPDATE sandboxes SET state = ?, wanted = ? WHERE id = ?", (state.value, wanted.value, box))
        arrange(fence, box, world)
    for box in orphans:
        rows.execute("DELETE FROM sandboxes WHERE id = ?", (box,))
    rows.commit()
    rows.close()
    fence.server.start()
    fence.server.admin = fence.server.client(fence.server.admin_token)
    figures = until(lambda: fence.events(kind="fence_reconciled"), "it reconciled")[0]["data"]
    for box, case in cases.items():
        now = fence.show(box)
        assert now["state"] == expected(*case), (case, now["error"])
        found = dummy._boxes.get(box)
        lives = found is not None and found.life is not None
        assert lives == (now["state"] in ("running", "paused")), case
        if lives and found is not None:
            assert found.moving.is_set() == (now["state"] == "running"), case
        if now["state"] == "destroyed":
            assert found is None, case
    assert not set(orphans) & dummy._boxes.keys(), "what no row knows is gone"
    assert figures["orphans"] == 3
    assert figures["destroyed"] == sum(wanted is Wanted.DESTROYED for _, wanted, _ in ROWS)
    assert sum(value for name, value in figures.items() if isinstance(value, int) and name != "took_ms") > len(ROWS) / 2
    assert fence.events(kind="fence_reconciled")[-1]["data"] == figures, "one event tells of it"


def arrange(fence: Fenced, box: str, world: str) -> None:
    """The world as a case has it; on the dummy's own thread, because no server runs."""
    dummy = fence.dummy

    async def do() -> None:
        if world == "nothing":
            await dummy._end(box, Cause.DIED)
            del dummy._boxes[box]
        elif world == "files":
            await dummy._end(box, Cause.DIED)
        elif world == "its life, paused":
            dummy._boxes[box].moving.clear()
        elif world == "another life":
            life = dummy._boxes[box].life
            assert life is not None
            dummy._boxes[box].life = replace(life, started=life.started + 1_000_000)

    assert dummy._loop is not None
    asyncio.run_coroutine_threadsafe(do(), dummy._loop).result(10)


def test_the_server_serves_while_it_looks_at_what_runs(fence: Fenced, dummy: Dummy, monkeypatch: pytest.MonkeyPatch):
    """A host that answers slowly holds up actions on sandboxes that were there, and nothing else."""
    box = fence.create()["id"]
    fence.server.stop()
    looked = threading.Event()
    find_all = dummy.find_all

    async def slow() -> Any:
        await asyncio.to_thread(looked.wait, 10)
        return await find_all()

    monkeypatch.setattr(dummy, "find_all", slow)
    fence.server.start()
    fence.server.admin = fence.server.client(fence.server.admin_token)
    assert fence.admin.get("/readyz").status_code == 200
    assert fence.state(box) == "running"
    assert fence.create(name="meanwhile")["state"] == "running"
    stopping = threading.Thread(target=lambda: fence.post(box, "stop"))
    stopping.start()
    assert fence.state(box) == "running"
    looked.set()
    stopping.join(10)
    assert fence.state(box) == "stopped"
    assert fence.state("meanwhile") == "running"


def test_what_was_asked_for_before_a_crash_is_done_after_it(fence: Fenced, dummy: Dummy):
    """The wish is committed before anything is done about it."""
    first, second = fence.create()["id"], fence.create()["id"]
    fence.server.stop()
    rows = sqlite3.connect(fence.server.settings.data / "ringfence.db")
    rows.execute("UPDATE sandboxes SET wanted = 'stopped' WHERE id = ?", (first,))
    rows.execute("UPDATE sandboxes SET wanted = 'destroyed' WHERE id = ?", (second,))
    rows.commit()
    rows.close()
    fence.server.start()
    fence.server.admin = fence.server.client(fence.server.admin_token)
    fence.until_state(first, "stopped")
    fence.until_state(second, "destroyed")
    assert second not in dummy._boxes


def test_keys_lie_for_the_server_alone_and_go_with_their_sandbox(fence: Fenced):
    box = fence.create()["id"]
    keys = fence.server.settings.data / "fence" / "keys"
    assert [path.name for path in keys.iterdir()] == [box]
    assert (keys / box).stat().st_mode & 0o777 == 0o600
    assert keys.stat().st_mode & 0o777 == 0o700
    first = (keys / box).read_bytes()
    fence.did(box, "restart")
    assert (keys / box).read_bytes() != first, "each life has its own"
    fence.admin.delete(f"{SANDBOXES}/{box}")
    assert list(keys.iterdir()) == []
