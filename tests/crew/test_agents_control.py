"""Pausing and revoking: what people do to agents holds at once, and nothing an agent does undoes it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ringfence.kernel.auth.model import Role
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden
from ringfence.kernel.events.model import Actor
from tests.crew.watching import agent, beat, events, refused, status
from tests.harness import Ringfence, running


def may_work(server: Ringfence, name: str) -> str:
    try:
        server.write(lambda tx: server.house.crew.may_work(tx, name, "claim a task"))
    except Forbidden as error:
        return error.code
    return "yes"


def revoke(server: Ringfence, name: str, **body: object) -> str:
    answer = server.admin.post(f"/agents/{name}/revoke", json=body)
    assert answer.status_code == 200, answer.text
    directive: str = answer.json()["revocation_id"]
    return directive


# Pausing --------------------------------------------------------------------------------------------------------------


def test_a_paused_agent_may_not_work_until_it_is_resumed(either: Ringfence):
    either.agent("claude")
    answer = either.admin.post("/agents/claude/pause", json={"reason": "lunch"})
    assert answer.json() == {"name": "claude", "status": "busy"}
    assert may_work(either, "claude") == "agent_paused"
    assert either.admin.post("/agents/claude/resume").json() == {"name": "claude", "status": "online"}
    assert may_work(either, "claude") == "yes"
    [paused], [resumed] = events(either, "agent_paused"), events(either, "agent_resumed")
    assert (paused["name"], paused["reason"], paused["freeze"], paused["by"]) == (
        "claude", "lunch", True, "operator:admin",
    )  # fmt: skip
    assert resumed["name"] == "claude"


def test_pausing_needs_no_body(server: Ringfence):
    server.agent("claude")
    assert server.admin.post("/agents/claude/pause").status_code == 200
    assert events(server, "agent_paused")[0]["freeze"] is True


@pytest.mark.parametrize("path", ["pause", "resume", "revoke", "heartbeat", "checkpoint", "autonomy", "capabilities"])
def test_what_is_done_to_an_agent_nobody_knows_is_not_found(server: Ringfence, path: str):
    for base in ("/agents", "/api/v1/crew"):
        answer = server.admin.post(f"{base}/ghost/{path}")
        assert (answer.status_code, answer.json()["error"][:15]) == (404, "agent not found")


def test_a_heartbeat_lifts_no_pause_and_tells_of_it(either: Ringfence):
    claude = either.agent("claude")
    either.admin.post("/agents/claude/pause")
    assert beat(claude, "claude")["paused"] is True
    assert status(either, "claude") == "busy"
    assert may_work(either, "claude") == "agent_paused"


def test_a_pause_survives_a_restart(either: Ringfence):
    either.agent("claude")
    either.admin.post("/agents/claude/pause", json={"reason": "night"})
    either.restart()
    assert may_work(either, "claude") == "agent_paused"
    assert agent(either, "claude")["pause_reason"] == "night"


def test_pausing_twice_is_one_pause_with_the_newer_reason(server: Ringfence):
    server.agent("claude")
    server.admin.post("/agents/claude/pause", json={"reason": "one"})
    since = agent(server, "claude")["paused_at"]
    server.admin.post("/agents/claude/pause", json={"reason": "two", "freeze": False})
    seen = agent(server, "claude")
    assert (seen["paused_at"], seen["pause_reason"], seen["frozen"]) == (since, "two", False)
    server.admin.post("/agents/claude/resume")
    assert status(server, "claude") == "online"


def test_resuming_what_is_not_paused_tells_nothing(server: Ringfence):
    server.agent("claude")
    assert server.admin.post("/agents/claude/resume").json()["status"] == "online"
    assert events(server, "agent_resumed") == []


def test_all_agents_or_all_of_a_type_can_be_paused_and_resumed(either: Ringfence):
    for name, kind in (("a", "codex"), ("b", "goose"), ("c", "codex")):
        either.agent(name, type=kind)
    assert either.admin.post("/api/v1/crew/pause", json={"agent_type": "codex"}).json() == {"paused": ["a", "c"]}
    assert [may_work(either, name) for name in "abc"] == ["agent_paused", "yes", "agent_paused"]
    assert either.admin.post("/api/v1/crew/pause").json() == {"paused": ["a", "b", "c"]}
    assert either.admin.post("/api/v1/crew/resume", json={"agent_type": "goose"}).json() == {"resumed": ["b"]}
    assert either.admin.post("/api/v1/crew/resume").json() == {"resumed": ["a", "c"]}


# Revoking -------------------------------------------------------------------------------------------------------------


def test_a_directive_is_told_at_every_poll_until_it_is_acknowledged(either: Ringfence):
    claude = either.agent("claude")
    directive = revoke(either, "claude", reason="policy violation")
    for _ in range(3):
        polled = claude.get("/agents/claude/revocation").json()
        assert polled["pending"] is True
        assert (polled["revocation_id"], polled["reason"], polled["flush_required"]) == (
            directive, "policy violation", True,
        )  # fmt: skip
    assert claude.post("/agents/claude/revocation/ack", json={"revocation_id": directive}).json() == {"status": "ok"}
    assert claude.get("/agents/claude/revocation").json() == {"pending": False}
    [entry] = either.admin.get("/revocation/history").json()
    assert (entry["id"], entry["agent"], entry["reason"], entry["acknowledged"]) == (
        directive, "claude", "policy violation", True,
    )  # fmt: skip
    assert [event["name"] for event in events(either, "agent_recovered")] == ["claude"]
    assert status(either, "claude") == "online"


def test_revoking_answers_as_documented_and_tells(either: Ringfence):
    either.agent("claude")
    answer = either.admin.post("/agents/claude/revoke", json={"reason": "r", "flush_required": False}).json()
    assert answer.keys() == {"revocation_id", "agent", "issued_at"}
    [event] = events(either, "agent_revoked")
    assert (event["agent"], event["revocation_id"], event["reason"], event["flush_required"]) == (
        "claude", answer["revocation_id"], "r", False,
    )  # fmt: skip


def test_neither_heartbeats_nor_registering_undo_a_revocation(either: Ringfence):
    claude = either.agent("claude")
    directive = revoke(either, "claude")
    assert beat(claude, "claude")["revocation"]["revocation_id"] == directive
    claude.post("/agents/register", json={"name": "claude"})
    either.restart()
    assert status(either, "claude") == "revoked"
    assert may_work(either, "claude") == "agent_revoked"


def test_a_wrong_id_does_not_un_revoke(either: Ringfence):
    claude, other = either.agent("claude"), either.agent("other")
    theirs = revoke(either, "other")
    revoke(either, "claude")
    for wrong in ("", "rev_nonsense", theirs):
        answer = claude.post("/agents/claude/revocation/ack", json={"revocation_id": wrong})
        assert answer.status_code == 404
    assert claude.post("/agents/claude/revocation/ack").status_code == 404
    assert (status(either, "claude"), status(either, "other")) == ("revoked", "revoked")
    assert other.get("/agents/other/revocation").json()["pending"] is True


def test_a_newer_directive_replaces_an_older_one(either: Ringfence):
    claude = either.agent("claude")
    old, new = revoke(either, "claude", reason="one"), revoke(either, "claude", reason="two")
    assert claude.get("/agents/claude/revocation").json()["revocation_id"] == new
    refused(claude.post("/agents/claude/revocation/ack", json={"revocation_id": old}), 409, "revocation_superseded")
    assert status(either, "claude") == "revoked"
    history = either.admin.get("/revocation/history").json()
    assert [(entry["id"], entry["superseded"]) for entry in history] == [(old, True), (new, False)]


def test_acknowledging_twice_is_acknowledging_once(server: Ringfence):
    claude = server.agent("claude")
    body = {"revocation_id": revoke(server, "claude")}
    assert [claude.post("/agents/claude/revocation/ack", json=body).status_code for _ in range(2)] == [200, 200]
    assert len(events(server, "agent_recovered")) == 1


def test_an_agent_that_is_still_paused_is_busy_after_it_acknowledged(server: Ringfence):
    claude = server.agent("claude")
    server.admin.post("/agents/claude/pause")
    body = {"revocation_id": revoke(server, "claude")}
    claude.post("/agents/claude/revocation/ack", json=body)
    assert status(server, "claude") == "busy"
    assert may_work(server, "claude") == "agent_paused"


def test_a_flush_returns_claims_and_sets_aside_what_waits_in_the_same_transaction(either: Ringfence):
    done: list[tuple[str, str, str]] = []

    def told(what: str) -> Any:
        def hook(tx: Transaction, by: Actor, name: str, reason: str) -> int:
            tx.record("hook_ran", by, {"what": what})
            done.append((what, name, reason))
            return 2

        return hook

    crew = either.house.crew
    crew.on_release.append(told("release"))
    crew.on_flush.append(told("flush"))
    crew.on_halt.append(told("halt"))
    either.agent("claude")
    either.write(lambda tx: crew.set_current_task(tx, "claude", "tsk_1"))
    revoke(either, "claude", flush_required=False)
    assert done == [("halt", "claude", "revoked")]
    assert agent(either, "claude")["current_task_id"] == "tsk_1"
    revoke(either, "claude")
    assert [what for what, _, _ in done[1:]] == ["release", "flush", "halt"]
    assert agent(either, "claude")["current_task_id"] is None
    assert events(either, "agent_revoked")[1]["returned_tasks"] >= 2


def test_a_revocation_whose_flush_fails_did_not_happen(server: Ringfence):
    def broken(tx: Transaction, by: Actor, name: str, reason: str) -> int:
        raise RuntimeError("no")

    server.agent("claude")
    server.house.crew.on_release.append(broken)
    assert server.admin.post("/agents/claude/revoke").status_code == 500
    assert status(server, "claude") == "online"
    assert server.admin.get("/revocation/history").json() == []


def test_the_history_is_kept_per_agent_and_paged(server: Ringfence):
    claude, other = server.agent("claude"), server.agent("other")
    ids = [revoke(server, "claude", reason=str(number)) for number in range(3)]
    revoke(server, "other")
    first = server.admin.get("/api/v1/crew/claude/revocations", params={"limit": 2}).json()
    rest = server.admin.get("/api/v1/crew/claude/revocations", params={"cursor": first["next"]}).json()
    assert [entry["id"] for entry in first["items"] + rest["items"]] == ids[::-1]
    assert len(server.admin.get("/api/v1/revocations").json()["items"]) == 4
    assert len(server.admin.get("/revocation/history", params={"limit": 1}).json()) == 1
    assert claude.get("/api/v1/crew/claude/revocations").status_code == 200
    assert other.get("/api/v1/crew/claude/revocations").status_code == 403


def test_a_ghost_has_no_directive_on_the_hubs_path_and_is_not_found_on_ours(server: Ringfence):
    assert server.admin.get("/agents/ghost/revocation").json() == {"pending": False}
    assert server.admin.get("/api/v1/crew/ghost/revocation").status_code == 404


# Who may --------------------------------------------------------------------------------------------------------------


def test_agents_and_viewers_are_refused_the_human_controls_and_that_is_recorded(server: Ringfence):
    claude, viewer = server.agent("claude"), server.client(server.token("eve", Role.VIEWER))
    server.agent("other")
    calls = [
        ("POST", "/agents/other/pause"), ("POST", "/agents/claude/resume"), ("POST", "/agents/other/revoke"),
        ("POST", "/autonomy/set-mode"), ("PUT", "/api/v1/crew/autonomy"), ("POST", "/api/v1/crew/pause"),
        ("POST", "/api/v1/crew/resume"),
    ]  # fmt: skip
    for client in (claude, viewer):
        for method, path in calls:
            refused(client.request(method, path, json={}), 403, "role")
    assert len([event for event in events(server, "refused") if event["by"] == "agent:claude"]) == len(calls)


def test_an_operator_limited_to_projects_does_not_decide_about_agents(server: Ringfence):
    limited = server.client(server.token("lena", Role.OPERATOR, projects=["prj_1"]))
    server.agent("claude")
    for path in ("pause", "resume", "revoke", "autonomy", "capabilities"):
        refused(limited.post(f"/agents/claude/{path}", json={}), 403, "limited_to_projects")
    refused(limited.post("/api/v1/crew/pause"), 403, "limited_to_projects")
    refused(limited.post("/autonomy/set-mode", json={"mode": "manual"}), 403, "limited_to_projects")
    refused(limited.delete("/agents/claude"), 403, "limited_to_projects")
    refused(limited.post("/agents/register", json={"name": "claude"}), 403, "limited_to_projects")
    answer = limited.post("/agents/register", json={"name": "mine"})
    assert answer.status_code == 201
    assert server.client(answer.json()["token"]).get("/api/v1/me").json()["projects"] == ["prj_1"]


# Races ----------------------------------------------------------------------------------------------------------------


def test_a_claim_and_a_flush_at_once_leave_a_revoked_agent_nothing(either: Ringfence):
    """What an agent took before it was revoked is returned; after, it can take nothing."""
    lock = threading.Lock()
    held: set[int] = set()
    crew = either.house.crew

    def release(tx: Transaction, by: Actor, name: str, reason: str) -> int:
        with lock:
            count = len(held)
            held.clear()
        return count

    crew.on_release.append(release)
    either.agent("claude")

    def claim(number: int) -> bool:
        def use_case(tx: Transaction) -> None:
            crew.may_work(tx, "claude", "claim")
            with lock:
                held.add(number)

        try:
            either.write(use_case)
        except Forbidden:
            return False
        return True

    with ThreadPoolExecutor(9) as pool:
        claims = [pool.submit(claim, number) for number in range(100)]
        pool.submit(revoke, either, "claude").result()
        won = sum(future.result() for future in claims)
    assert held == set()
    assert 0 <= won <= 100
    assert not claim(1000)


def test_on_two_servers_a_claim_under_way_delays_a_revocation_which_then_returns_it(postgres_url: str, tmp_path: Path):
    """The second server's revocation waits for the first's claim, and sees it."""
    with (
        running(tmp_path / "one", None, database=postgres_url) as first,
        running(tmp_path / "two", None, database=postgres_url) as second,
    ):
        first.agent("claude")
        reached, go_on = threading.Event(), threading.Event()

        def claim(tx: Transaction) -> None:
            first.house.crew.may_work(tx, "claude", "claim")
            reached.set()
            go_on.wait(10)
            first.house.crew.set_current_task(tx, "claude", "tsk_1")

        seen: list[str | None] = []
        crew = second.house.crew

        def release(tx: Transaction, by: Actor, name: str, reason: str) -> int:
            seen.append(crew.agent(tx, name).current_task_id)
            return 1

        crew.on_release.append(release)
        with ThreadPoolExecutor(2) as pool:
            claiming = pool.submit(first.write, claim)
            assert reached.wait(10)
            revoking = pool.submit(revoke, second, "claude")
            assert not revoking.done()
            go_on.set()
            claiming.result(20)
            revoking.result(20)
        assert seen == ["tsk_1"]
        assert may_work(first, "claude") == "agent_revoked"
