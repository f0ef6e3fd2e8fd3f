"""How long things are kept: chosen while it runs, and done."""

from datetime import timedelta

import httpx

from ringfence.kernel.auth.model import Role, TokenKind
from tests.harness import Ringfence

PATH = "/api/v1/retention"


def chore(server: Ringfence, name: str) -> None:
    (found,) = [chore for chore in server.house.housekeeping._chores if chore.name == name]
    server.write(found.do)


def three_days_later(server: Ringfence) -> httpx.Client:
    """An admin, whose token did not expire meanwhile."""
    server.clock.advance(timedelta(days=3).total_seconds())
    return server.client(server.token("admin", Role.ADMIN))


def test_the_settings_count_until_somebody_chooses_otherwise(either: Ringfence) -> None:
    admin = either.admin
    assert admin.get(PATH).json() == {"events_days": 0, "messages_days": 90}
    assert admin.put(PATH, json={"events_days": 30}).json() == {"events_days": 30, "messages_days": 90}
    assert admin.put(PATH, json={"messages_days": 0.5}).json() == {"events_days": 30, "messages_days": 0.5}
    either.restart()
    assert either.admin.get(PATH).json() == {"events_days": 30, "messages_days": 0.5}
    told = either.admin.get("/api/v1/audit", params={"kind": "retention_changed"}).json()["items"]
    assert [event["data"] for event in told] == [{"what": "messages", "days": 0.5}, {"what": "events", "days": 30.0}]
    assert either.admin.put(PATH, json={"events_days": None}).json() == {"events_days": 0, "messages_days": 0.5}


def test_old_events_go_by_themselves_and_the_chain_stays_whole(either: Ringfence) -> None:
    admin = either.admin
    for number in range(5):
        admin.post("/api/v1/projects", json={"name": f"old {number}"})
    admin = three_days_later(either)
    chore(either, "retention")
    assert len(admin.get("/api/v1/audit", params={"kind": "project_created"}).json()["items"]) == 5  # for ever
    admin.put(PATH, json={"events_days": 2})
    admin.post("/api/v1/projects", json={"name": "new"})
    chore(either, "retention")
    kept = admin.get("/api/v1/audit", params={"kind": "project_created"}).json()["items"]
    assert [event["data"]["name"] for event in kept] == ["new"]
    verdict = admin.get("/api/v1/audit/verify").json()
    assert verdict["ok"], verdict
    assert verdict["first"] > 5


def test_acknowledged_messages_go_after_the_days_that_were_chosen(either: Ringfence) -> None:
    admin = either.admin
    either.agent("claude")
    sent = admin.post("/api/v1/messages", json={"to": "claude", "content": "hello"}).json()["id"]
    admin.post(f"/api/v1/messages/{sent}/ack", json={"agent": "claude"})
    admin = three_days_later(either)
    chore(either, "messages")
    assert admin.get(f"/api/v1/messages/{sent}").status_code == 200  # 90 days
    admin.put(PATH, json={"messages_days": 2})
    chore(either, "messages")
    assert admin.get(f"/api/v1/messages/{sent}").status_code == 404


def test_what_is_no_number_of_days_is_refused(server: Ringfence) -> None:
    wrong: list[object] = [{"events_days": -1}, {"events_days": "x"}, {"messages_days": 1e9}, {"tasks_days": 1}, []]
    for body in wrong:
        assert server.admin.put(PATH, json=body).status_code == 400
    assert server.admin.get(PATH).json() == {"events_days": 0, "messages_days": 90}


def test_only_admins_of_everything_choose(server: Ringfence) -> None:
    project = server.admin.post("/api/v1/projects", json={"name": "p"}).json()["id"]
    limited = server.admin.post("/api/v1/tokens", json={"name": "s", "role": "admin", "projects": [project]}).json()
    server.agent("claude")
    agent = server.token("claude", kind=TokenKind.AGENT)
    for token in (server.token("olga", Role.OPERATOR), agent, limited["token"]):
        assert server.client(token).put(PATH, json={"events_days": 1}).status_code == 403
    assert server.client(agent).get(PATH).status_code == 403
    assert server.admin.get(PATH).json()["events_days"] == 0
