"""What a hostile agent tries, and what an operator does at three in the morning."""

from typing import Any

import httpx
import pytest

from ringfence.crew.checkpoints import PER_MINUTE
from tests.crew.watching import agent, beat, by_hand, events, refused, status, sweep
from tests.harness import Ringfence

AS_ANOTHER: list[tuple[str, str, dict[str, object] | None]] = [
    ("POST", "/agents/victim/heartbeat", None),
    ("DELETE", "/agents/victim", None),
    ("POST", "/agents/victim/autonomy", {"mode": "manual"}),
    ("POST", "/agents/victim/capabilities", {"tags": []}),
    ("POST", "/agents/victim/checkpoint", {"state": "all is well"}),
    ("GET", "/agents/victim/checkpoint", None),
    ("GET", "/api/v1/crew/victim/checkpoints", None),
    ("GET", "/agents/victim/revocation", None),
    ("POST", "/agents/victim/revocation/ack", {"revocation_id": "rev_1"}),
    ("POST", "/agents/register", {"name": "victim"}),
    ("POST", "/agents/register", {"name": "another"}),
]


@pytest.mark.parametrize(("method", "path", "body"), AS_ANOTHER)
def test_an_agent_cannot_act_as_another_and_the_try_is_recorded(
    server: Ringfence, method: str, path: str, body: dict[str, Any] | None
):
    server.agent("victim", capabilities="x")
    mallory = server.agent("mallory", scopes=["coordinator"])
    before = agent(server, "victim")
    refused(mallory.request(method, path, json=body), 403, "not_yourself")
    assert agent(server, "victim") == before
    assert [event["by"] for event in events(server, "refused")] == ["agent:mallory"]


def test_an_agent_cannot_acknowledge_anothers_revocation(server: Ringfence):
    server.agent("victim")
    mallory = server.agent("mallory")
    directive = server.admin.post("/agents/victim/revoke").json()["revocation_id"]
    answer = mallory.post("/agents/mallory/revocation/ack", json={"revocation_id": directive})
    assert answer.status_code == 404
    assert status(server, "victim") == "revoked"
    assert mallory.get("/revocation/history").json() == []


def test_an_agent_cannot_give_itself_a_scope_by_registering_again(server: Ringfence):
    mallory = server.agent("mallory")
    body = {"name": "mallory", "scopes": ["coordinator"]}
    refused(mallory.post("/agents/register", json=body), 403, "scope")


def test_an_enrolment_token_opens_nothing_but_registering(server: Ringfence):
    token = server.admin.post("/api/v1/enrolments", json={"uses": 5}).json()["token"]
    holder = server.client(token)
    server.agent("victim")
    for method, path in (
        ("GET", "/agents"), ("POST", "/agents/victim/heartbeat"), ("GET", "/api/v1/proposals"),
        ("DELETE", "/agents/victim"), ("GET", "/capabilities"), ("GET", "/agents/victim/revocation"),
    ):  # fmt: skip
        refused(holder.request(method, path), 403, "role")


def test_nobody_without_a_token_learns_or_does_anything(server: Ringfence):
    server.agent("victim")
    anybody = server.client()
    for endpoint in server.house.endpoints:
        if endpoint.tag in ("crew", "proposals"):
            path = endpoint.path.replace("{name}", "victim").replace("{proposal_id}", "prp_1")
            answer = anybody.request(endpoint.method, path, json={} if endpoint.method != "GET" else None)
            assert answer.status_code == 401, (endpoint.method, endpoint.path)
    assert status(server, "victim") == "online"


def test_a_type_or_tag_that_changes_how_a_terminal_or_page_reads_is_refused(server: Ringfence):
    mallory = server.agent("mallory")
    for text in ("\u202egnp.exe", "\x1b[2J", "a\u200bb", "a\nb"):
        for body in ({"type": text}, {"capabilities": [text]}):
            answer = mallory.post("/agents/register", json={"name": "mallory", **body})
            assert answer.status_code == 400, text


@pytest.mark.parametrize(
    "raw",
    [
        b"{", b"[]", b"null", b'"x"', b"\xff", b'{"name":"m","metadata":{"x":1e400}}',
        b'{"name":"m","metadata":{"x":NaN}}', b'{"name":"m","metadata":{"x":"\\ud800"}}',
        b'{"name":"m","metadata":' + b'{"x":' * 5000 + b"1" + b"}" * 5000 + b"}",
        b'{"name":"m","metadata":{"x":"\\u0000"}}', b'{"name":"m","type":["x"]}', b'{"name":"m","autonomy_mode":1}',
        b'{"name":"m","root":true}', b'{"name":"m","capabilities":[[]]}',
    ],
)  # fmt: skip
def test_a_malformed_registration_is_refused_and_registers_nobody(server: Ringfence, raw: bytes):
    answer = server.admin.post("/agents/register", content=raw)
    assert answer.status_code in (400, 413), answer.text
    assert server.admin.get("/agents").json() == []


