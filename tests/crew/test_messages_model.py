"""Inboxes against a model of them: whatever agents do in whatever order, each sees what the model says."""

import math
from dataclasses import dataclass, field
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ringfence.crew.messages.model import EVERYBODY
from ringfence.kernel.auth.model import Role
from ringfence.kernel.housekeeping import Chore
from tests.harness import Ringfence, running

TTL = 7 * 86400
names = st.sampled_from(["ada", "bob", "cyd"])
contents = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: not any(mark in text for mark in ":/.@")  # links are another test's matter
)


@dataclass
class Copy:
    """One recipient's copy of a message."""

    id: str
    sender: str
    content: str
    expires_at: float
    thread: str | None
    acknowledged: bool = False
    delivered: bool = False
    set_aside: bool = False


@dataclass
class World:
    now: float = 0.0
    inboxes: dict[str, list[Copy]] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)


class Inboxes(RuleBasedStateMachine):
    server: Ringfence
    runs = 0

    @initialize()
    def begin(self) -> None:
        """Each run has names of its own, so that all share one server."""
        type(self).runs += 1
        self.prefix = f"r{self.runs}-"
        self.world = World()
        self.clients: dict[str, httpx.Client] = {}
        for other in self.server.admin.get("/agents").json():
            self.server.admin.delete(f"/agents/{other['name']}")
        for name in ("ada", "bob"):
            self.register(name)

    def full(self, name: str) -> str:
        return self.prefix + name

    def register(self, name: str) -> None:
        self.clients[name] = self.server.agent(self.full(name))
        self.world.registered.append(name)

    @rule()
    @precondition(lambda self: "cyd" not in self.world.registered)
    def another_agent_comes(self) -> None:
        self.register("cyd")

    @rule(sender=names, to=names, content=contents, lives=st.none() | st.integers(100, 300), thread=st.booleans())
    def send(self, sender: str, to: str, content: str, lives: int | None, thread: bool) -> None:
        self._send(sender, [to], self.full(to), content, lives, "shared" if thread else None)

    @rule(sender=names, content=contents, lives=st.none() | st.integers(100, 300))
    def broadcast(self, sender: str, content: str, lives: int | None) -> None:
        others = [name for name in self.world.registered if name != sender]
        self._send(sender, others, EVERYBODY, content, lives, None)

    def _send(
        self, sender: str, recipients: list[str], to: str, content: str, lives: int | None, thread: str | None
    ) -> None:
        if sender not in self.clients:
            return
        body: dict[str, Any] = {"to": to, "content": content}
        body |= {"expires_in": lives} if lives else {}
        body |= {"thread": thread} if thread else {}
        answer = self.clients[sender].post("/api/v1/messages", json=body)
        assert answer.status_code == 201, answer.text
        for recipient in recipients:
            copy = Copy(answer.json()["id"], sender, content, self.world.now + (lives or TTL), thread)
            self.world.inboxes.setdefault(recipient, []).append(copy)

    @rule(name=names, which=st.integers(0, 30), times=st.integers(1, 2))
    def acknowledge(self, name: str, which: int, times: int) -> None:
        copies = self.world.inboxes.get(name, [])
        if name not in self.clients or not copies:
            return
        copy = copies[which % len(copies)]
        for _ in range(times):
            answer = self.clients[name].post(f"/messages/{copy.id}/ack")
            assert answer.status_code == 200, answer.text
        copy.acknowledged = True

    @rule(thief=names, owner=names, which=st.integers(0, 30))
    def acknowledge_for_another(self, thief: str, owner: str, which: int) -> None:
        copies = self.world.inboxes.get(owner, [])
        if thief not in self.clients or not copies:
            return
        copy = copies[which % len(copies)]
        if any(own.id == copy.id for own in self.world.inboxes.get(thief, [])):
            return
        assert self.clients[thief].post(f"/messages/{copy.id}/ack").status_code == 403

    @rule(name=names)
    def read(self, name: str) -> None:
        if name not in self.clients:
            return
        answer = self.clients[name].get(f"/messages/{self.full(name)}").json()
        copies = self.world.inboxes.get(name, [])
        for copy in copies:
            copy.delivered = True
        assert [(m["id"], m["from"], m["content"], m["acknowledged"], m["delivered"]) for m in answer] == [
            (copy.id, self.full(copy.sender), copy.content, copy.acknowledged, True) for copy in copies
        ]

    @rule(name=names)
    def flush(self, name: str) -> None:
        """Its unread messages are set aside, those that have expired too."""
        if name not in self.clients:
            return
        revoked = self.server.admin.post(f"/agents/{self.full(name)}/revoke", json={"flush_required": True}).json()
        acknowledged = self.clients[name].post(
            f"/agents/{self.full(name)}/revocation/ack", json={"revocation_id": revoked["revocation_id"]}
        )
        assert acknowledged.status_code == 200
        for copy in self.world.inboxes.get(name, []):
            copy.set_aside = copy.set_aside or not copy.acknowledged

    @rule(seconds=st.sampled_from([1, 5, 45, 200]))
    def wait(self, seconds: int) -> None:
        """Time passes; to the model the moments in between do not exist, so it never stops close to an expiry."""
        self.server.clock.advance(seconds * 1000)
        self.world.now += seconds * 1000

    @rule()
    def tidy(self) -> None:
        while self.server.write(removal(self.server).do):
            pass
        gone = self.world.now - 60
        for name, copies in self.world.inboxes.items():
            self.world.inboxes[name] = [
                copy for copy in copies if copy.acknowledged or copy.set_aside or copy.expires_at > gone
            ]

    @invariant()
    def unread_is_what_nobody_acknowledged_and_still_lives(self) -> None:
        for name, client in self.clients.items():
            answer = client.get(f"/messages/{self.full(name)}", params={"unread": "true"}).json()
            expected = [
                (copy.id, copy.content, copy.delivered)
                for copy in self.world.inboxes.get(name, [])
                if not copy.acknowledged and not copy.set_aside and copy.expires_at > self.world.now
            ]
            assert [(m["id"], m["content"], m["delivered"]) for m in answer] == expected

    @invariant()
    def a_thread_holds_what_was_sent_into_it(self) -> None:
        for name, client in self.clients.items():
            answer = client.get("/api/v1/messages", params={"thread": "shared", "unread": "true"}).json()
            expected = [
                copy.id
                for copy in self.world.inboxes.get(name, [])
                if copy.thread and not copy.acknowledged and not copy.set_aside and copy.expires_at > self.world.now
            ]
            assert [m["id"] for m in answer["items"]] == expected


def removal(server: Ringfence) -> Chore:
    [chore] = [chore for chore in server.house.housekeeping._chores if chore.name == "messages"]
    return chore


def test_an_inbox_is_what_the_model_says(tmp_path, template):
    config: dict[str, Any] = {
        "message_rate": 0,
        "message_ttl_days": TTL / 86400,
        "token_days": 36500,
        "keep_messages_days": 0,
    }
    with running(tmp_path / "data", template, **config) as server:
        server.admin = server.client(server.token("root", Role.ADMIN, lives=None))
        removal(server).every = removal(server).due = math.inf  # the model says when
        machine = type("Here", (Inboxes,), {"server": server})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=40,
                stateful_step_count=30,
                deadline=None,
                phases=[Phase.reuse, Phase.generate],  # shrinking 30 steps over HTTP takes minutes
                suppress_health_check=list(HealthCheck),
            ),
        )
