"""Every method of an operator's client, against a running server; blocking and for asyncio."""

from typing import Any

import httpx
import pytest

from ringfence.kernel.auth.model import Role
from ringfence.sdk import errors
from tests.harness import Ringfence
from tests.sdk.conftest import Twin


@pytest.fixture
def operator(twin: Twin) -> Any:
    return twin.operator()


def test_the_url_and_the_token_come_from_the_environment(server: Ringfence, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence import Client

    monkeypatch.setenv("RINGFENCE_URL", server.url + "/")
    monkeypatch.setenv("RINGFENCE_TOKEN", server.admin_token)
    with Client() as client:
        assert client.url == server.url
        assert client.me()["name"] == "admin"
    monkeypatch.delenv("RINGFENCE_URL")
    assert Client().url == "http://127.0.0.1:8080"


def test_agents_are_registered_and_removed(operator: Any, twin: Twin) -> None:
    made = operator.register_agent(
        "claude", "claude", metadata={"a": 1}, autonomy_mode="advisory", capabilities=["code"], scopes=["coordinator"]
    )
    assert (made["autonomy_mode"], made["capabilities"]) == ("advisory", ["code"])
    agent = twin.agent("claude", token=made["token"])
    assert agent.heartbeat() is True
    assert operator.set_capabilities("claude", "code, review")["tags"] == ["code", "review"]
    assert operator.get_agent("claude")["metadata"] == {"a": 1}
    assert [one["name"] for one in operator.list_agents(type="claude", status="online")] == ["claude"]
    assert operator.unregister_agent("claude") is True
    assert operator.unregister_agent("claude") is False
    with pytest.raises(errors.Unauthenticated):
        agent.heartbeat_info()


def test_modes_are_set_for_one_and_for_all(operator: Any) -> None:
    operator.register_agent("claude", "claude")
    assert operator.set_autonomy_mode("claude", "manual", ceiling="advisory")["autonomy_ceiling"] == "advisory"
    everybody = operator.set_all_autonomy_modes("advisory", agent_type="claude")
    assert (everybody["mode"], everybody["updated_agents"]) == ("advisory", ["claude"])
    policy = operator.get_autonomy_policy()
    assert [one["agent_type"] for one in policy["types"]] == ["claude"]
    assert policy["mode"] == "fully_autonomous"


def test_agents_are_paused_resumed_and_revoked(operator: Any, twin: Twin) -> None:
    agent = twin.registered("claude")
    assert operator.pause_agent("claude", "reviewing", freeze=False) == {"name": "claude", "status": "busy"}
    agent.send_message("hermes", "I end what I began")
    operator.pause_agent("claude")
    with pytest.raises(errors.Forbidden) as caught:
        agent.send_message("hermes", "hello")
    assert caught.value.code == "agent_paused"
    assert operator.resume_agent("claude")["status"] == "online"
    assert operator.pause_all("lunch") == ["claude"]
    assert operator.resume_all() == ["claude"]
    revoked = operator.revoke_agent("claude", "policy violation", flush=False)
    assert [one["id"] for one in operator.revocations()] == [revoked["revocation_id"]]
    (found,) = operator.revocations("claude")
    assert (found["reason"], found["flush_required"], found["acknowledged"]) == ("policy violation", False, False)


def test_a_project_from_its_first_task_to_the_last(operator: Any, twin: Twin) -> None:
    project = operator.create_project("apollo")
    assert project["creator"] == "admin"
    task = operator.create_task(project["id"], "t", status="ready")
    assert task["created_by"] == "admin"
    agent = twin.registered("claude")
    assert operator.assign_task(project["id"], task["id"], "claude") is True
    assert operator.join_project(project["id"], "claude") is True
    assert [one["id"] for one in operator.ready_queue(project["id"], agent="claude")] == [task["id"]]
    agent.claim_task(project["id"], task["id"])
    agent.transition_task(project["id"], task["id"], "in_review")
    assert operator.review_task(project["id"], task["id"], "hermes") is True
    assert operator.move_task(project["id"], task["id"], "done", note="well done")["status"] == "done"
    assert operator.metrics(project["id"])["completed_count"] == 1
    operator.comment(project["id"], task["id"], "thanks")
    assert operator.edit_task(project["id"], task["id"], labels=["shipped"])["labels"] == ["shipped"]
    assert operator.unassign_task(project["id"], task["id"]) is True
    assert operator.delete_task(project["id"], task["id"]) is True
    assert operator.delete_project(project["id"]) is True


def test_proposals_are_decided(operator: Any, twin: Twin) -> None:
    agent = twin.registered("claude")
    project = operator.create_project("p")["id"]
    first, second = (operator.create_task(project, title)["id"] for title in ("one", "two"))
    operator.set_autonomy_mode("claude", "advisory")
    agent.claim_task(project, first)
    agent.claim_task(project, second)
    newest, oldest = operator.proposals(agent="claude", project=project)
    assert operator.approve_proposal(oldest["id"])["result"] == {"id": first}
    assert operator.deny_proposal(newest["id"], "no")["note"] == "no"
    assert operator.proposals() == []
    assert {one["state"] for one in operator.proposals(None)} == {"approved", "denied"}
    with pytest.raises(errors.Conflict):
        operator.deny_proposal(newest["id"])


def test_messages_are_written_and_read_for_anybody(operator: Any, twin: Twin) -> None:
    agent = twin.registered("claude")
    sent = operator.send_message("claude", "please look at this")
    assert sent["from"] == "admin"
    agent.send_message("hermes", "psst")
    assert [one["content"] for one in operator.list_messages()] == ["please look at this", "psst"]
    assert [one["content"] for one in operator.list_messages("claude", unread=True)] == ["please look at this"]
    assert operator.ack(sent["id"], "claude") is True
    assert operator.list_messages("claude", unread=True) == []
    assert [one["content"] for one in operator.history("hermes", "claude")] == ["psst"]


def test_an_operator_names_the_agent_that_is_meant(operator: Any) -> None:
    with pytest.raises(TypeError, match="which agent"):
        operator.get_checkpoint()


def test_tokens_are_made_and_revoked(operator: Any, twin: Twin) -> None:
    made = operator.create_token("reporter", "viewer", note="for the wall", days=1)
    viewer = twin.operator(token=made["token"])
    assert viewer.me()["role"] == "viewer"
    with pytest.raises(errors.Forbidden):
        viewer.create_project("p")
    assert made["id"] in [one["id"] for one in operator.list_tokens()]
    assert operator.revoke_token(made["id"]) is True
    with pytest.raises(errors.Unauthenticated):
        viewer.me()
    enrolment = operator.create_enrolment(uses=2, note="for the lab")
    assert enrolment["uses_left"] == 2
    assert twin.agent("claude", enrolment=enrolment["token"]).ensure_registered()


def test_people_are_invited_with_a_role_and_projects_and_changed(operator: Any, twin: Twin) -> None:
    project, other = (operator.create_project(name)["id"] for name in ("apollo", "other"))
    invited = operator.invite_person("bob", "operator", projects=[project])
    assert (invited["role"], invited["projects"]) == ("operator", [project])
    signed_in = httpx.get(invited["signin_url"])
    assert signed_in.status_code == 303
    assert signed_in.cookies
    assert httpx.get(invited["signin_url"]).status_code == 401
    bob = twin.operator(token=operator.create_token("bob", "operator", projects=[project])["token"])
    assert [one["id"] for one in bob.list_projects()] == [project]
    with pytest.raises(errors.NotFound):
        bob.get_project(other)
    assert operator.change_person("bob", role="viewer", all_projects=True)["projects"] is None
    with pytest.raises(errors.Forbidden):
        bob.create_task(project, "as a viewer")
    assert httpx.get(operator.create_signin_link("bob")["url"]).status_code == 303
    assert operator.change_person("bob", disabled=True)["disabled"] is True
    with pytest.raises(errors.Unauthenticated):
        bob.me()
    assert [one["name"] for one in operator.list_people()] == ["bob"]


def test_a_project_is_renamed_and_closed(operator: Any, twin: Twin) -> None:
    agent, project = twin.registered("claude"), operator.create_project("apollo")["id"]
    assert operator.change_project(project, name="gemini", visibility="members")["name"] == "gemini"
    assert agent.list_projects() == []
    operator.change_project(project, visibility="open")
    assert [one["name"] for one in agent.list_projects()] == ["gemini"]


def test_how_long_things_are_kept_is_chosen_and_what_is_older_goes(twin: Twin, server: Ringfence) -> None:
    operator = twin.operator(token=server.token("keeper", Role.ADMIN, lives=None))
    assert operator.set_retention(events_days=30)["events_days"] == 30
    assert (
        operator.set_retention(messages_days=0) == operator.get_retention() == {"events_days": 30, "messages_days": 0}
    )
    operator.register_agent("claude")
    assert operator.ack(operator.send_message("claude", "old")["id"]) is True
    server.clock.advance(20 * 86400)
    assert operator.prune_messages(10) == 1
    assert operator.prune_audit(10) > 0
    assert operator.verify_audit()["ok"] is True


def test_the_record_is_read_and_verified(operator: Any) -> None:
    project = operator.create_project("p")["id"]
    (event,) = operator.audit(kind="project_created", project=project, limit=1)
    assert (event["actor"], event["data"]["name"]) == ("operator:admin", "p")
    oldest, *_ = operator.audit(newest_first=False, limit=None)
    assert oldest["seq"] == 1
    assert operator.verify_audit()["ok"] is True
    assert operator.verify_audit(event["hash"])["problem"] is None
