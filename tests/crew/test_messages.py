"""Messages as their senders and recipients meet them, over HTTP."""

import itertools
import json
from typing import Any, cast

import httpx
import pytest

from ringfence.crew.messages.model import compose
from ringfence.crew.messages.service import REMOVED_AT_ONCE, Messages
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.database import Transaction
from ringfence.kernel.retention.service import Retention
from tests.harness import Ringfence, running


def send(client: httpx.Client, to: str, content: str = "hello", **more: object) -> dict[str, Any]:
    answer = client.post("/messages/send", json={"to": to, "content": content, **more})
    assert answer.status_code == 200, answer.text
    return cast(dict[str, Any], answer.json())


def unread(client: httpx.Client, name: str) -> list[str]:
    answer = client.get(f"/messages/{name}", params={"unread": "true"})
    assert answer.status_code == 200, answer.text
    return [message["content"] for message in answer.json()]


def ack(client: httpx.Client, message_id: str) -> httpx.Response:
    return client.post(f"/messages/{message_id}/ack")


def events(server: Ringfence, kind: str) -> list[dict[str, Any]]:
    page = server.admin.get("/api/v1/audit", params={"kind": kind, "newest_first": "false"}).json()
    return cast(list[dict[str, Any]], page["items"])


# The hub's paths ------------------------------------------------------------------------------------------------------


def test_sending_answers_with_exactly_the_documented_fields(either: Ringfence):
    alice = either.agent("alice")
    answer = alice.post("/messages/send", json={"from": "alice", "to": "bob", "content": "hi"})
    assert answer.status_code == 200
    assert answer.json().keys() == {"id", "from", "to", "timestamp"}
    assert (answer.json()["from"], answer.json()["to"]) == ("alice", "bob")


def test_an_inbox_shows_exactly_the_documented_fields_oldest_first(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    first, second = send(alice, "bob", "one"), send(alice, "bob", "two", type="task.note")
    inbox = bob.get("/messages/bob").json()
    assert inbox == [
        {"id": first["id"], "from": "alice", "content": "one", "type": "text", "timestamp": first["timestamp"],
         "delivered": True, "acknowledged": False},
        {"id": second["id"], "from": "alice", "content": "two", "type": "task.note", "timestamp": second["timestamp"],
         "delivered": True, "acknowledged": False},
    ]  # fmt: skip


def test_history_is_both_directions_newest_first_with_exactly_the_documented_fields(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    send(alice, "bob", "ping")
    pong = send(bob, "alice", "pong")
    send(alice, "carol", "aside")
    for path in ("/messages/history/alice/bob", "/messages/history/bob/alice"):
        said = alice.get(path).json()
        assert [message["content"] for message in said] == ["pong", "ping"]
        assert said[0] == {**pong, "content": "pong"}
    assert [message["content"] for message in alice.get("/messages/history/alice/bob?limit=1").json()] == ["pong"]


def test_the_graph_counts_between_registered_agents_only(either: Ringfence):
    alice, bob = either.agent("alice", type="coder"), either.agent("bob", type="tester")
    for to in ("bob", "bob", "ghost"):
        send(alice, to)
    send(bob, "alice")
    graph = either.admin.get("/messages/graph").json()
    assert graph["nodes"] == [{"id": "alice", "type": "coder"}, {"id": "bob", "type": "tester"}]
    assert sorted(graph["edges"], key=str) == [
        {"from": "alice", "to": "bob", "count": 2}, {"from": "bob", "to": "alice", "count": 1},
    ]  # fmt: skip


@pytest.mark.parametrize("body", [{}, {"from": "alice"}, {"from": "alice", "to": ""}, {"content": "x"}])
def test_a_message_without_to_is_refused_as_the_hub_did(server: Ringfence, body: dict[str, Any]):
    alice = server.agent("alice")
    answer = alice.post("/messages/send", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "from and to required")


def test_an_operator_must_say_from_at_the_root_and_is_themself_under_api(server: Ringfence):
    answer = server.admin.post("/messages/send", json={"to": "bob"})
    assert (answer.status_code, answer.json()["error"]) == (400, "from and to required")
    created = server.admin.post("/api/v1/messages", json={"to": "bob"})
    assert (created.status_code, created.json()["from"]) == (201, "admin")


def test_acknowledging_what_does_not_exist_is_not_found(server: Ringfence):
    answer = server.agent("bob").post("/messages/msg_nothing/ack")
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("message not found")


@pytest.mark.parametrize(
    "path",
    [
        "/messages/bob?unread=perhaps", "/messages/bob?limit=0", "/messages/bob?limit=x", "/messages/bob?cursor=%27",
        "/messages/history/bob/alice?limit=x", "/messages/history/bob/alice?limit=-1",
         "/messages/bob?surprise=1", "/api/v1/messages?limit=1001",
        "/api/v1/messages?agent=..", "/api/v1/messages?cursor=%00",
    ],
)  # fmt: skip
def test_a_bad_question_is_answered_400(server: Ringfence, path: str):
    for client in (server.admin, server.agent("bob")):
        answer = client.get(path)
        assert answer.status_code == 400, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path",
    ["/messages/b%20b", "/messages/*", "/messages/history/bob/a%20a", "/messages/history/bob/*", "/messages/HISTORY"],
)
def test_what_cannot_be_a_name_has_no_inbox_and_no_history(server: Ringfence, path: str):
    for client in (server.admin, server.agent("bob")):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "invalid_name")


