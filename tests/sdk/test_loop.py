"""`run_autonomous_loop`: each message once, whatever happens to the server, the handler, or the agent."""

import asyncio
import logging
import threading
from typing import Any

import httpx
import pytest

from ringfence import AgentClient, AsyncAgentClient
from ringfence.sdk import errors
from tests.harness import Ringfence
from tests.sdk.conftest import DEADLINE, Lossy, Seen, Twin

HEARTBEAT = "/agents/claude/heartbeat"
STANDING = "/api/v1/crew/claude"
INBOX = "/api/v1/messages"


@pytest.fixture
def hermes(server: Ringfence) -> Any:
    """Somebody who writes; always by the blocking client."""
    with AgentClient(server.url, "hermes", token=server.admin_token) as client:
        client.register()
        yield client


def unread(server: Ringfence) -> list[str]:
    found = server.admin.get("/messages/claude", params={"unread": "true"}).json()
    return [message["content"] for message in found]


def test_messages_are_handled_in_order_and_acknowledged(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen
) -> None:
    running = twin.run(twin.agent(), seen, metadata={"role": "tester"})
    sent = [f"m{number}" for number in range(20)]
    for content in sent:
        hermes.send_message("claude", content)
    seen.wait(*sent)
    running.stop()
    assert seen.contents == sent
    assert unread(server) == []
    assert server.admin.get(STANDING).json()["metadata"] == {"role": "tester"}


def test_a_restart_in_the_middle_loses_nothing_and_repeats_nothing(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen
) -> None:
    running = twin.run(twin.agent(), seen)
    sent = [f"m{number}" for number in range(30)]
    begun = threading.Event()

    def write() -> None:
        for number, content in enumerate(sent):
            hermes.send_message("claude", content)
            if number == 3:
                begun.set()

    writing = threading.Thread(target=write)
    writing.start()
    assert begun.wait(DEADLINE)
    server.restart()
    server.restart()
    writing.join(DEADLINE)
    hermes.send_message("claude", "the last")
    seen.wait(*sent, "the last")
    running.stop()
    assert sorted(seen.contents) == sorted([*sent, "the last"])
    assert unread(server) == []


def test_a_server_that_is_away_for_longer_than_any_retry_is_waited_for(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen
) -> None:
    transport = Lossy()
    running = twin.run(twin.agent(transport=transport, retries=0), seen)
    transport.wait_for(INBOX, 1)
    server.stop()
    failed = transport.asked(STANDING) + 5
    transport.wait_for(STANDING, failed)
    server.start()
    hermes.send_message("claude", "welcome back")
    seen.wait("welcome back")
    running.stop()


def test_a_message_whose_acknowledgement_fails_is_not_handled_again(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen
) -> None:
    class Deaf(Lossy):
        """Acknowledgements do not get through at first."""

        broken = 3

        def refuses(self, request: httpx.Request) -> bool:
            if not request.url.path.endswith("/ack") or self.broken <= 0:
                return False
            self.broken -= 1
            return True

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if self.refuses(request):
                return httpx.Response(500)
            return super().handle_request(request)

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if self.refuses(request):
                return httpx.Response(500)
            return await super().handle_async_request(request)

    transport = Deaf()
    running = twin.run(twin.agent(transport=transport), seen)
    message = hermes.send_message("claude", "once")
    transport.wait_for(f"/messages/{message['id']}/ack", 1)
    hermes.send_message("claude", "after it")
    seen.wait("once", "after it")
    running.stop()
    assert seen.contents == ["once", "after it"]
    assert transport.broken == 0
    assert unread(server) == []


def test_a_message_that_came_in_the_last_moment_of_an_answer_is_handled_once(
    twin: Twin, hermes: AgentClient, seen: Seen
) -> None:
    transport = Lossy(chooses=lambda request: request.url.path == INBOX or request.url.path.endswith("/ack"))
    running = twin.run(twin.agent(transport=transport), seen)
    sent = [f"m{number}" for number in range(6)]
    for content in sent:
        transport.losses = 2
        hermes.send_message("claude", content)
        seen.wait(content)
    running.stop()
    assert seen.contents == sent


