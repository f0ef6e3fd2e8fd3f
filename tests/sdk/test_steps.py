"""Both twins offer the same, documented methods; each is written once."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ringfence
from ringfence import AgentClient, AsyncAgentClient, AsyncClient, Client
from ringfence.sdk.steps import operation

# reference/hub.md, section 6: the hub's own client.
DOCUMENTED = {
    "register": "(metadata=None)",
    "ensure_registered": "(metadata=None)",
    "unregister": "()",
    "heartbeat": "()",
    "send_message": "(to, content, message_type='text')",
    "get_messages": "(unread_only=False)",
    "process_inbox": "(handler, unread_only=True, auto_ack=True, max_messages=None)",
    "wait_for_messages": "(timeout_seconds=30.0, poll_interval=1.0, unread_only=True)",
    "run_autonomous_loop": "(handler, poll_interval=2.0, heartbeat_interval=10.0, stop_event=None, metadata=None, "
    "auto_ack=True)",
    "ack": "(message_id)",
    "create_project": "(name)",
    "list_projects": "(agent=None)",
    "join_project": "(project_id)",
    "upload_file": "(project_id, filename, content)",
    "download_file": "(project_id, filename)",
    "create_task": "(project_id, title, description, assigned_to=None)",
    "update_task": "(project_id, task_id, status)",
    "transition_task": "(project_id, task_id, new_status, blocked_reason=None, blocked_by=None)",
    "claim_task": "(project_id, task_id)",
    "set_autonomy_mode": "(mode)",
    "set_capabilities": "(tags, description='')",
    "submit_checkpoint": "(task_id=None, state='', rationale='', metadata=None)",
    "get_my_tasks": "(project_id=None)",
    "check_revocation": "()",
    "acknowledge_revocation": "(revocation_id)",
    "start_heartbeat": "(interval=10)",
    "stop_heartbeat": "()",
}
ACCEPTED_TOO: dict[str, dict[str, Any]] = {"create_task": {"description": ""}, "join_project": {"agent": None}}


@pytest.mark.parametrize("kind", [AgentClient, AsyncAgentClient])
@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_method_takes_what_is_documented(kind: type, name: str) -> None:
    expected = _documented(DOCUMENTED[name])
    client = kind("http://hub:8080", "claude", "claude")
    found = inspect.signature(getattr(client, name)).parameters
    positional = [one for one in found.values() if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert [one.name for one in positional][: len(expected)] == list(expected)
    beyond = {one.name: one.default for one in positional[len(expected) :]}
    also = ACCEPTED_TOO.get(name, {})
    assert beyond == {key: value for key, value in also.items() if key not in expected}
    for one in positional[: len(expected)]:
        assert one.default == also.get(one.name, expected[one.name])
    assert all(one.default is not one.empty for one in found.values() if one.kind is one.KEYWORD_ONLY)


def _documented(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"E": inspect.Parameter.empty}
    exec(f"def described{text}: ...", names)
    return {one.name: one.default for one in inspect.signature(names["described"]).parameters.values()}


@pytest.mark.parametrize(("blocking", "awaiting"), [(AgentClient, AsyncAgentClient), (Client, AsyncClient)])
def test_both_twins_have_the_same_methods_with_the_same_signatures(blocking: type, awaiting: type) -> None:
    for name in (name for name in dir(blocking) if not name.startswith("_")):
        assert hasattr(awaiting, name), f"{awaiting.__name__} lacks {name}"
        one, other = getattr(blocking, name), getattr(awaiting, name)
        if isinstance(one, operation):
            assert one is other
        elif callable(one) and name != "events":
            mine, theirs = inspect.signature(one).parameters, inspect.signature(other).parameters
            assert list(mine) == list(theirs), name
            assert inspect.iscoroutinefunction(other), name


def test_attributes_are_as_documented() -> None:
    client = AgentClient("http://hub:8080/", "claude", "codex")
    assert (client.hub_url, client.agent_name, client.agent_type) == ("http://hub:8080", "claude", "codex")
    assert AgentClient("http://hub:8080", "claude").agent_type == "unknown"


def test_a_url_without_a_scheme_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="'hub:8080' is no URL"):
        AgentClient("hub:8080", "claude")


def test_methods_carry_their_documentation() -> None:
    client = AgentClient("http://hub:8080", "claude")
    assert "one gets it" in (client.claim_task.__doc__ or "")
    assert str(inspect.signature(client.claim_task)).startswith("(project_id: str, task_id: str)")


def test_a_method_can_be_called_on_the_class() -> None:
    client = AgentClient("http://127.0.0.1:9", "claude", retries=0)
    assert AgentClient.heartbeat(client) is False


@pytest.mark.parametrize("kind", [AgentClient, Client])
def test_every_method_is_in_the_documentation(kind: type) -> None:
    text = (Path(__file__).parents[2] / "docs/sdk.md").read_text()
    named = set(re.findall(r"`(\w+)[(`]", text)) | set(re.findall(r"\.(\w+)\(", text))
    public = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    assert public - named <= {"close"}


def test_the_server_does_not_load_the_client() -> None:
    program = "import sys, ringfence, ringfence.app; print([name for name in sys.modules if 'ringfence.sdk' in name])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_client_does_not_load_the_server() -> None:
    program = (
        "import sys; from ringfence import AgentClient; "
        "print([name for name in sys.modules if name.startswith(('ringfence.', 'sqlalchemy', 'starlette', 'pydantic'))"
        " and not name.startswith('ringfence.sdk')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_package_says_what_it_has() -> None:
    assert {"AgentClient", "AsyncAgentClient", "Client", "AsyncClient", "__version__"} <= set(dir(ringfence))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        ringfence.Nonsense  # noqa: B018