# At least once, until acknowledged ------------------------------------------------------------------------------------


def test_a_message_stays_unread_until_it_is_acknowledged(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    sent = send(alice, "bob", "one")
    assert unread(bob, "bob") == unread(bob, "bob") == ["one"]
    assert bob.get("/messages/bob").json()[0]["acknowledged"] is False
    assert unread(bob, "bob") == ["one"], "reading everything does not acknowledge"
    assert ack(bob, sent["id"]).json() == {"status": "ok"}
    assert unread(bob, "bob") == []
    assert bob.get("/messages/bob").json()[0]["acknowledged"] is True


def test_the_unread_view_does_not_mark_delivered_and_the_plain_view_does(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    send(alice, "bob")

    def delivered() -> object:
        return bob.get("/messages/bob?unread=true").json()[0]["delivered"]

    assert delivered() is False
    assert delivered() is False
    bob.get("/messages/bob")
    assert delivered() is True


def test_a_viewer_who_looks_into_an_inbox_does_not_mark_it_delivered(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    send(alice, "bob")
    viewer = server.client(server.token("vera", Role.VIEWER))
    assert viewer.get("/messages/bob").json()[0]["delivered"] is False
    server.admin.get("/api/v1/messages?agent=bob")
    assert bob.get("/messages/bob?unread=true").json()[0]["delivered"] is False


def test_acknowledging_twice_is_as_good_as_once(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    sent = send(alice, "bob")
    assert ack(bob, sent["id"]).status_code == ack(bob, sent["id"]).status_code == 200
    deliveries = either.admin.get(f"/api/v1/messages/{sent['id']}").json()["deliveries"]
    assert deliveries[0]["acknowledged_by"] == "agent:bob"


def test_acknowledged_and_unread_messages_survive_a_restart(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    gone, _ = send(alice, "bob", "gone"), send(alice, "bob", "kept")
    ack(bob, gone["id"])
    server.restart()
    assert unread(bob, "bob") == ["kept"]


def test_a_message_to_an_agent_that_does_not_exist_yet_waits_for_it(either: Ringfence):
    send(either.agent("alice"), "later", "welcome")
    assert unread(either.agent("later"), "later") == ["welcome"]


def test_a_message_to_a_person_reaches_them(server: Ringfence):
    send(server.agent("alice"), "admin", "help")
    assert unread(server.admin, "admin") == ["help"]
    mine = server.admin.get("/api/v1/messages?unread=true").json()["items"]
    assert [message["content"] for message in mine] == ["help"]
    assert ack(server.admin, mine[0]["id"]).status_code == 200
    assert unread(server.admin, "admin") == []


@pytest.mark.parametrize("name", ["messages", "threads", "ack", "unread", "a.b-c_d@e", "msg_1", "0", "Graph-1"])
def test_an_agent_of_any_allowed_name_can_read_its_inbox(server: Ringfence, name: str):
    agent = server.agent(name)
    send(agent, name, "to myself")
    assert unread(agent, name) == ["to myself"]
    assert [said["content"] for said in agent.get(f"/messages/history/{name}/{name}").json()] == ["to myself"]
    assert agent.get(f"/api/v1/messages?agent={name}").json()["items"][0]["to"] == name


# Broadcasts -----------------------------------------------------------------------------------------------------------


def test_a_broadcast_reaches_everybody_but_its_sender_and_whoever_comes_later(either: Ringfence):
    alice, bob, carol = (either.agent(name) for name in ("alice", "bob", "carol"))
    sent = send(alice, "*", "all hands")
    dave = either.agent("dave")
    assert [unread(c, n) for c, n in ((alice, "alice"), (bob, "bob"), (carol, "carol"), (dave, "dave"))] == [
        [], ["all hands"], ["all hands"], [],
    ]  # fmt: skip
    assert len(either.admin.get("/api/v1/messages").json()["items"]) == 1, "it is one message"
    detail = alice.get(f"/api/v1/messages/{sent['id']}").json()
    assert [delivery["recipient"] for delivery in detail["deliveries"]] == ["bob", "carol"]


def test_a_broadcast_that_one_acknowledged_stays_unread_for_the_others(either: Ringfence):
    alice, bob, carol = (either.agent(name) for name in ("alice", "bob", "carol"))
    sent = send(alice, "*", "all hands")
    assert ack(bob, sent["id"]).status_code == 200
    assert (unread(bob, "bob"), unread(carol, "carol")) == ([], ["all hands"])


def test_an_operator_says_for_whom_a_broadcast_is_acknowledged(server: Ringfence):
    alice, bob, carol = (server.agent(name) for name in ("alice", "bob", "carol"))
    sent = send(alice, "*", "all hands")
    assert ack(server.admin, sent["id"]).json()["code"] == "agent_required"
    assert server.admin.post(f"/messages/{sent['id']}/ack", json={"agent": "bob"}).status_code == 200
    assert (unread(bob, "bob"), unread(carol, "carol")) == ([], ["all hands"])


def test_a_broadcast_is_in_the_history_of_its_sender_with_each_recipient(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    send(alice, "*", "all hands")
    send(bob, "alice", "here")
    said = bob.get("/messages/history/bob/alice").json()
    assert [(message["to"], message["content"]) for message in said] == [("alice", "here"), ("*", "all hands")]
    assert server_edges(either) == {("alice", "bob"): 1, ("bob", "alice"): 1}


def server_edges(server: Ringfence) -> dict[tuple[str, str], int]:
    edges = server.admin.get("/messages/graph").json()["edges"]
    return {(edge["from"], edge["to"]): edge["count"] for edge in edges}


def test_a_broadcast_that_nobody_hears_is_sent_all_the_same(server: Ringfence):
    alone = server.agent("alone")
    sent = send(alone, "*", "anybody?")
    assert alone.get(f"/api/v1/messages/{sent['id']}").json()["deliveries"] == []


# Threads --------------------------------------------------------------------------------------------------------------


def test_a_reply_joins_the_thread_of_what_it_answers(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    first = send(alice, "bob", "question")
    second = bob.post("/api/v1/messages", json={"to": "alice", "content": "answer", "reply_to": first["id"]}).json()
    third = alice.post("/api/v1/messages", json={"to": "bob", "content": "thanks", "reply_to": second["id"]}).json()
    assert first["id"] == second["thread"] == third["thread"]
    for client in (alice, bob, either.admin):
        thread = client.get(f"/api/v1/threads/{first['id']}").json()["items"]
        assert [message["content"] for message in thread] == ["question", "answer", "thanks"]
        assert [message["reply_to"] for message in thread] == [None, first["id"], second["id"]]
    assert [thread["messages"] for thread in bob.get("/api/v1/threads").json()["items"]] == [3]


def test_a_named_thread_gathers_messages(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    for content in ("one", "two"):
        send(alice, "bob", content, thread="release-1")
    send(alice, "bob", "elsewhere")
    items = bob.get("/api/v1/messages", params={"thread": "release-1"}).json()["items"]
    assert [message["content"] for message in items] == ["one", "two"]
    assert bob.get("/api/v1/threads").json()["items"][0]["id"] == "release-1"


def test_a_reply_that_names_another_thread_is_a_conflict(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    first = send(alice, "bob", thread="one")
    answer = bob.post("/messages/send", json={"to": "alice", "reply_to": first["id"], "thread": "two"})
    assert (answer.status_code, answer.json()["code"]) == (409, "other_thread")
    assert bob.post("/messages/send", json={"to": "alice", "reply_to": first["id"], "thread": "one"}).status_code == 200


def test_an_agent_sees_only_its_own_part_of_a_thread(either: Ringfence):
    alice, bob, carol = (either.agent(name) for name in ("alice", "bob", "carol"))
    send(alice, "bob", "secret", thread="plans")
    assert carol.get("/api/v1/threads/plans").status_code == 404
    assert carol.get("/api/v1/threads").json()["items"] == []
    send(carol, "bob", "may I?", thread="plans")
    assert [m["content"] for m in carol.get("/api/v1/threads/plans").json()["items"]] == ["may I?"]
    assert carol.get("/api/v1/threads").json()["items"][0]["messages"] == 1
    assert [m["content"] for m in bob.get("/api/v1/threads/plans").json()["items"]] == ["secret", "may I?"]


def test_replying_to_nothing_is_not_found(server: Ringfence):
    answer = server.agent("alice").post("/messages/send", json={"to": "bob", "reply_to": "msg_nothing"})
    assert answer.status_code == 404


# Expiry, setting aside, retention -------------------------------------------------------------------------------------


def test_an_unread_message_expires_after_the_setting_or_its_own_time(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    send(alice, "bob", "short", expires_in=90)
    send(alice, "bob", "usual")
    either.clock.advance(89)
    assert unread(bob, "bob") == ["short", "usual"]
    either.clock.advance(2)
    assert unread(bob, "bob") == ["usual"]
    either.clock.advance(either.settings.message_ttl_days * 86400)
    assert unread(bob, "bob") == []


def test_what_expired_is_removed_and_what_was_acknowledged_is_kept_for_its_days(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    send(alice, "bob", "ignored", expires_in=60)
    done = send(alice, "bob", "done")
    ack(bob, done["id"])

    def kept_after(days: float) -> list[str]:
        either.clock.advance(days * 86400)
        tidy(either)
        viewer = either.client(either.token("vera", Role.VIEWER))  # earlier tokens have expired
        return [message["content"] for message in viewer.get("/api/v1/messages").json()["items"]]

    assert kept_after(0.01) == ["done"]
    assert kept_after(either.settings.keep_messages_days - 1) == ["done"]
    assert kept_after(1) == []


def tidy(server: Ringfence) -> None:
    [chore] = [chore for chore in server.house.housekeeping._chores if chore.name == "messages"]
    server.write(chore.do)


def test_a_broadcast_is_removed_when_nobody_has_it_any_more(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    either.agent("carol")
    sent = send(alice, "*", "all hands", expires_in=60)
    ack(bob, sent["id"])
    either.clock.advance(180)
    tidy(either)
    assert [m["content"] for m in bob.get("/messages/bob").json()] == ["all hands"]
    assert either.admin.get("/messages/carol").json() == []
    pruned = either.admin.post("/api/v1/messages/prune", json={"days": 0})
    assert pruned.json() == {"removed": 1}
    assert either.admin.get(f"/api/v1/messages/{sent['id']}").status_code == 404


def test_a_broadcast_that_nobody_heard_is_removed_when_it_expires(server: Ringfence):
    sent = send(server.agent("alone"), "*", "anybody?", expires_in=60)
    server.clock.advance(180)
    tidy(server)
    assert server.admin.get(f"/api/v1/messages/{sent['id']}").status_code == 404


def test_pruning_goes_on_until_nothing_is_left_to_remove(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=0) as server:
        messages = Messages(server.settings, server.house.crew, server.house.auth, Retention(server.settings))
        bob = Principal(TokenKind.AGENT, "bob")
        number = REMOVED_AT_ONCE + 1

        def send_and_acknowledge(tx: Transaction) -> None:
            for _ in range(number):
                sent = messages.send(tx, compose(bob, messages.links, sender="bob", to="bob"))
                messages.acknowledge(tx, bob, sent.id)

        server.write(send_and_acknowledge)
        send(server.agent("bob"), "bob", "unread")
        server.clock.advance(120)
        assert server.admin.post("/api/v1/messages/prune", json={"days": 0}).json() == {"removed": number}
        assert [m["content"] for m in server.admin.get("/messages/bob").json()] == ["unread"]
        assert sum(event["data"]["count"] for event in events(server, "messages_pruned")) == number


def test_only_admins_prune(server: Ringfence):
    operator = server.client(server.token("olga", Role.OPERATOR))
    for client in (operator, server.agent("alice")):
        assert client.post("/api/v1/messages/prune", json={"days": 0}).status_code == 403


def test_revoking_with_flush_sets_unread_messages_aside(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    read, _ = send(alice, "bob", "read"), send(alice, "bob", "waiting")
    ack(bob, read["id"])
    revoked = either.admin.post("/agents/bob/revoke", json={"reason": "test", "flush_required": True})
    assert revoked.status_code == 200, revoked.text
    assert unread(bob, "bob") == []
    history = either.admin.get("/api/v1/messages/history/alice/bob").json()["items"]
    assert [(m["content"], m["set_aside"], m["acknowledged"]) for m in history] == [
        ("waiting", True, False), ("read", False, True),
    ]  # fmt: skip
    send(alice, "bob", "fresh")
    assert unread(bob, "bob") == ["fresh"], "what comes later is not set aside"


def test_revoking_without_flush_leaves_messages_unread(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    send(alice, "bob", "waiting")
    server.admin.post("/agents/bob/revoke", json={"reason": "test", "flush_required": False})
    assert unread(bob, "bob") == ["waiting"]


# Who may what ---------------------------------------------------------------------------------------------------------


def refusals(server: Ringfence) -> list[tuple[str, str | None, str]]:
    return [(event["actor"], event["via"], event["data"]["code"]) for event in events(server, "refused")]


def test_an_agent_cannot_send_as_another_and_the_attempt_is_recorded(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    for path in ("/messages/send", "/api/v1/messages"):
        answer = alice.post(path, json={"from": "bob", "to": "bob", "content": "as you said"})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_yourself")
    assert unread(bob, "bob") == []
    assert ("agent:alice", None, "not_yourself") in refusals(either)


def test_an_agent_sees_its_own_inbox_history_and_edges_only(either: Ringfence):
    alice, bob, carol = (either.agent(name) for name in ("alice", "bob", "carol"))
    sent = send(alice, "bob", "private")
    for path in (
        "/messages/bob", "/messages/bob?unread=true", "/messages/history/alice/bob", "/api/v1/messages?agent=bob",
        "/api/v1/messages/history/bob/alice", f"/api/v1/messages/{sent['id']}",
    ):  # fmt: skip
        answer = carol.get(path)
        assert answer.status_code == 403, path
        assert "private" not in answer.text
    assert ("agent:carol", None, "not_yourself") in refusals(either)
    assert carol.get("/messages/graph").json()["edges"] == []
    assert carol.get("/api/v1/messages").json()["items"] == []
    assert bob.get("/messages/graph").json()["edges"] == [{"from": "alice", "to": "bob", "count": 1}]


def test_only_the_recipient_acknowledges(either: Ringfence):
    alice, bob, carol = (either.agent(name) for name in ("alice", "bob", "carol"))
    sent = send(alice, "bob", "for bob")
    for client in (alice, carol):
        assert ack(client, sent["id"]).status_code == 403
    assert carol.post(f"/messages/{sent['id']}/ack", json={"agent": "bob"}).status_code == 403
    assert unread(bob, "bob") == ["for bob"]
    assert ("agent:carol", None, "not_your_message") in refusals(either)


def test_a_viewer_reads_everything_and_sends_nothing(server: Ringfence):
    alice = server.agent("alice")
    sent = send(alice, "bob", "look")
    viewer = server.client(server.token("vera", Role.VIEWER))
    for path in (
        "/messages/bob", "/messages/history/alice/bob", "/messages/graph", "/api/v1/messages", "/api/v1/threads",
        f"/api/v1/messages/{sent['id']}",
    ):  # fmt: skip
        assert viewer.get(path).status_code == 200, path
    assert viewer.post("/messages/send", json={"from": "vera", "to": "bob"}).status_code == 403
    assert ack(viewer, sent["id"]).status_code == 403


def test_nobody_without_a_token_reads_or_sends(server: Ringfence):
    nobody = server.client()
    assert nobody.get("/messages/bob").status_code == 401
    assert nobody.post("/messages/send", json={"from": "bob", "to": "bob"}).status_code == 401


def test_an_operator_who_sends_for_an_agent_is_recorded_with_it(either: Ringfence):
    either.agent("alice")
    bob = either.agent("bob")
    send(either.admin, "bob", "do it", **{"from": "alice"})
    assert unread(bob, "bob") == ["do it"]
    [event] = events(either, "message_sent")
    assert (event["actor"], event["via"], event["agent"]) == ("agent:alice", "operator:admin", "alice")


def test_nobody_sends_or_acknowledges_as_another_person(server: Ringfence):
    invited = server.admin.post("/api/v1/people", json={"name": "petra", "role": "operator"})
    assert invited.status_code == 201
    answer = server.admin.post("/messages/send", json={"from": "petra", "to": "bob", "content": "I quit"})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_yourself")
    sent = send(server.agent("alice"), "petra")
    assert ack(server.admin, sent["id"]).status_code == 403


@pytest.mark.parametrize("how", ["pause", "revoke"])
def test_a_halted_sender_is_refused_even_when_an_operator_acts_for_it(either: Ringfence, how: str):
    alice, bob = either.agent("alice"), either.agent("bob")
    assert either.admin.post(f"/agents/alice/{how}", json={"reason": "hold on"}).status_code == 200
    for client, more in ((alice, {}), (either.admin, {"from": "alice"})):
        answer = client.post("/messages/send", json={"to": "bob", "content": "psst", **more})
        assert (answer.status_code, answer.json()["code"]) == (403, f"agent_{how}d")
    assert unread(bob, "bob") == []
    send(either.admin, "bob", "I still can", **{"from": "admin"})


def test_a_paused_agent_still_reads_and_acknowledges(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    sent = send(alice, "bob", "read me")
    server.admin.post("/agents/bob/pause", json={"reason": "hold on"})
    assert unread(bob, "bob") == ["read me"]
    assert ack(bob, sent["id"]).status_code == 200


# The rate -------------------------------------------------------------------------------------------------------------


def test_the_61st_message_of_a_minute_is_refused_until_the_first_leaves_it(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    send(alice, "bob", "0")
    either.clock.advance(20)
    for number in range(1, 60):
        send(alice, "bob", str(number))
    for _ in range(3):
        answer = alice.post("/messages/send", json={"to": "bob"})
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    wait = int(answer.headers["retry-after"])
    assert wait == answer.json()["retry_after"]
    assert 38 <= wait <= 40
    either.clock.advance(wait - 2)
    assert alice.post("/messages/send", json={"to": "bob"}).status_code == 429
    either.clock.advance(2)
    send(alice, "bob", "again")
    assert alice.post("/messages/send", json={"to": "bob"}).status_code == 429, "one left, so one may come"
    assert len(unread(bob, "bob")) == 61
    send(bob, "alice", "others are not concerned")


def test_a_refused_message_does_not_count_and_is_recorded_once_a_minute(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=2) as server:
        alice = server.agent("alice")
        for _ in range(2):
            send(alice, "bob")
        for _ in range(20):
            assert alice.post("/messages/send", json={"to": "bob"}).status_code == 429
        assert refusals(server) == [("agent:alice", None, "rate_limited")]
        server.clock.advance(60)
        send(alice, "bob")
        send(alice, "bob")


def test_the_rate_survives_a_restart_and_counts_a_broadcast_once(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=3) as server:
        alice, *_ = [server.agent(name) for name in ("alice", "bob", "carol", "dave")]
        send(alice, "*")
        server.restart()
        send(alice, "*")
        send(alice, "bob")
        assert alice.post("/messages/send", json={"to": "bob"}).status_code == 429


def test_the_rate_of_an_agent_holds_for_who_acts_for_it(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=1) as server:
        alice = server.agent("alice")
        send(alice, "bob")
        answer = server.admin.post("/messages/send", json={"from": "alice", "to": "bob"})
        assert answer.status_code == 429
        assert ("agent:alice", "operator:admin", "rate_limited") in refusals(server)


def test_a_rate_of_zero_is_no_limit(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=0) as server:
        alice = server.agent("alice")
        for _ in range(130):
            send(alice, "bob")


def test_removing_messages_gives_no_sender_its_minute_back(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=2) as server:
        alice, bob = server.agent("alice"), server.agent("bob")
        send(alice, "bob", expires_in=1)
        ack(bob, send(alice, "bob")["id"])
        server.clock.advance(30)
        tidy(server)
        server.admin.post("/api/v1/messages/prune", json={"days": 0})
        assert alice.post("/messages/send", json={"to": "bob"}).status_code == 429


# Links ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", [{"content": "see https://evil.com/x"}, {"type": "evil.com"}, {"thread": "www.evil.com"}]
)
def test_an_agent_sends_no_link_in_any_field(server: Ringfence, field: dict[str, Any]):
    alice, bob = server.agent("alice"), server.agent("bob")
    for client, more in ((alice, {}), (server.admin, {"from": "alice"})):
        answer = client.post("/messages/send", json={"to": "bob", **field, **more})
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "external_link"
        assert answer.json()["error"].startswith("Sandbox: message ")
        assert "evil.com" in answer.json()["error"]
    assert unread(bob, "bob") == []
    assert ("agent:alice", None, "external_link") in refusals(server)


def test_the_refusal_of_a_link_begins_as_the_hub_said_it(server: Ringfence):
    answer = server.agent("alice").post("/messages/send", json={"to": "bob", "content": "http://evil.com"})
    assert answer.json()["error"].startswith("Sandbox: message content blocked (external URL detected)")


def test_a_person_may_send_a_link_and_an_agent_one_inside(tmp_path, template):
    with running(tmp_path / "data", template, link_hosts=("docs.example.com",)) as server:
        bob = server.agent("bob")
        send(server.admin, "bob", "read https://example.org/guide", **{"from": "admin"})
        send(bob, "admin", "http://hub:8080/tasks and https://docs.example.com/a")
        assert len(unread(bob, "bob")) == 1


def test_a_link_in_long_content_is_found_too(server: Ringfence):
    alice = server.agent("alice")
    content = "lorem ipsum " * 4000 + "https://evil.com/x"
    assert alice.post("/messages/send", json={"to": "bob", "content": content}).status_code == 400


# Content --------------------------------------------------------------------------------------------------------------

ODD = [
    "", " ", "\n\t\r", "naïve façade", "日本語", "\U0001f469\u200d\U0001f467\ufe0f", "\u202eevil\u202c", "e\u0301 e",
    "\ufeff\u200b", "\U0010ffff", "\x01\x1b[31m", "'; DROP TABLE messages; --", "<img src=x onerror=alert(1)>",
    "\u2028\u2029", '{"a": "\\u0000"}', "data: x\n\nid: 7\n\n",
]  # fmt: skip


def test_odd_text_arrives_as_it_was_sent(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    for content in ODD:
        send(alice, "bob", content)
    assert unread(bob, "bob") == ODD
    assert [m["content"] for m in bob.get("/api/v1/messages").json()["items"]] == ODD


def test_64_kib_of_content_are_taken_and_one_byte_more_is_not(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    send(alice, "bob", "ä" * 32768)
    assert [len(content) for content in unread(bob, "bob")] == [32768]
    answer = alice.post("/messages/send", json={"to": "bob", "content": "ä" * 32768 + "."})
    assert (answer.status_code, answer.json()["code"]) == (400, "content_too_large")


def test_the_event_carries_the_first_200_characters_and_the_audit_log_none(server: Ringfence):
    alice = server.agent("alice")
    sent = send(alice, "bob", "x" * 500, thread="t1")
    [event] = events(server, "message_sent")
    data = {name: event["data"][name] for name in ("id", "from", "to", "content", "type", "timestamp", "thread")}
    assert data == {**sent, "content": "x" * 200, "type": "text", "thread": "t1"}
    [entry] = [entry for entry in server.admin.get("/audit/log").json() if entry["action"] == "send_message"]
    assert entry["agent"] == "alice"
    assert "xxx" not in json.dumps(entry)


def test_acknowledging_says_nothing_in_the_feed(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    sent = send(alice, "bob")
    before = server.house.feed.last
    ack(bob, sent["id"])
    bob.get("/messages/bob")
    assert server.house.feed.last == before


def test_the_same_idempotency_key_sends_once(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    headers = {"idempotency-key": "once"}
    body = {"to": "bob", "content": "one"}
    first, second = (alice.post("/messages/send", json=body, headers=headers) for _ in range(2))
    assert first.json() == second.json()
    assert unread(bob, "bob") == ["one"]


# Pages ----------------------------------------------------------------------------------------------------------------


def walk(client: httpx.Client, path: str, **params: Any) -> list[str]:
    found: list[str] = []
    for _ in range(50):
        page = client.get(path, params=params).json()
        found += [item.get("content", item["id"]) for item in page["items"]]
        if page["next"] is None:
            return found
        params["cursor"] = page["next"]
    raise AssertionError("the pages do not end")


def test_every_list_can_be_walked_in_pages(either: Ringfence):
    alice, bob = either.agent("alice"), either.agent("bob")
    sent = [str(number) for number in range(7)]
    for content in sent:
        send(alice, "bob", content, thread="t")
    for limit in (1, 3, 7, 8):
        for params in ({}, {"unread": "true"}, {"thread": "t"}):
            assert walk(bob, "/api/v1/messages", limit=limit, **params) == sent
            assert walk(bob, "/api/v1/messages", limit=limit, newest_first="true", **params) == sent[::-1]
        assert walk(either.admin, "/api/v1/messages", limit=limit) == sent
        assert walk(either.admin, "/api/v1/messages", limit=limit, newest_first="true", thread="t") == sent[::-1]
        assert walk(bob, "/api/v1/messages/history/bob/alice", limit=limit) == sent[::-1]
        for client in (alice, either.admin):
            assert walk(client, "/api/v1/threads/t", limit=limit) == sent


def test_the_newest_messages_are_in_the_plain_view_at_the_root_and_a_link_leads_to_older_ones(server: Ringfence):
    alice, bob = server.agent("alice"), server.agent("bob")
    for number in range(5):
        send(alice, "bob", str(number))
    answer = bob.get("/messages/bob?limit=2")
    assert [message["content"] for message in answer.json()] == ["3", "4"]
    older = bob.get(answer.links["next"]["url"])
    assert [message["content"] for message in older.json()] == ["1", "2"]


def test_threads_are_walked_newest_first(server: Ringfence):
    alice = server.agent("alice")
    for number in itertools.chain(range(5), [0]):
        send(alice, "bob", thread=f"t{number}")
    for client in (alice, server.admin):
        assert walk(client, "/api/v1/threads", limit=2) == ["t0", "t4", "t3", "t2", "t1"]
