"""The demo: a project whose agents work by themselves, made and removed in one request."""

from collections import Counter
from typing import Any

import pytest

from ringfence.kernel.auth.model import Role
from ringfence.kernel.database import Query, Transaction
from ringfence.kernel.tables import metadata
from tests.harness import Ringfence

DEMO = "/api/v1/demo"
EMPTIED = [
    "projects", "project_members", "wip_limits", "tasks", "comments", "moves", "dependencies", "completions", "files",
    "agents", "agent_capabilities", "checkpoints", "revocations", "messages", "deliveries", "proposals", "demos",
]  # fmt: skip


def start(server: Ringfence) -> dict[str, Any]:
    answer = server.admin.post(DEMO, json={})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def cards(server: Ringfence, project: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.admin.get(f"/api/v1/projects/{project}/cards").json()["cards"]
    return found


def events(server: Ringfence, **query: Any) -> list[dict[str, Any]]:
    """The last thousand, oldest first."""
    found = server.admin.get("/api/v1/audit", params={"limit": 1000, **query}).json()["items"]
    return list(reversed(found))


def live(server: Ringfence, steps: int) -> None:
    """Let that many steps happen, two seconds after each other."""
    for _ in range(steps):
        server.clock.advance(2.1)
        server.write(server.house.demos.step)


def rows(server: Ringfence) -> dict[str, int]:
    def count(tx: Transaction) -> dict[str, int]:
        import sqlalchemy as sa

        tables = {table.name: table for table in metadata.tables.values()}
        return {name: tx.row(Query(sa.select(sa.func.count()).select_from(tables[name])))[0] for name in tables}  # type: ignore[index]

    found: dict[str, int] = server.write(count)
    return found


def test_it_is_made_as_a_board_that_shows_everything(either: Ringfence) -> None:
    server = either
    assert server.admin.get(DEMO).json()["present"] is False
    demo = start(server)
    assert demo["living"]
    board = cards(server, demo["project"])
    columns = Counter(card["status"] for card in board)
    assert len(board) == 18
    assert set(columns) == {"backlog", "ready", "in_progress", "in_review", "blocked", "done"}
    assert {card["priority"] for card in board} == {"P0", "P1", "P2", "P3"}
    assert any(card["blocked_reason"] for card in board)
    assert any(card["labels"] for card in board)
    assert any(card["required_capabilities"] for card in board)
    crew = server.admin.get("/api/v1/crew").json()["items"]
    assert {agent["name"] for agent in crew} == set(demo["agents"])
    assert {agent["type"] for agent in crew} == {"demo"}
    assert {agent["status"] for agent in crew} == {"online"}
    pending = server.admin.get("/api/v1/proposals", params={"state": "pending"}).json()["items"]
    assert sorted(proposal["action"] for proposal in pending) == ["claim", "create_task"]
    assert {proposal["agent"] for proposal in pending} == {"demo-grace"}
    assert server.admin.get("/api/v1/threads").json()["items"][0]["id"] == "frames"
    assert server.admin.get(f"/api/v1/projects/{demo['project']}/wip").json()


def test_every_part_of_it_is_told_by_an_event(server: Ringfence) -> None:
    demo = start(server)
    told = events(server, project=demo["project"])
    kinds = Counter(event["kind"] for event in told)
    assert kinds["task_created"] == 18
    assert kinds["proposal_created"] == 2
    assert kinds["demo_started"] == 1
    assert server.admin.get("/api/v1/audit/verify").json()["ok"]


def test_it_lives_and_its_agents_stay_online(either: Ringfence) -> None:
    server = either
    demo = start(server)
    before = {card["id"]: card["status"] for card in cards(server, demo["project"])}
    live(server, 100)
    after = {card["id"]: card["status"] for card in cards(server, demo["project"])}
    assert before != after
    kinds = Counter(event["kind"] for event in events(server))
    for kind in ("task_transition", "task_claimed", "checkpoint_submitted", "message_sent", "task_reviewer_added"):
        assert kinds[kind] > 0, kind
    assert kinds["refused"] == 0
    assert kinds["agent_stalled"] == 0
    assert {agent["status"] for agent in server.admin.get("/api/v1/crew").json()["items"]} == {"online"}
    assert Counter(after.values())["done"] > 3


def test_it_moves_by_itself(server: Ringfence) -> None:
    project = start(server)["project"]
    with server.client(server.admin_token).stream(
        "GET", "/api/v1/events", params={"project": project}, timeout=15
    ) as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                break
        else:
            raise AssertionError("the stream ended")


def test_after_fifteen_minutes_it_rests_until_somebody_starts_it_again(server: Ringfence) -> None:
    demo = start(server)
    server.clock.advance(15 * 60 + 1)
    before = len(events(server, project=demo["project"]))
    live(server, 3)
    assert len(events(server, project=demo["project"])) == before
    assert server.admin.get(DEMO).json()["living"] is False
    again = start(server)
    assert again["project"] == demo["project"]
    assert again["living"]
    live(server, 6)
    assert len(events(server, project=demo["project"])) > before


def test_two_starts_are_one_demo(either: Ringfence) -> None:
    server = either
    first, second = start(server), start(server)
    assert first["project"] == second["project"]
    assert len(server.admin.get("/api/v1/projects").json()["items"]) == 1
    assert len(server.admin.get("/api/v1/crew").json()["items"]) == 5


def test_a_restart_changes_nothing(server: Ringfence) -> None:
    demo = start(server)
    live(server, 5)
    before = cards(server, demo["project"])
    server.restart()
    assert len(cards(server, demo["project"])) >= len(before)
    assert server.admin.get(DEMO).json()["living"]
    count = len(events(server, project=demo["project"]))
    live(server, 10)
    assert len(events(server, project=demo["project"])) > count


@pytest.mark.parametrize("role", [Role.VIEWER, None])
def test_neither_viewers_nor_agents_make_or_remove_it(server: Ringfence, role: Role | None) -> None:
    somebody = server.agent("claude") if role is None else server.client(server.token("vera", role))
    assert somebody.post(DEMO, json={}).status_code == 403
    start(server)
    assert somebody.delete(DEMO).status_code == 403
    assert server.admin.get(DEMO).json()["present"]


def test_who_sees_some_projects_only_neither_makes_nor_removes_nor_sees_it(server: Ringfence) -> None:
    limited = server.client(server.token("otto", Role.OPERATOR, projects=["prj_other"]))
    assert limited.post(DEMO, json={}).json()["code"] == "limited_to_projects"
    start(server)
    assert limited.delete(DEMO).json()["code"] == "limited_to_projects"
    assert limited.get(DEMO).json()["present"] is False


def test_nothing_of_it_is_left_but_the_events(either: Ringfence) -> None:
    server = either
    before = rows(server)
    demo = start(server)
    live(server, 60)
    upload = server.admin.post(f"/api/v1/projects/{demo['project']}/files", files={"file": ("a.txt", b"demo")})
    assert upload.status_code < 300, upload.text
    server.admin.post("/send", json={"from": "admin", "to": "demo-ada", "content": "well done"})
    server.admin.post("/agents/demo-ken/revoke", json={"reason": "enough"})
    proposals = server.admin.get("/api/v1/proposals", params={"state": "pending"}).json()["items"]
    server.admin.post(f"/api/v1/proposals/{proposals[0]['id']}/approve", json={})
    assert server.admin.delete(DEMO).status_code == 200
    after = rows(server)
    left = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert set(left) <= {"events", "idempotency"}, left
    assert [event["kind"] for event in events(server)][-1] == "demo_removed"
    assert server.admin.get("/api/v1/audit/verify").json()["ok"]
    assert server.admin.delete(DEMO).status_code == 404


def test_it_keeps_away_from_everything_else(server: Ringfence) -> None:
    mine = server.admin.post("/api/v1/projects", json={"name": "Mine"}).json()["id"]
    for number in range(5):
        server.admin.post(f"/api/v1/projects/{mine}/tasks", json={"title": f"Task {number}", "priority": "P0"})
    claude = server.agent("claude")
    namesake = server.agent("demo-ada")
    demo = start(server)
    assert "demo-ada" not in demo["agents"]
    assert "demo-ada-2" in demo["agents"]
    live(server, 60)
    assert {card["status"] for card in cards(server, mine)} == {"backlog"}
    assert demo["project"] not in {project["id"] for project in claude.get("/api/v1/projects").json()["items"]}
    assert claude.get("/api/v1/messages", params={"agent": "claude"}).json()["items"] == []
    server.admin.delete(DEMO)
    assert len(cards(server, mine)) == 5
    assert namesake.get("/api/v1/me").status_code == 200
    assert {agent["name"] for agent in server.admin.get("/api/v1/crew").json()["items"]} == {"claude", "demo-ada"}


def test_people_may_steer_it_like_any_other(server: Ringfence) -> None:
    demo = start(server)
    server.admin.post("/agents/demo-ada/pause", json={"reason": "a moment"})
    server.admin.post("/agents/demo-ken/revoke", json={"reason": "try it", "flush_required": True})
    server.admin.post("/agents/demo-linus/autonomy", json={"mode": "advisory"})
    server.admin.delete("/agents/demo-margaret")
    seen = events(server)[-1]["seq"]
    live(server, 80)
    later = [event for event in events(server) if event["seq"] > seen]
    did = {event["actor"] for event in later if event["kind"] not in ("agent_offline", "agent_stale")}
    assert "agent:demo-ada" not in did
    assert "agent:demo-margaret" not in did
    assert [event["kind"] for event in later if event["kind"] == "agent_recovered"] == ["agent_recovered"]
    assert any(event["kind"] == "proposal_created" and event["agent"] == "demo-linus" for event in later)
    assert server.admin.delete(DEMO).status_code == 200
    assert demo["project"] not in {project["id"] for project in server.admin.get("/api/v1/projects").json()["items"]}


def test_a_demo_whose_project_was_deleted_rests_and_begins_anew(server: Ringfence) -> None:
    demo = start(server)
    assert server.admin.delete(f"/api/v1/projects/{demo['project']}").status_code == 200
    live(server, 3)
    again = start(server)
    assert again["project"] != demo["project"]
    assert len(server.admin.get("/api/v1/crew").json()["items"]) == 5
    assert len(cards(server, again["project"])) == 18


def test_a_policy_that_holds_agents_back_does_not_stop_it(server: Ringfence) -> None:
    server.admin.post("/autonomy/set-mode", json={"mode": "manual"})
    demo = start(server)
    modes = Counter(agent["autonomy_mode"] for agent in server.admin.get("/api/v1/crew").json()["items"])
    assert modes == {"fully_autonomous": 4, "advisory": 1}
    assert demo["living"]
