"""Registering, tokens, names, capabilities and the roster."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from ringfence.crew.model import Mode, normalised, tags_of
from ringfence.kernel.auth.model import Role, TokenKind
from ringfence.kernel.errors import Invalid
from tests.crew.watching import agent, beat, events, refused, returns, status
from tests.harness import Ringfence


def enrolment(server: Ringfence, uses: int = 1, **more: Any) -> httpx.Client:
    answer = server.admin.post("/api/v1/enrolments", json={"uses": uses, **more})
    assert answer.status_code == 201, answer.text
    return server.client(answer.json()["token"])


def register(client: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return client.post("/agents/register", json={"name": name, **more})


# Registering ----------------------------------------------------------------------------------------------------------


def test_registering_answers_as_documented_with_a_token(either: Ringfence):
    answer = register(either.admin, "claude", type="codex", capabilities=["Code", "review"])
    assert answer.status_code == 201
    told = answer.json()
    assert (told["id"], told["type"], told["autonomy_mode"]) == ("claude", "codex", "fully_autonomous")
    assert told["capabilities"] == ["Code", "review"]
    assert either.client(told["token"]).get("/api/v1/me").json()["kind"] == "agent"
    assert (
        events(either, "agent_registered")[0] | {"type": "codex", "capabilities": ["Code", "review"]}
        == events(either, "agent_registered")[0]
    )


def test_a_missing_name_is_said_as_documented(server: Ringfence):
    assert server.admin.post("/agents/register").json()["error"].startswith("name required")
    assert server.admin.post("/agents/register", json={}).status_code == 400


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", "graph", "register", "autonomy", "pause", "resume", "ä", "a" * 65, 7]
)
def test_a_name_that_paths_cannot_carry_is_refused(server: Ringfence, name: object):
    assert server.admin.post("/agents/register", json={"name": name}).status_code == 400
    assert server.admin.get("/agents").json() == []


def test_people_scripts_and_agents_share_one_set_of_names(server: Ringfence):
    server.admin.post("/api/v1/people", json={"name": "dana", "role": "viewer"})
    server.admin.post("/api/v1/tokens", json={"name": "nightly", "role": "viewer"})
    refused(register(server.admin, "dana"), 409, "name_taken")
    refused(register(server.admin, "nightly"), 409, "name_taken")


def test_a_viewer_cannot_register(server: Ringfence):
    viewer = server.client(server.token("eve", Role.VIEWER))
    assert register(viewer, "x").status_code == 403


def test_registering_again_lifts_nothing_that_people_decided(either: Ringfence):
    claude = either.agent("claude", autonomy_mode="advisory")
    either.admin.post("/agents/claude/pause", json={"reason": "lunch"})
    directive = either.admin.post("/agents/claude/revoke").json()["revocation_id"]
    for client in (claude, either.admin):
        answer = register(client, "claude", autonomy_mode="fully_autonomous")
        assert (answer.status_code, answer.json()["autonomy_mode"]) == (201, "advisory")
    seen = agent(either, "claude")
    assert (seen["status"], seen["autonomy_ceiling"], seen["revocation_id"]) == ("revoked", "advisory", directive)
    assert seen["paused_at"] is not None


def test_registering_again_refreshes_what_the_agent_says_of_itself(either: Ringfence):
    claude = either.agent("claude", type="codex", capabilities="a,b", metadata={"v": 1})
    first = agent(either, "claude")["registered_at"]
    assert register(claude, "claude").json()["token"] is None
    same = agent(either, "claude")
    assert (same["type"], same["capabilities"], same["metadata"]) == ("codex", ["a", "b"], {"v": 1})
    register(claude, "claude", type="claude", capabilities=["c"], metadata={"v": 2})
    seen = agent(either, "claude")
    assert (seen["type"], seen["capabilities"], seen["metadata"]) == ("claude", ["c"], {"v": 2})
    assert seen["registered_at"] == first
    assert either.admin.get("/capabilities/match", params={"tag": "a"}).json()["agents"] == []


def test_a_repeated_registration_is_answered_with_the_same_token(server: Ringfence):
    client = enrolment(server)
    answers = [
        client.post("/agents/register", json={"name": "claude"}, headers={"idempotency-key": "k"}) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["token"] == answers[1].json()["token"]
    assert len(events(server, "agent_registered")) == 1


def test_two_enrolments_do_not_share_an_idempotency_key(server: Ringfence):
    for name in ("one", "two"):
        client = enrolment(server)
        answer = client.post("/agents/register", json={"name": name}, headers={"idempotency-key": "register"})
        assert answer.status_code == 201, answer.text


def test_the_roster_survives_a_restart(either: Ringfence):
    claude = either.agent("claude", capabilities="x", metadata={"home": "here"})
    before = agent(either, "claude")
    either.restart()
    assert agent(either, "claude") == before
    assert beat(claude, "claude")["checkpoint_tick"] == 1


# Enrolment ------------------------------------------------------------------------------------------------------------


def test_an_enrolment_registers_as_often_as_it_has_uses(either: Ringfence):
    client = enrolment(either, 2)
    assert [register(client, name).status_code for name in ("a", "b")] == [201, 201]
    refused(register(client, "c"), 401, "token_used_up")


def test_a_refused_registration_uses_nothing_up(server: Ringfence):
    server.agent("taken")
    client = enrolment(server)
    refused(register(client, "taken"), 409, "agent_exists")
    assert register(client, "free").status_code == 201


def test_two_who_enrol_at_once_cannot_share_one_use(either: Ringfence):
    client = enrolment(either)
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda i: register(client, f"a{i}").status_code, range(8)))
    assert sorted(codes) == [201] + [401] * 7
    assert len(either.admin.get("/agents").json()) == 1


def test_two_who_enrol_at_once_cannot_share_one_name(either: Ringfence):
    client = enrolment(either, 8)
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: register(client, "same").status_code, range(8)))
    assert sorted(codes) == [201] + [409] * 7


def test_an_enrolled_agent_has_the_scopes_and_projects_of_its_enrolment(server: Ringfence):
    client = enrolment(server, scopes=["coordinator"], projects=["prj_1"])
    me = server.client(register(client, "a").json()["token"]).get("/api/v1/me").json()
    assert (me["scopes"], me["projects"]) == (["coordinator"], ["prj_1"])


def test_an_enrolment_without_a_scope_gives_none(server: Ringfence):
    assert register(enrolment(server), "a", scopes=["coordinator"]).status_code == 403


def test_an_enrolled_agent_chooses_its_mode_below_the_ceiling_for_new_agents(server: Ringfence):
    server.admin.post("/autonomy/set-mode", json={"mode": "manual", "ceiling": "advisory"})
    client = enrolment(server, 3)
    refused(register(client, "a", autonomy_mode="fully_autonomous"), 403, "above_ceiling")
    assert register(client, "a", autonomy_mode="advisory").json()["autonomy_mode"] == "advisory"
    assert register(client, "b").json()["autonomy_mode"] == "manual"


# Leaving --------------------------------------------------------------------------------------------------------------


def test_unregistering_returns_claims_ends_tokens_and_tells(either: Ringfence):
    released = returns(either, 1)
    claude = either.agent("claude", capabilities="x")
    assert claude.delete("/agents/claude").json() == {"status": "ok"}
    assert released == [("claude", "unregistered")]
    refused(claude.post("/agents/claude/heartbeat"), 401, "token_revoked")
    assert either.admin.get("/agents").json() == either.admin.get("/capabilities").json() == []
    assert either.admin.delete("/agents/claude").json()["error"].startswith("agent not found")
    assert [event["name"] for event in events(either, "agent_unregistered")] == ["claude"]


def test_an_agent_cannot_shed_its_ceiling_or_a_pause_by_leaving_and_coming_back(either: Ringfence):
    claude = either.agent("claude", autonomy_mode="manual")
    either.admin.post("/agents/claude/pause")
    assert claude.delete("/agents/claude").status_code == 200
    answer = register(enrolment(either), "claude", autonomy_mode="fully_autonomous")
    assert (answer.status_code, answer.json()["autonomy_mode"], answer.json()["status"]) == (201, "manual", "busy")


def test_a_revoked_agent_cannot_leave(server: Ringfence):
    claude = server.agent("claude")
    server.admin.post("/agents/claude/revoke")
    refused(claude.delete("/agents/claude"), 403, "agent_revoked")
    assert server.admin.delete("/agents/claude").status_code == 200
    assert server.admin.get("/revocation/history").json()[0]["superseded"]


def test_an_agent_that_an_operator_removed_begins_anew(server: Ringfence):
    server.agent("claude", autonomy_mode="manual")
    server.admin.delete("/agents/claude")
    assert register(server.admin, "claude").json()["autonomy_mode"] == "fully_autonomous"


# Capabilities ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["Code, review ,,CODE", ["Code", "review", "", "CODE"]])
def test_capabilities_may_be_a_list_or_a_string_with_commas(server: Ringfence, given: object):
    server.agent("claude", capabilities=given)
    assert server.admin.get("/agents").json()[0]["capabilities"] == ["Code", "review", "CODE"]
    assert server.admin.get("/capabilities").json()[0]["tags"] == ["code", "review"]


def test_setting_capabilities_answers_with_the_tags_as_given(either: Ringfence):
    claude = either.agent("claude")
    answer = claude.post("/agents/claude/capabilities", json={"tags": "Python, go", "description": "fast"})
    assert answer.json() == {"name": "claude", "tags": ["Python", "go"]}
    profile = {"agent": "claude", "tags": ["go", "python"], "description": "fast"}
    assert either.admin.get("/api/v1/capabilities").json()["items"] == [profile]
    assert events(either, "agent_capabilities_changed")[0]["tags"] == ["Python", "go"]


def test_a_capability_is_matched_in_any_case_and_answered_as_asked(either: Ringfence):
    either.agent("a", capabilities="Code")
    either.agent("b", capabilities="code,x")
    either.agent("c", capabilities="coder")
    match = either.admin.get("/capabilities/match", params={"tag": "cODE"}).json()
    assert match == {"tag": "cODE", "agents": ["a", "b"]}
    assert either.admin.get("/capabilities/match").json()["error"].startswith("tag required")
    assert [item["name"] for item in either.admin.get("/agents", params={"capability": "CODE"}).json()] == ["a", "b"]


@pytest.mark.parametrize("given", [[1], ["x" * 65], ["x"] * 101, 5, {"a": 1}, ["a\nb"], ",".join("x" * 101)])
def test_impossible_capabilities_are_refused_and_register_nobody(server: Ringfence, given: object):
    assert register(server.admin, "claude", capabilities=given).status_code == 400
    assert server.admin.get("/agents").json() == []


def test_capabilities_of_an_agent_nobody_knows_are_not_found(server: Ringfence):
    assert server.admin.post("/agents/ghost/capabilities", json={"tags": []}).json()["error"].startswith("agent not")


def test_normal_tags_are_trimmed_lower_and_unique():
    assert normalised(tags_of(" A ,b,a")) == ("a", "b")
    with pytest.raises(Invalid):
        tags_of(["x"] * 101)


# The roster -----------------------------------------------------------------------------------------------------------


def test_the_roster_shows_the_documented_fields_to_agents_too(server: Ringfence):
    claude = server.agent("claude", type="codex")
    [seen] = claude.get("/agents").json()
    documented = {
        "name", "type", "status", "registered_at", "last_heartbeat", "autonomy_mode", "capabilities",
        "current_task_id", "checkpoint_sequence",
    }  # fmt: skip
    assert documented <= seen.keys()
    assert (seen["status"], seen["current_task_id"], seen["checkpoint_sequence"]) == ("online", None, 0)


def test_the_roster_is_paged_and_filtered(either: Ringfence):
    for number in range(5):
        either.agent(f"a{number}", type="even" if number % 2 == 0 else "odd")
    either.admin.post("/agents/a2/pause")
    first = either.admin.get("/api/v1/crew", params={"limit": 2}).json()
    rest = either.admin.get("/api/v1/crew", params={"cursor": first["next"]}).json()
    assert [item["name"] for item in first["items"] + rest["items"]] == [f"a{number}" for number in range(5)]
    assert rest["next"] is None

    def names(**query: str) -> list[str]:
        return [item["name"] for item in either.admin.get("/api/v1/crew", params=query).json()["items"]]

    assert names(type="even", status="online") == ["a0", "a4"]
    assert names(status="busy") == ["a2"]
    assert either.admin.get("/api/v1/crew", params={"status": "dead"}).status_code == 400


def test_the_hubs_path_shows_every_agent(server: Ringfence):
    client = enrolment(server, 120)
    for number in range(120):
        assert register(client, f"a{number}").status_code == 201
    assert len(server.admin.get("/agents").json()) == 120


def test_metadata_comes_back_and_is_bounded(server: Ringfence):
    told = {"host": "x", "deep": {"list": [1, 2.5, None, "ü"]}}
    server.agent("claude", metadata=told)
    assert agent(server, "claude")["metadata"] == told
    assert register(server.admin, "big", metadata={"x": "y" * 17_000}).status_code == 413
    assert register(server.admin, "odd", metadata=[1]).status_code == 400


def test_a_standing_tells_an_unregistered_name_from_a_registered_one(server: Ringfence):
    server.admin.post("/autonomy/set-mode", json={"mode": "advisory"})
    server.agent("claude", capabilities="Code", autonomy_mode="manual")
    crew = server.house.crew
    ghost = server.write(lambda tx: crew.standing(tx, "ghost"))
    known = server.write(lambda tx: crew.may_work(tx, "claude", "try"))
    assert (ghost.registered, ghost.mode, ghost.capabilities) == (False, Mode.ADVISORY, frozenset())
    assert (known.registered, known.mode, known.capabilities) == (True, Mode.MANUAL, frozenset({"code"}))
    assert server.write(crew.roster) == [("claude", "unknown")]


def test_the_current_task_is_shown(server: Ringfence):
    server.agent("claude")
    server.write(lambda tx: server.house.crew.set_current_task(tx, "claude", "tsk_1"))
    assert agent(server, "claude")["current_task_id"] == "tsk_1"


def test_an_agents_own_token_may_register_it_when_nobody_knows_it(server: Ringfence):
    claude = server.client(server.token("claude", kind=TokenKind.AGENT))
    assert register(claude, "claude").json()["token"] is None
    assert status(server, "claude") == "online"
