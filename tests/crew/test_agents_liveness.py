"""Silence: stale, then offline with its tasks returned; and no false alarms."""

from pathlib import Path

import pytest

from ringfence.kernel.clock import SECOND
from tests.crew.watching import agent, beat, by_hand, events, returns, status, sweep, watch
from tests.harness import Ringfence, running


def told(server: Ringfence) -> list[str]:
    kinds = ("agent_stale", "agent_offline", "agent_back")
    items = server.admin.get("/api/v1/audit", params={"newest_first": "false", "limit": 1000}).json()["items"]
    return [f"{item['data']['name']} {item['kind'].removeprefix('agent_')}" for item in items if item["kind"] in kinds]


def test_a_silent_agent_is_stale_then_offline_once_each(either: Ringfence):
    by_hand(either)
    either.agent("claude")
    watch(either, 25)
    assert (status(either, "claude"), told(either)) == ("online", [])
    watch(either, 15)
    assert (status(either, "claude"), told(either)) == ("stale", ["claude stale"])
    watch(either, 60)
    assert (status(either, "claude"), told(either)) == ("offline", ["claude stale", "claude offline"])
    watch(either, 300)
    assert told(either) == ["claude stale", "claude offline"]


def test_an_agents_tasks_return_when_it_goes_offline_and_not_before(either: Ringfence):
    released = returns(either, 3)
    by_hand(either)
    either.agent("claude")
    either.write(lambda tx: either.house.crew.set_current_task(tx, "claude", "tsk_1"))
    watch(either, 80)
    assert released == []
    watch(either, 200)
    assert released == [("claude", "offline")]
    assert agent(either, "claude")["current_task_id"] is None
    assert events(either, "agent_offline")[0]["returned_tasks"] >= 3


def test_a_heartbeat_brings_an_agent_back_at_once_and_that_is_told_once(either: Ringfence):
    by_hand(either)
    claude = either.agent("claude")
    watch(either, 100)
    assert status(either, "claude") == "offline"
    beat(claude, "claude", 2)
    assert (status(either, "claude"), told(either)[-1]) == ("online", "claude back")
    assert [event["was"] for event in events(either, "agent_back")] == ["offline"]


def test_any_authenticated_call_of_an_agent_is_a_sign_of_life(either: Ringfence):
    by_hand(either)
    claude = either.agent("claude")
    for _ in range(10):
        watch(either, 20)
        assert claude.get("/agents").status_code == 200
    assert (status(either, "claude"), told(either)) == ("online", [])


def test_a_call_that_is_refused_is_a_sign_of_life_too(server: Ringfence):
    by_hand(server)
    claude = server.agent("claude")
    for _ in range(5):
        watch(server, 20)
        assert claude.post("/agents/claude/pause").status_code == 403
    assert told(server) == []


def test_a_call_brings_an_offline_agent_back_with_the_next_sweep(server: Ringfence):
    by_hand(server)
    claude = server.agent("claude")
    watch(server, 100)
    claude.get("/agents")
    sweep(server)
    assert (status(server, "claude"), told(server)[-1]) == ("online", "claude back")


def test_nobody_elses_call_is_an_agents_sign_of_life(server: Ringfence):
    by_hand(server)
    server.agent("claude")
    for _ in range(8):
        watch(server, 15)
        server.admin.get("/api/v1/crew/claude")
    assert status(server, "claude") == "offline"


def test_registering_again_brings_an_agent_back(server: Ringfence):
    by_hand(server)
    claude = server.agent("claude")
    watch(server, 100)
    assert claude.post("/agents/register", json={"name": "claude"}).json()["status"] == "online"
    assert told(server) == ["claude stale", "claude offline", "claude back"]


def test_a_restart_after_long_downtime_takes_nobody_offline_at_once(either: Ringfence):
    by_hand(either)
    claude = either.agent("claude")
    either.agent("dead")
    either.stop()
    either.clock.advance(3600)
    either.start()
    by_hand(either)
    watch(either, 25)
    assert told(either) == []
    beat(claude, "claude")
    watch(either, 20)
    assert told(either) == ["dead stale"]
    beat(claude, "claude")
    watch(either, 60)
    assert "dead offline" in told(either)
    assert "claude offline" not in told(either)


def test_a_machine_that_slept_takes_nobody_offline_when_it_wakes(server: Ringfence):
    by_hand(server)
    server.agent("claude")
    server.clock.advance(8 * 3600)
    sweep(server)
    sweep(server)
    assert told(server) == []
    watch(server, 25)
    assert told(server) == []
    watch(server, 80)
    assert told(server) == ["claude stale", "claude offline"]


def test_a_short_sleep_that_housekeeping_noticed_is_not_held_against_agents(server: Ringfence):
    by_hand(server)
    server.agent("claude")
    watch(server, 20)
    server.clock.advance(20)
    server.house.liveness.woke()
    sweep(server)
    assert told(server) == []


