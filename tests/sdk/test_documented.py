"""The examples of seed 000's document, word for word but for the package's name and the server's address."""

import threading
from typing import Any

import pytest

from ringfence import AgentClient
from tests.harness import Ringfence
from tests.sdk.conftest import DEADLINE

QUICK_START = """
from spokes import AgentClient
client = AgentClient("http://hub:8080", "claude", "claude")
client.register()
# Declare capabilities
client.set_capabilities(["code", "review", "testing"])
# Set autonomy mode
client.set_autonomy_mode("fully_autonomous")
# Claim and work on tasks
client.claim_task(project_id, task_id)
# Submit checkpoints (every N heartbeat cycles)
client.submit_checkpoint(task_id=task_id, state="implementing feature X", rationale="user story #42")
# Check for revocation directives
rev = client.check_revocation()
if rev["pending"]:
    client.acknowledge_revocation(rev["revocation_id"])
    # re-register and resume
# KanBan transitions
client.transition_task(project_id, task_id, "in_review")
# Send messages
client.send_message(to="hermes", content="PR #42 ready for review")
client.start_heartbeat(interval=10)
"""

LOOP = """
from spokes import AgentClient
client = AgentClient("http://hub:8080", "copilot", "codex")
def handle_message(msg: dict):
    print(f"[{msg['from']}] {msg['content']}")
client.run_autonomous_loop(
    handler=handle_message,
    poll_interval=2.0,
    heartbeat_interval=10.0,
    metadata={"role": "coding-assistant"},
)
"""


class EndOfDay(BaseException):
    """How the test leaves a loop that has no end of its own."""


def as_here(text: str, server: Ringfence) -> str:
    return text.replace("from spokes", "from ringfence").replace("http://hub:8080", server.url)


@pytest.fixture
def with_a_token(server: Ringfence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_TOKEN", server.admin_token)


@pytest.mark.usefixtures("with_a_token")
def test_the_quick_start(server: Ringfence) -> None:
    project = server.admin.post("/projects", json={"name": "p", "creator": "admin"}).json()["id"]
    body = {"title": "feature X", "required_capabilities": ["code"], "status": "ready"}
    task = server.admin.post(f"/projects/{project}/tasks", json=body).json()["id"]
    names: dict[str, Any] = {"project_id": project, "task_id": task}
    exec(as_here(QUICK_START, server), names)
    names["client"].close()
    found = server.admin.get(f"/api/v1/tasks/{task}").json()
    assert (found["status"], found["assigned_to"]) == ("in_review", "claude")
    agent = server.admin.get("/api/v1/crew/claude").json()
    assert (agent["type"], agent["capabilities"]) == ("claude", ["code", "review", "testing"])
    assert agent["checkpoint_sequence"] == 1
    (message,) = server.admin.get("/messages/hermes").json()
    assert (message["from"], message["content"]) == ("claude", "PR #42 ready for review")


@pytest.mark.usefixtures("with_a_token")
def test_the_quick_start_of_a_revoked_agent(server: Ringfence) -> None:
    """Between two lines of the example an operator revokes; the directive is seen, acknowledged, and in the history."""
    client = AgentClient(server.url, "claude", "claude")
    client.register()
    server.admin.post("/agents/claude/revoke", json={"reason": "policy violation"})
    rev = client.check_revocation()
    assert rev["pending"]
    assert client.acknowledge_revocation(rev["revocation_id"]) is True
    (entry,) = server.admin.get("/revocation/history").json()
    assert entry["acknowledged"] is True
    client.close()


@pytest.mark.usefixtures("with_a_token")
def test_the_autonomous_loop(server: Ringfence) -> None:
    printed: list[str] = []
    ended = threading.Event()

    def say(text: str) -> None:
        printed.append(text)
        raise EndOfDay

    def run() -> None:
        try:
            exec(as_here(LOOP, server), {"print": say})
        except EndOfDay:
            ended.set()

    with AgentClient(server.url, "hermes") as hermes:
        hermes.register()
        hermes.send_message("copilot", "please review")
        threading.Thread(target=run, daemon=True).start()
        assert ended.wait(DEADLINE)
    assert printed == ["[hermes] please review"]
    agent = server.admin.get("/api/v1/crew/copilot").json()
    assert (agent["type"], agent["metadata"]) == ("codex", {"role": "coding-assistant"})


@pytest.mark.usefixtures("with_a_token")
def test_the_related_helpers(server: Ringfence) -> None:
    with AgentClient(server.url, "copilot", "codex") as client:
        handled: list[str] = []
        assert client.ensure_registered(metadata={"role": "coding-assistant"}) is True
        client.send_message("copilot", "to myself")
        (message,) = client.wait_for_messages(timeout_seconds=30)
        assert message["content"] == "to myself"
        assert client.process_inbox(lambda msg: handled.append(msg["content"]), unread_only=True, auto_ack=True) == 1
        assert handled == ["to myself"]
