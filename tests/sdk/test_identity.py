"""Which token is sent, which is kept, and who one is afterwards."""

import json
import stat
from pathlib import Path

import httpx
import pytest

from ringfence import AgentClient
from ringfence.sdk.errors import Conflict, NotRegistered, Unauthenticated
from ringfence.sdk.identity import Identity, Kept, state_folder
from tests.harness import Ringfence
from tests.sdk.conftest import Lossy, Twin


def enrolment(server: Ringfence, uses: int = 1) -> str:
    return str(server.admin.post("/api/v1/enrolments", json={"uses": uses}).json()["token"])


def actor_of_last(server: Ringfence, kind: str) -> tuple[str, str | None]:
    event = server.admin.get("/api/v1/audit", params={"kind": kind, "limit": 1}).json()["items"][0]
    return event["actor"], event["via"]


def test_an_operators_token_registers_the_agent_which_then_is_itself(twin: Twin, server: Ringfence) -> None:
    agent = twin.agent()
    registered = agent.register()
    assert registered["token"].startswith("rfag_")
    agent.create_project("mine")
    assert actor_of_last(server, "project_created") == ("agent:claude", None)


def test_an_operators_token_comes_from_the_environment_too(
    twin: Twin, server: Ringfence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGFENCE_TOKEN", server.admin_token)
    agent = twin.agent(token=None)
    assert agent.ensure_registered()
    agent.create_project("mine")
    assert actor_of_last(server, "project_created") == ("agent:claude", None)


def test_an_enrolment_token_registers_and_the_next_process_is_the_same_agent(
    twin: Twin, server: Ringfence, alone: Path
) -> None:
    first = twin.agent(enrolment=enrolment(server))
    assert first.register()["token"]
    second = twin.agent(enrolment="rfen_used_up")
    assert second.ensure_registered()
    second.create_project("mine")
    assert actor_of_last(server, "project_created") == ("agent:claude", None)
    third = twin.agent(token=None)
    assert third.heartbeat()


def test_the_enrolment_token_comes_from_the_environment_too(
    twin: Twin, server: Ringfence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGFENCE_ENROLMENT", enrolment(server))
    assert twin.agent(token=None).ensure_registered()


def test_an_enrolment_token_given_as_token_is_taken_for_what_it_is(twin: Twin, server: Ringfence) -> None:
    assert twin.agent(token=enrolment(server)).ensure_registered()


def test_a_kept_token_is_readable_by_its_owner_only(server: Ringfence, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "agents"
    with AgentClient(server.url, "a b/c", enrolment="rfen_x", state_dir=folder):
        pass
    agent = AgentClient(server.url, "claude", enrolment=enrolment(server), state_dir=folder)
    agent.register()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert json.loads(file.read_text())["token"].startswith("rfag_")
    agent.close()


def test_tokens_are_kept_apart_by_server_and_name(tmp_path: Path) -> None:
    places = [("http://a", "x"), ("http://b", "x"), ("http://a", "X"), ("http://a", "x/../x"), ("http://a", "é")]
    for url, name in places:
        Kept(tmp_path, url, name).keep(f"{url} {name}")
    assert [Kept(tmp_path, url, name).token() for url, name in places] == [f"{url} {name}" for url, name in places]
    assert len(list(tmp_path.iterdir())) == len(places)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"token": "x"}', '{"url": "http://b", "agent": "x", "token": "t"}']
)
def test_a_file_that_is_not_ours_is_no_token(tmp_path: Path, content: str) -> None:
    kept = Kept(tmp_path, "http://a", "x")
    kept.path.write_text(content)
    assert kept.token() is None


def test_leaving_forgets_the_kept_token(twin: Twin, server: Ringfence, alone: Path) -> None:
    agent = twin.agent(enrolment=enrolment(server))
    agent.register()
    assert len(list((alone / "agents").iterdir())) == 1
    assert agent.unregister() is True
    assert list((alone / "agents").iterdir()) == []


def test_a_kept_token_that_was_revoked_gives_way_to_the_enrolment(twin: Twin, server: Ringfence) -> None:
    agent = twin.agent(enrolment=enrolment(server))
    agent.register()
    assert server.admin.delete("/agents/claude").status_code == 200
    again = twin.agent(enrolment=enrolment(server))
    assert again.ensure_registered()
    assert again.heartbeat()


def test_two_processes_with_one_enrolment_are_one_agent(twin: Twin, server: Ringfence) -> None:
    token = enrolment(server, uses=2)
    one, other = twin.agent(enrolment=token), twin.agent(enrolment=token)
    one.register()
    assert other.ensure_registered()
    assert other._identity.token == one._identity.token


def test_an_enrolment_cannot_take_the_name_of_somebody_else(twin: Twin, server: Ringfence, tmp_path: Path) -> None:
    twin.registered("claude")
    stranger = twin.agent("claude", enrolment=enrolment(server), state_dir=tmp_path / "elsewhere")
    assert stranger.ensure_registered() is False
    with pytest.raises(Conflict) as caught:
        stranger.register()
    assert caught.value.code == "agent_exists"


def test_with_an_enrolment_token_alone_one_is_nobody_yet(twin: Twin, server: Ringfence) -> None:
    agent = twin.agent(enrolment=enrolment(server))
    with pytest.raises(NotRegistered, match=r"call register\(\) first"):
        agent.list_projects()
    assert agent.heartbeat() is False


def test_without_a_token_nothing_is_sent(twin: Twin) -> None:
    transport = Lossy()
    agent = twin.agent(token=None, transport=transport, retries=0)
    with pytest.raises(Unauthenticated):
        agent.register()
    assert "authorization" not in transport.sent[0].headers
    assert "cookie" not in transport.sent[0].headers


def test_in_a_sandbox_an_agent_is_known_by_its_connection(twin: Twin) -> None:
    """There the answer to registering holds no token, and none is needed."""

    def sandbox(request: httpx.Request) -> httpx.Response:
        assert request.url.host == "hub"
        assert "authorization" not in request.headers
        known = request.url.path.startswith("/agents")
        return httpx.Response(201 if known else 200, json={"id": "claude", "token": None} if known else [])

    agent = twin.agent(url="http://hub:8080", token=None, transport=httpx.MockTransport(sandbox))
    assert agent.register()["token"] is None
    assert agent.list_projects() == []
    assert agent.ensure_registered()


def test_capabilities_survive_being_registered_again(twin: Twin, server: Ringfence) -> None:
    agent = twin.registered()
    agent.set_capabilities(["code", "review"])
    server.admin.delete("/agents/claude")
    assert agent.ensure_registered()
    assert agent.match_capability("review") == ["claude"]


def test_a_token_that_cannot_be_kept_is_used_all_the_same(
    twin: Twin, server: Ringfence, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    agent = twin.agent(enrolment=enrolment(server), state_dir=tmp_path / "file")
    assert agent.ensure_registered()
    assert agent.heartbeat()
    assert "cannot be kept" in caplog.text


def test_a_user_without_a_home_keeps_nothing() -> None:
    assert state_folder({"RINGFENCE_CONFIG_DIR": "~nobody-at-all/x"}) is None
    assert state_folder({"RINGFENCE_CONFIG_DIR": "/etc/rf"}) == Path("/etc/rf/agents")
    assert state_folder({"XDG_CONFIG_HOME": "/home/x/.conf"}) == Path("/home/x/.conf/ringfence/agents")


def test_an_agents_own_token_comes_before_the_operators(server: Ringfence) -> None:
    identity = Identity("rfap_operator")
    assert identity.for_registering == ["rfap_operator"]
    identity.registered("rfap_operator", "rfag_own")
    assert identity.token == "rfag_own"
    assert identity.for_registering == ["rfag_own", "rfap_operator"]
    assert Identity(None).for_registering == [None]