def test_an_agent_that_was_offline_stays_offline_over_a_restart(server: Ringfence):
    by_hand(server)
    server.agent("claude")
    watch(server, 100)
    server.restart()
    by_hand(server)
    watch(server, 120)
    assert told(server) == ["claude stale", "claude offline"]


def test_a_clock_set_back_over_a_restart_takes_nobody_offline_and_still_notices_the_dead(either: Ringfence):
    by_hand(either)
    either.clock.advance(7200)
    claude = either.agent("claude")
    either.agent("dead")
    either.stop()
    either.clock.advance(-7200)
    either.start()
    by_hand(either)
    for _ in range(8):
        watch(either, 15)
        beat(claude, "claude")
    assert told(either) == ["dead stale", "dead offline"]


def test_an_agent_offline_before_the_clock_was_set_back_comes_back_with_its_next_call(server: Ringfence):
    by_hand(server)
    server.clock.advance(7200)
    claude = server.agent("claude")
    watch(server, 100)
    server.stop()
    server.clock.advance(-7200)
    server.start()
    by_hand(server)
    watch(server, 40)
    assert status(server, "claude") == "offline"
    claude.get("/agents")
    sweep(server)
    assert status(server, "claude") == "online"
    watch(server, 25)
    assert told(server) == ["claude stale", "claude offline", "claude back"]


def test_a_frozen_agent_is_not_judged_by_its_silence_also_not_right_after_it_resumed(server: Ringfence):
    by_hand(server)
    server.agent("frozen")
    server.agent("paused")
    server.admin.post("/agents/frozen/pause")
    server.admin.post("/agents/paused/pause", json={"freeze": False})
    watch(server, 120)
    assert told(server) == ["paused stale", "paused offline"]
    server.admin.post("/agents/frozen/resume")
    watch(server, 25)
    assert status(server, "frozen") == "online"
    watch(server, 80)
    assert status(server, "frozen") == "offline"


def test_what_people_did_shows_before_silence(server: Ringfence):
    by_hand(server)
    server.agent("claude")
    server.admin.post("/agents/claude/pause", json={"freeze": False})
    watch(server, 100)
    assert status(server, "claude") == "busy"
    server.admin.post("/agents/claude/revoke")
    assert status(server, "claude") == "revoked"
    assert agent(server, "claude")["offline_at"] is not None


def test_signs_whose_writing_failed_are_written_by_a_later_sweep(server: Ringfence):
    """The disk was full for a while: nothing was written, and the agent was there all the time."""
    by_hand(server)
    claude = server.agent("claude")

    def failing_sweep(tx: object) -> None:
        server.house.liveness.sweep(tx)  # type: ignore[arg-type]
        raise RuntimeError("rolled back")

    for _ in range(10):
        server.clock.advance(5)
        claude.get("/agents")
        with pytest.raises(RuntimeError):
            server.write(failing_sweep)
    server.clock.advance(5)
    sweep(server)
    assert told(server) == []


def test_a_sweep_of_a_calm_crew_tells_nothing_and_a_heartbeat_neither(server: Ringfence):
    by_hand(server)
    claude = server.agent("claude")
    before = server.admin.get("/api/v1/audit").json()["items"][0]["seq"]
    beat(claude, "claude", 30)
    watch(server, 20)
    assert server.admin.get("/api/v1/audit").json()["items"][0]["seq"] == before


def test_several_servers_on_one_database_do_not_flap(postgres_url: str, tmp_path: Path):
    with (
        running(tmp_path / "one", None, database=postgres_url) as one,
        running(tmp_path / "two", None, database=postgres_url) as two,
    ):
        by_hand(one)
        by_hand(two)
        claude = one.agent("claude")
        one.agent("dead")
        for _ in range(30):
            claude.get("/agents")
            for server in (one, two):
                server.clock.advance(5)
            sweep(one)
            sweep(two)
        assert sorted(told(one)) == ["dead offline", "dead stale"]


def test_the_times_are_configured(tmp_path: Path, template: Path):
    with running(tmp_path / "data", template, stale_after=4, heartbeat_timeout=8) as server:
        by_hand(server)
        server.agent("claude")
        watch(server, 6, step=1)
        assert status(server, "claude") == "stale"
        watch(server, 4, step=1)
        assert status(server, "claude") == "offline"


def test_the_last_sign_is_shown(server: Ringfence):
    by_hand(server)
    claude = server.agent("claude")
    server.clock.advance(10)
    claude.get("/agents")
    sweep(server)
    seen = agent(server, "claude")
    assert seen["last_seen"] > seen["last_heartbeat"]
    assert server.clock.now() > 10 * SECOND
