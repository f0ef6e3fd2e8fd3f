"""What people do to an agent reaches its sandboxes: they stand still, go on, or end with it."""

import sqlite3
from dataclasses import replace

import pytest

from ringfence.fence.runtimes.dummy import Dummy
from tests.fence.conftest import SANDBOXES, Fenced, refused
from tests.fence.test_service import begin


def test_a_paused_agents_sandboxes_stand_still_until_it_is_resumed(fence: Fenced):
    fence.server.agent("claude")
    box, other = fence.create(agent="claude")["id"], fence.create()["id"]
    looked_at = fence.create(agent="claude")["id"]
    fence.did(looked_at, "pause")
    fence.admin.post("/agents/claude/pause", json={"reason": "let me see"})
    fence.until_state(box, "paused")
    assert fence.state(other) == "running"
    [told] = fence.events(box, "sandbox_freezing")
    assert (told["actor"], told["data"]["reason"]) == ("operator:admin", "agent claude was paused")
    fence.admin.post("/agents/claude/resume")
    fence.until_state(box, "running")
    assert fence.show(box)["wanted"] == "running"
    assert fence.state(looked_at) == "paused", "a person paused it, and resumes it"


def test_only_new_work_stops_and_what_runs_goes_on(fence: Fenced):
    fence.server.agent("claude")
    box = fence.create(agent="claude")["id"]
    fence.admin.post("/agents/claude/pause")
    fence.until_state(box, "paused")
    fence.admin.post("/agents/claude/pause", json={"freeze": False})
    fence.until_state(box, "running")
    fence.admin.post("/agents/claude/pause", json={"freeze": False})
    assert "sandbox_freezing" not in fence.kinds(box)[fence.kinds(box).index("sandbox_thawing") :]
    assert fence.state(box) == "running"


@pytest.mark.parametrize("how", ["revoke", "unregister"])
def test_what_a_halted_agent_runs_ends_and_its_files_stay(fence: Fenced, how: str):
    fence.server.agent("claude")
    box, other = fence.create(agent="claude")["id"], fence.create()["id"]
    still = fence.create(agent="claude")["id"]
    fence.did(still, "pause")
    fence.dummy._boxes[box].files["/workspace/x"] = b"x"
    session = begin(fence, box, "sleep", "3600")
    if how == "revoke":
        fence.admin.post("/agents/claude/revoke", json={"reason": "policy violation"})
    else:
        fence.admin.delete("/agents/claude")
    fence.until_state(box, "stopped")
    fence.until_state(still, "stopped")
    fence.server.run(session.exit())
    assert fence.state(other) == "running"
    assert fence.did(box, "start")["state"] == "running"
    assert fence.dummy._boxes[box].files["/workspace/x"] == b"x"


@pytest.mark.parametrize(("how", "code"), [("pause", "agent_paused"), ("revoke", "agent_revoked")])
def test_a_halted_agent_runs_nothing_even_where_a_person_lets_its_sandbox_go_on(fence: Fenced, how: str, code: str):
    claude = fence.server.agent("claude")
    box = fence.create(agent="claude")["id"]
    fence.admin.post(f"/agents/claude/{how}")
    fence.until_state(box, "paused" if how == "pause" else "stopped")
    fence.did(box, "resume" if how == "pause" else "start")
    refused(claude.post(f"{SANDBOXES}/{box}/exec", json={"argv": ["true"]}), 403, code)
    assert fence.post(box, "exec", argv=["true"]).status_code != 403, "a person may"


def test_an_agent_that_was_paused_or_resumed_before_a_crash_finds_its_sandboxes_so(fence: Fenced):
    fence.server.agent("claude")
    box = fence.create(agent="claude")["id"]

    def meanwhile(frozen: int) -> None:
        """Somebody paused or resumed it, and the server ended before it did anything about that."""
        fence.server.stop()
        rows = sqlite3.connect(fence.server.settings.data / "ringfence.db")
        rows.execute("UPDATE agents SET frozen = ?, paused_at = CASE WHEN ? THEN 1 END", (frozen, frozen))
        rows.execute("UPDATE sandboxes SET wanted = 'paused' WHERE id = ?", (box,))
        rows.commit()
        rows.close()
        fence.server.start()
        fence.server.admin = fence.server.client(fence.server.admin_token)

    meanwhile(frozen=1)
    fence.until_state(box, "paused")
    meanwhile(frozen=0)
    fence.until_state(box, "running")


def test_where_nothing_can_stand_still_it_is_stopped(fence: Fenced, dummy: Dummy):
    offer = fence.server.house.fence.offer
    assert offer is not None
    fence.server.house.fence.offer = replace(offer, capabilities=replace(offer.capabilities, pause=False))
    fence.server.agent("claude")
    box = fence.create(agent="claude")["id"]
    fence.admin.post("/agents/claude/pause")
    fence.until_state(box, "stopped")
