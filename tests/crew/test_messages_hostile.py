"""Messages under an agent that means harm: whatever it sends is refused or harmless, and nobody else notices."""

import concurrent.futures
import json
import threading
from typing import Any, cast

import httpx
import pytest

from ringfence.kernel.ids import new
from tests.harness import Ringfence, running

# What stayed stored in the hub and broke every reader after it, and more of the kind.
POISON: list[Any] = [
    {"to": ["x"]}, {"to": {"a": 1}}, {"to": 1}, {"to": True}, {"to": None, "from": "mallory"},
    {"to": "bob", "content": None},
    {"to": "bob", "content": 1}, {"to": "bob", "content": ["x"]}, {"to": "bob", "type": None},
    {"to": "bob", "type": []},
    {"to": "bob", "type": ""}, {"to": "bob", "type": "X"}, {"to": "bob", "type": "a" * 33},
    {"to": "bob", "type": "a b"},
    {"to": "bob", "type": "text\n"}, {"to": "bob", "thread": ""}, {"to": "bob", "thread": "a/b"},
    {"to": "bob", "thread": "t\n"}, {"to": "bob", "thread": "t" * 65}, {"to": "bob", "thread": 7},
    {"to": "bob", "expires_in": 0}, {"to": "bob", "expires_in": -1}, {"to": "bob", "expires_in": 1e300},
    {"to": "bob", "expires_in": "soon"}, {"to": "bob", "expires_in": 1e-9}, {"to": "bob", "from": ["mallory"]},
    {"to": "bob", "from": 1}, {"to": "bob", "reply_to": 1}, {"to": "bob", "reply_to": "m" * 65},
    {"to": "bob", "sender": "mallory"}, {"to": "bob", "id": "msg_x"}, {"to": "bob", "delivered": True},
    {"to": "bob", "content": "a\0b"}, {"to": "bo\0b"}, {"to": "../bob"}, {"to": "bob/x"}, {"to": "b" * 65}, {"to": " "},
    {"to": "**"}, {"to": "*", "content": "x" * 65537}, {"to": "бob"}, {"to": "bob\n"}, {"to": "%2a"}, {"to": "history"},
    [], [{"to": "bob"}], "bob", 1, None, True,
]  # fmt: skip


def _shown(value: Any) -> str:
    return json.dumps(value)[:60]


@pytest.mark.parametrize("body", POISON, ids=_shown)
@pytest.mark.parametrize("path", ["/messages/send", "/api/v1/messages"])
def test_poison_is_refused_with_400_and_breaks_no_reader(poisoned: Ringfence, path: str, body: Any):
    mallory = poisoned.client(cast(Any, poisoned).mallory)
    answer = mallory.post(path, content=json.dumps(body))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]
    for reader in ("/messages/graph", "/messages/mallory", "/api/v1/messages", "/api/v1/threads"):
        assert mallory.get(reader).status_code == 200
        assert poisoned.admin.get(reader).status_code == 200


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory, template):
    with running(tmp_path_factory.mktemp("poisoned") / "data", template) as server:
        registered = server.admin.post("/agents/register", json={"name": "mallory"}).json()
        cast(Any, server).mallory = registered["token"]
        yield server


@pytest.mark.parametrize(
    "raw",
    [b"{", b"\xff\xfe", b'{"to": "bob", "content": "\xff"}', b'{"to": "bob", "content": "\\ud800"}', b"[" * 100_000,
     b'{"to": "bob", "expires_in": NaN}', b'{"to": "bob", "expires_in": 1e999}',
     b'{"to": "bob", "expires_in": Infinity}',
     b'{"to":"bob","to":["x"]}'],
)  # fmt: skip
def test_a_body_that_is_no_sensible_json_is_answered_400(poisoned: Ringfence, raw: bytes):
    mallory = poisoned.client(cast(Any, poisoned).mallory)
    assert mallory.post("/messages/send", content=raw).status_code == 400