def test_a_handler_that_raises_is_tried_again_while_others_are_handled(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []

    def handle(message: Any) -> None:
        tries.append(message["content"])
        if message["content"] == "flaky" and tries.count("flaky") < 3:
            raise ZeroDivisionError("not yet")
        seen(message)

    with caplog.at_level(logging.ERROR, "ringfence.sdk"):
        running = twin.run(twin.agent(), handle)
        hermes.send_message("claude", "flaky")
        hermes.send_message("claude", "good")
        seen.wait("good", "flaky")
        running.stop()
    assert seen.contents == ["good", "flaky"]
    assert tries.count("flaky") == 3
    assert unread(server) == []
    assert "ZeroDivisionError: not yet" in caplog.text
    assert "it will be tried again" in caplog.text


def test_a_handler_that_never_succeeds_leaves_the_message_unread(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    tries = threading.Semaphore(0)

    def handle(message: Any) -> None:
        if message["content"] == "poison":
            tries.release()
            raise ZeroDivisionError
        seen(message)

    with caplog.at_level(logging.ERROR, "ringfence.sdk"):
        running = twin.run(twin.agent(), handle)
        hermes.send_message("claude", "poison")
        for _ in range(4):
            assert tries.acquire(timeout=DEADLINE)
        for number in range(3):  # further rounds of the loop
            hermes.send_message("claude", f"m{number}")
            seen.wait(f"m{number}")
        running.stop()
    assert not tries.acquire(blocking=False)
    assert unread(server) == ["poison"]
    assert "given up: the message stays unread" in caplog.text


def test_without_auto_ack_a_message_is_handled_once_and_stays_unread(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen
) -> None:
    transport = Lossy()
    running = twin.run(twin.agent(transport=transport), seen, auto_ack=False)
    hermes.send_message("claude", "m")
    seen.wait("m")
    transport.wait_for(INBOX, transport.asked(INBOX) + 3)
    running.stop()
    assert seen.contents == ["m"]
    assert unread(server) == ["m"]


def test_heartbeats_go_on_while_a_handler_takes_long(server: Ringfence, hermes: AgentClient) -> None:
    transport, handled = Lossy(), threading.Event()

    def handle(message: Any) -> None:
        transport.wait_for(HEARTBEAT, transport.asked(HEARTBEAT) + 4)
        handled.set()

    stop = threading.Event()
    with AgentClient(server.url, "claude", token=server.admin_token, transport=transport) as agent:
        loop = threading.Thread(target=agent.run_autonomous_loop, args=(handle, 0.05, 0.05, stop))
        loop.start()
        hermes.send_message("claude", "long work")
        assert handled.wait(DEADLINE)
        stop.set()
        loop.join(DEADLINE)
        assert not loop.is_alive()


async def test_heartbeats_go_on_while_a_coroutine_takes_long(server: Ringfence) -> None:
    transport, handled = Lossy(), asyncio.Event()

    async def handle(message: dict[str, Any]) -> None:
        await asyncio.to_thread(transport.wait_for, HEARTBEAT, transport.asked(HEARTBEAT) + 4)
        handled.set()

    async with AsyncAgentClient(server.url, "claude", token=server.admin_token, transport=transport) as agent:
        await agent.register()
        await agent.send_message("claude", "long work")
        stop = asyncio.Event()
        loop = asyncio.create_task(agent.run_autonomous_loop(handle, 0.05, 0.05, stop))
        await asyncio.wait_for(handled.wait(), DEADLINE)
        stop.set()
        await asyncio.wait_for(loop, DEADLINE)


def test_a_loop_stops_at_once(twin: Twin) -> None:
    transport = Lossy()
    running = twin.run(
        twin.agent(transport=transport), lambda message: None, poll_interval=3600.0, heartbeat_interval=3600.0
    )
    transport.wait_for(INBOX, 1)
    running.stop()
    assert running.took < 1.5


def test_a_loop_stops_between_two_messages(twin: Twin, server: Ringfence, hermes: AgentClient) -> None:
    for number in range(5):
        hermes.send_message("claude", f"m{number}")
    handled: list[str] = []
    first = threading.Event()

    def handle(message: Any) -> None:
        handled.append(message["content"])
        running.request_stop()
        first.set()

    running = twin.run(twin.agent(), handle)
    assert first.wait(DEADLINE)
    running.stop()
    assert handled == ["m0"]
    assert unread(server) == ["m1", "m2", "m3", "m4"]


def test_a_loop_stops_while_the_server_is_away(twin: Twin, server: Ringfence) -> None:
    transport = Lossy()
    running = twin.run(twin.agent(transport=transport), lambda message: None)
    transport.wait_for(INBOX, 1)
    server.stop()
    transport.wait_for(STANDING, transport.asked(STANDING) + 2)
    running.stop()
    assert running.took < 2
    server.start()


async def test_a_cancelled_loop_leaves_nothing_behind(server: Ringfence) -> None:
    transport = Lossy()
    async with AsyncAgentClient(server.url, "claude", token=server.admin_token, transport=transport) as agent:
        loop = asyncio.create_task(agent.run_autonomous_loop(lambda message: None, 0.05, 0.05))
        await asyncio.to_thread(transport.wait_for, INBOX, 2)
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_an_agent_that_cannot_be_registered_does_not_begin(twin: Twin) -> None:
    running = twin.run(twin.agent(token="rfag_wrong"), lambda message: None)
    assert running.ended.wait(DEADLINE)
    assert isinstance(running.error, errors.NotRegistered)
    assert isinstance(running.error, RuntimeError)
    assert isinstance(running.error.__cause__, errors.Unauthenticated)


def test_an_agent_that_the_server_forgot_registers_again(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen
) -> None:
    agent = twin.agent()
    running = twin.run(agent, seen)
    hermes.send_message("claude", "before")
    seen.wait("before")
    agent.set_capabilities(["code"])
    assert server.admin.delete("/agents/claude").status_code == 200
    hermes.send_message("claude", "after")
    seen.wait("after")
    running.stop()
    assert server.admin.get(STANDING).json()["capabilities"] == ["code"]
    assert seen.contents == ["before", "after"]


def test_an_agent_whose_only_token_was_revoked_ends(twin: Twin, server: Ringfence) -> None:
    token = server.admin.post("/agents/register", json={"name": "claude"}).json()["token"]
    transport = Lossy()
    running = twin.run(twin.agent(token=token, transport=transport), lambda message: None)
    transport.wait_for(INBOX, 1)
    server.admin.delete("/agents/claude")
    assert running.ended.wait(DEADLINE)
    assert isinstance(running.error, errors.Unauthenticated)


def test_a_paused_agent_waits(twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen) -> None:
    transport = Lossy()
    running = twin.run(twin.agent(transport=transport), seen)
    hermes.send_message("claude", "before")
    seen.wait("before")
    server.admin.post("/agents/claude/pause", json={"reason": "reviewing"})
    transport.wait_for(STANDING, transport.asked(STANDING) + 2)
    hermes.send_message("claude", "while paused")
    transport.wait_for(STANDING, transport.asked(STANDING) + 4)
    assert seen.contents == ["before"]
    server.admin.post("/agents/claude/resume")
    seen.wait("while paused")
    running.stop()


def test_a_revoked_agent_halts_acknowledges_and_begins_again(
    twin: Twin, server: Ringfence, hermes: AgentClient, seen: Seen
) -> None:
    told: list[Any] = []
    halted, go_on = threading.Event(), threading.Event()

    def on_revocation(directive: Any) -> None:
        told.append(directive)
        halted.set()
        if twin.loop is None:
            assert go_on.wait(DEADLINE)

    running = twin.run(twin.agent(), seen, on_revocation=on_revocation)
    hermes.send_message("claude", "before")
    seen.wait("before")
    revoked = server.admin.post("/agents/claude/revoke", json={"reason": "policy violation"}).json()
    assert halted.wait(DEADLINE)
    go_on.set()
    hermes.send_message("claude", "after")
    if "after" in unread(server):  # not set aside: it came after the flush
        seen.wait("after")
    running.stop()
    assert [directive["revocation_id"] for directive in told] == [revoked["revocation_id"]]
    assert told[0]["reason"] == "policy violation"
    (recorded,) = server.admin.get("/revocation/history").json()
    assert recorded["acknowledged"] is True
    assert server.admin.get(STANDING).json()["revocation_id"] is None


def test_nothing_more_is_handled_once_an_agent_is_revoked(twin: Twin, server: Ringfence, hermes: AgentClient) -> None:
    """The directive comes while the first of several messages is being handled."""
    handled: list[str] = []
    halted = threading.Event()

    def handle(message: Any) -> None:
        handled.append(message["content"])
        if message["content"] == "m0":
            server.admin.post("/agents/claude/revoke", json={"reason": "stop"})

    for number in range(3):
        hermes.send_message("claude", f"m{number}")
    running = twin.run(twin.agent(), handle, poll_interval=0.0, on_revocation=lambda directive: halted.set())
    assert halted.wait(DEADLINE)
    running.stop()
    assert handled == ["m0"]


def test_a_revocation_callback_that_fails_ends_the_loop_unacknowledged(twin: Twin, server: Ringfence) -> None:
    def on_revocation(directive: Any) -> None:
        raise ZeroDivisionError

    transport = Lossy()
    running = twin.run(twin.agent(transport=transport), lambda message: None, on_revocation=on_revocation)
    transport.wait_for(INBOX, 1)
    server.admin.post("/agents/claude/revoke", json={})
    assert running.ended.wait(DEADLINE)
    assert isinstance(running.error, ZeroDivisionError)
    assert server.admin.get(STANDING).json()["revocation_id"] is not None


def test_two_loops_of_one_client_handle_a_message_once(twin: Twin, hermes: AgentClient, seen: Seen) -> None:
    agent = twin.registered()
    runs = [twin.run(agent, seen) for _ in range(2)]
    sent = [f"m{number}" for number in range(20)]
    for content in sent:
        hermes.send_message("claude", content)
    seen.wait(*sent)
    for running in runs:
        running.stop()
    assert sorted(seen.contents) == sorted(sent)
