"""How far agents go alone: modes, ceilings, and the policy for agents to come."""

import pytest

from tests.crew.watching import agent, events, refused
from tests.harness import Ringfence


def mode(server: Ringfence, name: str) -> tuple[str, str]:
    seen = agent(server, name)
    return seen["autonomy_mode"], seen["autonomy_ceiling"]


def test_an_operators_mode_is_the_ceiling_too_unless_another_is_given(either: Ringfence):
    either.agent("claude")
    answer = either.admin.post("/agents/claude/autonomy", json={"mode": "advisory"})
    assert answer.json() | {"name": "claude", "autonomy_mode": "advisory"} == answer.json()
    assert mode(either, "claude") == ("advisory", "advisory")
    either.admin.post("/agents/claude/autonomy", json={"mode": "manual", "ceiling": "fully_autonomous"})
    assert mode(either, "claude") == ("manual", "fully_autonomous")
    assert [event["mode"] for event in events(either, "agent_autonomy_changed")] == ["advisory", "manual"]


def test_an_agent_sets_its_own_mode_up_to_its_ceiling(either: Ringfence):
    claude = either.agent("claude")
    either.admin.post("/agents/claude/autonomy", json={"mode": "manual", "ceiling": "advisory"})
    assert claude.post("/agents/claude/autonomy", json={"mode": "advisory"}).status_code == 200
    refused(claude.post("/agents/claude/autonomy", json={"mode": "fully_autonomous"}), 403, "above_ceiling")
    refused(claude.post("/agents/claude/autonomy"), 403, "above_ceiling")
    assert claude.post("/agents/claude/autonomy", json={"mode": "manual"}).status_code == 200
    assert mode(either, "claude") == ("manual", "advisory")
    assert {event["code"] for event in events(either, "refused")} == {"above_ceiling"}


def test_an_agent_that_lowers_itself_may_come_back_up(server: Ringfence):
    claude = server.agent("claude")
    for wanted in ("manual", "fully_autonomous"):
        assert claude.post("/agents/claude/autonomy", json={"mode": wanted}).status_code == 200
    assert mode(server, "claude") == ("fully_autonomous", "fully_autonomous")


def test_an_agent_cannot_set_a_ceiling(server: Ringfence):
    claude = server.agent("claude")
    refused(claude.post("/agents/claude/autonomy", json={"mode": "manual", "ceiling": "manual"}), 403, "role")


@pytest.mark.parametrize("path", ["/agents/claude/autonomy", "/autonomy/set-mode"])
def test_an_unknown_mode_is_refused_naming_the_possible_ones(server: Ringfence, path: str):
    server.agent("claude")
    answer = server.admin.post(path, json={"mode": "yolo"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Invalid mode: yolo")
    assert "manual, advisory, fully_autonomous" in answer.json()["error"]


def test_an_unknown_mode_registers_nobody(server: Ringfence):
    answer = server.admin.post("/agents/register", json={"name": "claude", "autonomy_mode": "yolo"})
    assert answer.status_code == 400
    assert server.admin.get("/agents").json() == []


def test_a_mode_above_the_given_ceiling_is_refused(server: Ringfence):
    server.agent("claude")
    assert (
        server.admin.post("/agents/claude/autonomy", json={"mode": "advisory", "ceiling": "manual"}).status_code == 400
    )
    assert mode(server, "claude") == ("fully_autonomous", "fully_autonomous")


def test_a_ceiling_alone_lowers_the_present_mode_and_never_raises_it(server: Ringfence):
    server.agent("claude")
    server.admin.post("/agents/claude/autonomy", json={"ceiling": "advisory"})
    assert mode(server, "claude") == ("advisory", "advisory")
    server.admin.post("/agents/claude/autonomy", json={"ceiling": "fully_autonomous"})
    assert mode(server, "claude") == ("advisory", "fully_autonomous")


def test_the_mode_of_an_agent_nobody_knows_is_not_found(server: Ringfence):
    answer = server.admin.post("/agents/ghost/autonomy", json={"mode": "manual"})
    assert (answer.status_code, answer.json()["error"][:15]) == (404, "agent not found")


def test_the_global_mode_holds_for_agents_there_are_and_those_to_come(either: Ringfence):
    either.agent("old")
    answer = either.admin.post("/autonomy/set-mode", json={"mode": "advisory"}).json()
    assert (answer["mode"], answer["updated_agents"]) == ("advisory", ["old"])
    either.restart()
    either.admin.post("/agents/register", json={"name": "new"})
    assert mode(either, "old") == mode(either, "new") == ("advisory", "advisory")
    assert events(either, "global_autonomy_changed")[0]["agents"] == ["old"]


def test_a_global_mode_for_a_type_leaves_the_others_alone(either: Ringfence):
    either.agent("c", type="codex")
    either.agent("g", type="goose")
    body = {"mode": "manual", "agent_type": "codex"}
    assert either.admin.post("/autonomy/set-mode", json=body).json()["updated_agents"] == ["c"]
    either.agent("c2", type="codex")
    either.agent("g2", type="goose")
    assert [mode(either, name)[0] for name in ("c", "c2")] == ["manual"] * 2
    assert [mode(either, name)[0] for name in ("g", "g2")] == ["fully_autonomous"] * 2
    policy = either.admin.get("/api/v1/crew/autonomy").json()
    assert (policy["mode"], policy["types"][0]["agent_type"]) == ("fully_autonomous", "codex")


def test_a_global_mode_for_all_also_replaces_that_for_a_type(either: Ringfence):
    either.admin.put("/api/v1/crew/autonomy", json={"mode": "fully_autonomous", "agent_type": "codex"})
    either.admin.put("/api/v1/crew/autonomy", json={"mode": "manual"})
    either.agent("c", type="codex")
    assert mode(either, "c") == ("manual", "manual")


def test_a_global_mode_must_be_named(server: Ringfence):
    assert server.admin.post("/autonomy/set-mode").json()["error"].startswith("mode required")


def test_an_operators_choice_at_registration_stands_over_the_policy(server: Ringfence):
    server.admin.post("/autonomy/set-mode", json={"mode": "manual"})
    server.agent("claude", autonomy_mode="advisory")
    assert mode(server, "claude") == ("advisory", "advisory")