def test_a_huge_body_is_refused_before_it_is_read(poisoned: Ringfence):
    mallory = poisoned.client(cast(Any, poisoned).mallory)
    answer = mallory.post("/messages/send", json={"to": "bob", "content": "x" * 2_000_000})
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/messages/{}/ack", "/api/v1/messages/{}/ack"])
@pytest.mark.parametrize(
    "message_id", ["x", "msg_", "%00", "%0a", "'%20or%201=1--", "a" * 5000, "..%2f..", "%ff", "*", "msg_%E2%80%AE"]
)
def test_an_odd_id_is_no_message(poisoned: Ringfence, path: str, message_id: str):
    mallory = poisoned.client(cast(Any, poisoned).mallory)
    for client in (mallory, poisoned.admin):
        assert client.post(path.format(message_id)).status_code in (400, 404)
        assert client.get(f"/api/v1/messages/{message_id}").status_code in (400, 404)


@pytest.mark.parametrize("body", [{"agent": ["bob"]}, {"agent": 1}, {"x": 1}, [], "x"])
def test_an_odd_acknowledgement_is_refused(poisoned: Ringfence, body: Any):
    mallory = poisoned.client(cast(Any, poisoned).mallory)
    sent = mallory.post("/api/v1/messages", json={"to": "mallory"}).json()
    assert mallory.post(f"/messages/{sent['id']}/ack", json=body).status_code == 400


# Other people's messages ----------------------------------------------------------------------------------------------


def test_knowing_the_id_of_others_messages_opens_nothing(either: Ringfence):
    alice, bob, mallory = (either.agent(name) for name in ("alice", "bob", "mallory"))
    sent = alice.post("/api/v1/messages", json={"to": "bob", "content": "the plan"}).json()
    attempts = [
        mallory.get(f"/api/v1/messages/{sent['id']}"),
        mallory.post(f"/messages/{sent['id']}/ack"),
        mallory.post(f"/messages/{sent['id']}/ack", json={"agent": "bob"}),
        mallory.post("/messages/send", json={"to": "mallory", "reply_to": sent["id"]}),
    ]
    assert [attempt.status_code for attempt in attempts] == [403] * 4
    assert all("the plan" not in attempt.text for attempt in attempts)
    for path in (f"/api/v1/threads/{sent['id']}", f"/api/v1/messages?thread={sent['id']}"):
        assert "the plan" not in mallory.get(path).text
    assert alice.get(f"/api/v1/messages/{sent['id']}").json()["thread"] is None, "no reply was counted"
    assert [message["content"] for message in bob.get("/messages/bob?unread=true").json()] == ["the plan"]


def test_joining_a_thread_by_its_name_shows_nothing_of_it(either: Ringfence):
    alice, bob, mallory = (either.agent(name) for name in ("alice", "bob", "mallory"))
    first = alice.post("/api/v1/messages", json={"to": "bob", "content": "the plan"}).json()
    bob.post("/api/v1/messages", json={"to": "alice", "content": "agreed", "reply_to": first["id"]})
    mallory.post("/api/v1/messages", json={"to": "mallory", "content": "hi", "thread": first["id"]})
    assert [m["content"] for m in mallory.get(f"/api/v1/threads/{first['id']}").json()["items"]] == ["hi"]
    assert [m["content"] for m in alice.get(f"/api/v1/threads/{first['id']}").json()["items"]] == ["the plan", "agreed"]
    assert mallory.get("/api/v1/threads").json()["items"][0]["messages"] == 1


def test_a_recipient_of_a_broadcast_sees_only_its_own_delivery(either: Ringfence):
    alice, bob, _ = (either.agent(name) for name in ("alice", "bob", "carol"))
    sent = alice.post("/api/v1/messages", json={"to": "*"}).json()
    detail = bob.get(f"/api/v1/messages/{sent['id']}").json()
    assert [delivery["recipient"] for delivery in detail["deliveries"]] == ["bob"]


def test_the_event_stream_shows_an_agent_only_its_own_messages(server: Ringfence):
    alice, _, mallory = (server.agent(name) for name in ("alice", "bob", "mallory"))
    alice.post("/messages/send", json={"to": "bob", "content": "the plan"})
    server.admin.post("/api/v1/messages", json={"to": "bob", "content": "the order"})
    alice.post("/messages/send", json={"to": "mallory", "content": "the end"})
    seen: list[str] = []
    with mallory.stream("GET", "/events", params={"after": 0, "kind": "message_sent"}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:])["content"])
            if seen and seen[-1] == "the end":
                break
    assert seen == ["the end"]


