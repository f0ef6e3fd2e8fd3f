"""Checkpoints: numbered, kept, expected; and agents that stall without them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crew.watching import agent, beat, events, refused, status
from tests.harness import Ringfence, running


def submit(client: httpx.Client, name: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/agents/{name}/checkpoint", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def working(server: Ringfence, *names: str) -> None:
    server.house.crew.holds_work = lambda tx, agent: agent in names


def test_a_checkpoint_is_answered_and_read_back_as_documented(either: Ringfence):
    claude = either.agent("claude")
    body = {"task_id": "tsk_1", "state": "halfway", "rationale": "story 42", "metadata": {"files": ["a.py"]}}
    made = submit(claude, "claude", **body)
    assert made.keys() == {"id", "sequence", "timestamp"}
    assert made["sequence"] == 1
    assert claude.get("/agents/claude/checkpoint").json() == {
        "id": made["id"], "agent_name": "claude", "sequence": 1, "timestamp": made["timestamp"], **body,
    }  # fmt: skip
    seen = agent(either, "claude")
    assert (seen["checkpoint_sequence"], seen["current_task_id"]) == (1, "tsk_1")
    [event] = events(either, "checkpoint_submitted")
    assert (event["agent"], event["task_id"], event["state"], event["sequence"]) == ("claude", "tsk_1", "halfway", 1)


def test_no_checkpoint_is_said_as_documented(server: Ringfence):
    claude = server.agent("claude")
    answer = claude.get("/agents/claude/checkpoint")
    assert (answer.status_code, answer.json()["error"][:19]) == (404, "No checkpoint found")


def test_every_checkpoint_is_kept_newest_first_also_after_a_restart(either: Ringfence):
    claude = either.agent("claude")
    for number in range(5):
        submit(claude, "claude", state=str(number))
    either.restart()
    first = either.admin.get("/api/v1/crew/claude/checkpoints", params={"limit": 3}).json()
    rest = either.admin.get("/api/v1/crew/claude/checkpoints", params={"cursor": first["next"]}).json()
    assert [item["state"] for item in first["items"] + rest["items"]] == ["4", "3", "2", "1", "0"]
    assert rest["next"] is None


def test_the_numbers_go_on_however_the_agent_comes_back(either: Ringfence):
    claude = either.agent("claude")
    submit(claude, "claude")
    claude.post("/agents/register", json={"name": "claude"})
    assert submit(claude, "claude")["sequence"] == 2
    claude.delete("/agents/claude")
    claude = either.agent("claude")
    assert submit(claude, "claude")["sequence"] == 3
    either.admin.delete("/agents/claude")
    assert submit(either.agent("claude"), "claude")["sequence"] == 4


def test_checkpoints_at_once_get_numbers_of_their_own(either: Ringfence):
    claude = either.agent("claude")
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: submit(claude, "claude")["sequence"], range(16)))
    assert sorted(numbers) == list(range(1, 17))


def test_a_checkpoint_is_due_every_six_heartbeats(either: Ringfence):
    claude = either.agent("claude")
    answers = [beat(claude, "claude") for _ in range(6)]
    assert [answer["checkpoint_tick"] for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert [answer["checkpoint_due"] for answer in answers] == [False] * 5 + [True]
    assert beat(claude, "claude")["checkpoint_due"] is True
    submit(claude, "claude")
    answer = beat(claude, "claude")
    assert (answer["checkpoint_tick"], answer["checkpoint_due"]) == (1, False)


def test_three_missed_while_holding_work_stall_an_agent_and_one_checkpoint_ends_it(either: Ringfence):
    claude = either.agent("claude")
    working(either, "claude")
    beat(claude, "claude", 17)
    assert status(either, "claude") == "online"
    beat(claude, "claude", 7)
    assert status(either, "claude") == "stalled"
    assert [event["name"] for event in events(either, "agent_stalled")] == ["claude"]
    submit(claude, "claude")
    assert status(either, "claude") == "online"
    assert [event["name"] for event in events(either, "agent_unstalled")] == ["claude"]


def test_an_agent_without_work_misses_nothing(server: Ringfence):
    claude = server.agent("claude")
    working(server)
    beat(claude, "claude", 40)
    assert (status(server, "claude"), agent(server, "claude")["missed_checkpoints"]) == ("online", 0)


def test_an_agent_that_checkpoints_when_told_never_stalls(server: Ringfence):
    claude = server.agent("claude")
    working(server, "claude")
    for _ in range(40):
        if beat(claude, "claude")["checkpoint_due"]:
            submit(claude, "claude")
    assert events(server, "agent_stalled") == []


def test_how_often_checkpoints_are_due_is_configured(tmp_path: Path, template: Path):
    with running(tmp_path / "data", template, checkpoint_every=2, checkpoint_missed=1) as server:
        claude = server.agent("claude")
        working(server, "claude")
        assert beat(claude, "claude")["checkpoint_due"] is False
        assert beat(claude, "claude")["checkpoint_due"] is True
        assert status(server, "claude") == "stalled"


def test_acknowledging_a_revocation_ends_a_stall(server: Ringfence):
    claude = server.agent("claude")
    working(server, "claude")
    beat(claude, "claude", 18)
    directive = server.admin.post("/agents/claude/revoke").json()["revocation_id"]
    claude.post("/agents/claude/revocation/ack", json={"revocation_id": directive})
    assert (status(server, "claude"), agent(server, "claude")["checkpoint_tick"]) == ("online", 0)


@pytest.mark.parametrize("where", ["state", "rationale", "metadata"])
def test_a_checkpoint_that_leads_outside_is_refused_and_recorded(server: Ringfence, where: str):
    claude = server.agent("claude")
    link = "see https://evil.example.com/x"
    body = {where: {"note": [link]} if where == "metadata" else link}
    refused(claude.post("/agents/claude/checkpoint", json=body), 400, "external_link")
    assert claude.get("/agents/claude/checkpoint").status_code == 404
    assert events(server, "refused")[0]["code"] == "external_link"


def test_links_to_allowed_hosts_may_stand_in_a_checkpoint(tmp_path: Path, template: Path):
    with running(tmp_path / "data", template, link_hosts=("docs.example.com",)) as server:
        submit(server.agent("claude"), "claude", state="see https://docs.example.com/x and http://localhost:8080/y")


@pytest.mark.parametrize(
    "body", [{"state": "x" * 16_385}, {"rationale": "x" * 16_385}, {"task_id": "x" * 65}, {"state": 1}, {"odd": 1}]
)
def test_a_checkpoint_out_of_bounds_is_refused(server: Ringfence, body: dict[str, object]):
    assert server.agent("claude").post("/agents/claude/checkpoint", json=body).status_code == 400


def test_a_checkpoints_metadata_is_bounded(server: Ringfence):
    body = {"metadata": {"x": "y" * 17_000}}
    assert server.agent("claude").post("/agents/claude/checkpoint", json=body).status_code == 413


def test_a_repeated_checkpoint_with_the_same_key_is_one(server: Ringfence):
    claude = server.agent("claude")
    answers = [
        claude.post("/agents/claude/checkpoint", json={"state": "x"}, headers={"idempotency-key": "k"}).json()
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert agent(server, "claude")["checkpoint_sequence"] == 1