def test_a_number_of_any_size_in_metadata_comes_back(server: Ringfence):
    answer = server.admin.post("/agents/register", content=b'{"name":"m","metadata":{"x":' + b"9" * 300 + b"}}")
    assert answer.status_code in (201, 400)
    assert server.admin.get("/agents").status_code == 200


@pytest.mark.parametrize("name", ["%2e%2e", "a" * 5000, "%00", "%0a", "%F0%9F%98%80", "'; drop table agents; --"])
def test_odd_names_in_a_path_are_not_found(server: Ringfence, name: str):
    for path in (f"/agents/{name}/heartbeat", f"/agents/{name}/pause"):
        assert server.admin.post(path).status_code == 404


def test_a_torrent_of_checkpoints_is_held_up(server: Ringfence):
    by_hand(server)
    claude = server.agent("claude")
    for _ in range(PER_MINUTE):
        assert claude.post("/agents/claude/checkpoint").status_code == 200
    answer = claude.post("/agents/claude/checkpoint")
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    server.clock.advance(61)
    assert claude.post("/agents/claude/checkpoint").json()["sequence"] == PER_MINUTE + 1


def test_calling_without_end_makes_the_server_remember_an_agent_once(server: Ringfence):
    by_hand(server)
    claude = server.agent("claude")
    for _ in range(50):
        claude.get("/agents")
    assert list(server.house.crew.signs) == ["claude"]
    server.clock.advance(1000)
    sweep(server)
    assert server.house.crew.signs == {}


def test_the_token_of_a_removed_agent_does_not_bring_it_back(server: Ringfence):
    mallory = server.agent("mallory")
    server.admin.delete("/agents/mallory")
    refused(mallory.post("/agents/register", json={"name": "mallory"}), 401, "token_revoked")


# An operator at three in the morning ----------------------------------------------------------------------------------


def tired(server: Ringfence) -> httpx.Client:
    return server.client(server.admin_token)


@pytest.mark.parametrize("verb", ["pause", "resume", "revoke"])
def test_a_mistyped_name_says_so_and_changes_nobody(server: Ringfence, verb: str):
    server.agent("claude")
    answer = tired(server).post(f"/agents/Claude/{verb}")
    assert answer.status_code == 404
    assert "'Claude' is not registered" in answer.json()["error"]
    assert status(server, "claude") == "online"


def test_the_documented_curl_lines_work_whatever_their_content_type(server: Ringfence):
    server.agent("claude")
    form = {"content-type": "application/x-www-form-urlencoded"}
    lines = {
        "/agents/claude/autonomy": b'{"mode":"advisory"}',
        "/agents/claude/pause": b'{"reason":"review"}',
        "/agents/claude/revoke": b'{"reason":"policy violation"}',
        "/autonomy/set-mode": b'{"mode":"manual"}',
    }
    for path, body in lines.items():
        assert tired(server).post(path, content=body, headers=form).status_code == 200


def test_a_field_that_is_misspelt_is_named_instead_of_ignored(server: Ringfence):
    server.agent("claude")
    answer = tired(server).post("/agents/claude/pause", json={"freze": False})
    assert answer.status_code == 400
    assert "freze" in answer.json()["error"]
    assert status(server, "claude") == "online"


def test_a_revocation_repeated_with_its_key_is_one(server: Ringfence):
    server.agent("claude")
    answers = [
        tired(server).post("/agents/claude/revoke", headers={"idempotency-key": "panic"}).json() for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert len(server.admin.get("/revocation/history").json()) == 1


def test_an_operator_may_acknowledge_for_an_agent_that_cannot(server: Ringfence):
    server.agent("claude")
    body = {"revocation_id": server.admin.post("/agents/claude/revoke").json()["revocation_id"]}
    assert tired(server).post("/agents/claude/revocation/ack", json=body).status_code == 200
    assert events(server, "agent_recovered")[0]["via"] == "operator:admin"


def test_an_operator_may_give_an_agents_sign_of_life_and_both_names_are_recorded(server: Ringfence):
    server.agent("claude")
    assert beat(server.admin, "claude")["checkpoint_tick"] == 1
    server.admin.post("/agents/claude/checkpoint", json={"state": "by hand"})
    [event] = events(server, "checkpoint_submitted")
    assert (event["by"], event["via"]) == ("agent:claude", "operator:admin")


def test_everything_at_once_and_then_back_again_ends_where_it_began(server: Ringfence):
    claude = server.agent("claude")
    before = agent(server, "claude")
    for verb in ("pause", "pause", "revoke", "resume", "revoke", "pause"):
        assert tired(server).post(f"/agents/claude/{verb}").status_code == 200
    assert status(server, "claude") == "revoked"
    directive = claude.get("/agents/claude/revocation").json()["revocation_id"]
    claude.post("/agents/claude/revocation/ack", json={"revocation_id": directive})
    assert status(server, "claude") == "busy"
    tired(server).post("/agents/claude/resume")
    after = agent(server, "claude")
    assert {key: after[key] for key in before if key != "last_seen"} == {
        key: before[key] for key in before if key != "last_seen"
    }