# Impersonation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["bob", "admin", "Mallory", "mallory ", "system", "human", "operator:admin", "*", "ghost"]
)
def test_an_agent_is_nobody_but_itself(poisoned: Ringfence, name: str):
    mallory = poisoned.client(cast(Any, poisoned).mallory)
    for path in ("/messages/send", "/api/v1/messages"):
        answer = mallory.post(path, json={"from": name, "to": "bob", "content": "trust me"})
        assert answer.status_code in (400, 403)
    assert "trust me" not in poisoned.admin.get("/messages/bob").text


def test_an_enrolment_token_reads_and_sends_nothing(server: Ringfence):
    made = server.admin.post("/api/v1/enrolments", json={"uses": 1})
    assert made.status_code == 201, made.text
    enrolment = server.client(made.json()["token"])
    assert enrolment.get("/messages/bob").status_code == 403
    assert enrolment.post("/messages/send", json={"from": "bob", "to": "bob"}).status_code == 403


def test_the_same_key_of_another_agent_replays_nothing_of_yours(server: Ringfence):
    alice, mallory = server.agent("alice"), server.agent("mallory")
    headers = {"idempotency-key": "guess"}
    first = alice.post("/messages/send", json={"to": "bob"}, headers=headers).json()
    second = mallory.post("/messages/send", json={"to": "bob"}, headers=headers).json()
    assert first["id"] != second["id"]


# Too much -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("servers", [1, 2])
def test_a_burst_from_many_connections_passes_the_rate_by_not_one(tmp_path, template, postgres_url: str, servers: int):
    """Two servers share one PostgreSQL."""
    with running(tmp_path / "one", database=postgres_url, message_rate=20) as one:
        token = one.admin.post("/agents/register", json={"name": "mallory"}).json()["token"]
        if servers == 1:
            assert burst([one], token) == 20
            return
        with running(tmp_path / "two", database=postgres_url, message_rate=20) as two:
            assert burst([one, two], token) == 20


def test_a_burst_passes_the_rate_by_not_one_on_sqlite(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=20) as server:
        token = server.admin.post("/agents/register", json={"name": "mallory"}).json()["token"]
        assert burst([server], token) == 20


def burst(servers: list[Ringfence], token: str) -> int:
    """How many of 80 messages, all at once, were taken."""
    together = threading.Barrier(16)

    def five(number: int) -> int:
        server = servers[number % len(servers)]
        with httpx.Client(
            base_url=server.url, headers={"authorization": f"Bearer {token}"}, trust_env=False, verify=False
        ) as client:
            together.wait()
            statuses = [client.post("/messages/send", json={"to": "bob"}).status_code for _ in range(5)]
        assert set(statuses) <= {200, 429}
        return statuses.count(200)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return sum(pool.map(five, range(16)))


def test_an_inbox_full_of_the_largest_messages_comes_in_bounded_answers(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=0) as server:
        mallory, bob = server.agent("mallory"), server.agent("bob")
        for _ in range(200):
            mallory.post("/messages/send", json={"to": "bob", "content": "x" * 65536}).raise_for_status()
        for path in ("/messages/bob?unread=true", "/messages/bob", "/messages/history/bob/mallory?limit=1000"):
            answer = bob.get(path)
            assert len(answer.content) < 5_000_000
            assert "next" in answer.links, "and the rest can be asked for"
        found: set[str] = set()
        url = "/messages/bob?unread=true"
        while url:
            answer = bob.get(url)
            found |= {message["id"] for message in answer.json()}
            url = answer.links.get("next", {}).get("url", "")
        assert len(found) == 200


def test_messages_to_made_up_names_do_not_grow_the_graph(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=0) as server:
        mallory = server.agent("mallory")
        for _ in range(50):
            mallory.post("/messages/send", json={"to": new("x")})
        assert server.admin.get("/messages/graph").json()["edges"] == []


def test_a_clock_set_back_does_not_lock_a_sender_out_for_long(tmp_path, template):
    with running(tmp_path / "data", template, message_rate=1) as server:
        alice = server.agent("alice")
        server.clock.advance(3600)
        assert alice.post("/messages/send", json={"to": "bob"}).status_code == 200
        server.clock.advance(-3600)
        assert alice.post("/messages/send", json={"to": "bob"}).status_code == 200
        refused = alice.post("/messages/send", json={"to": "bob"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) <= 60
