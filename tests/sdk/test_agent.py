"""Every method of an agent's client, against a running server; blocking and for asyncio."""

import asyncio
import threading
from typing import Any

import pytest

from ringfence import AsyncAgentClient
from ringfence.sdk import errors, is_proposed
from tests.harness import Ringfence
from tests.sdk.conftest import DEADLINE, Lossy, Seen, Twin


@pytest.fixture
def agent(twin: Twin) -> Any:
    return twin.registered("claude", type="claude")


@pytest.fixture
def project(agent: Any) -> str:
    return str(agent.create_project("apollo")["id"])


@pytest.fixture
def task(agent: Any, project: str) -> str:
    return str(agent.create_task(project, "t", "to be done")["id"])


# Registering ----------------------------------------------------------------------------------------------------------


def test_register_tells_what_the_server_knows(twin: Twin) -> None:
    registered = twin.agent("claude", "codex").register({"role": "tester"})
    assert registered["id"] == "claude"
    assert registered["type"] == "codex"
    assert registered["autonomy_mode"] == "fully_autonomous"
    assert registered["capabilities"] == []
    assert registered["registered_at"]


def test_ensure_registered_registers_once(twin: Twin) -> None:
    agent = twin.agent()
    assert agent.ensure_registered({"role": "tester"}) is True
    at = agent.get_agent()["registered_at"]
    assert agent.get_agent()["metadata"] == {"role": "tester"}
    assert agent.ensure_registered() is True
    assert agent.get_agent()["registered_at"] == at


def test_unregister_leaves(agent: Any, twin: Twin) -> None:
    assert agent.unregister() is True
    assert agent.heartbeat() is False
    assert twin.registered("other").list_agents()[0]["name"] == "other"


def test_a_heartbeat_of_an_unknown_agent_is_false(twin: Twin) -> None:
    agent = twin.agent("nobody")
    assert agent.heartbeat() is False
    assert agent.unregister() is False
    with pytest.raises(errors.NotFound):
        agent.heartbeat_info()


def test_heartbeat_info_tells_what_the_server_expects(agent: Any, twin: Twin) -> None:
    assert agent.heartbeat() is True
    told = agent.heartbeat_info()
    assert told == {
        "status": "ok", "checkpoint_tick": 2, "checkpoint_due": False, "paused": False, "revocation": None,
    }  # fmt: skip
    twin.operator().pause_agent("claude", "wait")
    assert agent.heartbeat_info()["paused"] is True


def test_heartbeats_go_on_by_themselves(twin: Twin) -> None:
    transport = Lossy()
    agent = twin.registered(transport=transport)
    agent.start_heartbeat(interval=0.02)
    transport.wait_for("/agents/claude/heartbeat", 5)
    agent.start_heartbeat(interval=3600)  # in place of the first
    agent.stop_heartbeat()
    agent.stop_heartbeat()
    sent = transport.asked("/agents/claude/heartbeat")
    for _ in range(20):
        agent.list_agents()
    assert transport.asked("/agents/claude/heartbeat") == sent


# Itself ---------------------------------------------------------------------------------------------------------------


def test_set_autonomy_mode(agent: Any) -> None:
    assert agent.set_autonomy_mode("advisory")["autonomy_mode"] == "advisory"
    with pytest.raises(errors.Invalid, match="Invalid mode: wild"):
        agent.set_autonomy_mode("wild")


def test_an_agent_stays_below_its_ceiling(agent: Any, twin: Twin) -> None:
    twin.operator().set_autonomy_mode("claude", "advisory")
    with pytest.raises(errors.Forbidden):
        agent.set_autonomy_mode("fully_autonomous")


@pytest.mark.parametrize("tags", [["Code", "review"], ("Code", "review"), "Code, review"])
def test_set_capabilities(agent: Any, tags: Any) -> None:
    assert agent.set_capabilities(tags, "a description")["tags"] == ["Code", "review"]
    assert agent.match_capability("code") == ["claude"]
    assert agent.list_capabilities()[0]["description"] == "a description"
    assert agent.list_agents(capability="code")[0]["name"] == "claude"


def test_checkpoints(agent: Any, project: str, task: str) -> None:
    with pytest.raises(errors.NotFound):
        agent.get_checkpoint()
    assert agent.submit_checkpoint()["sequence"] == 1
    submitted = agent.submit_checkpoint(task, "half way", "user story #42", {"files": 3})
    assert submitted["sequence"] == 2
    latest = agent.get_checkpoint()
    assert (latest["state"], latest["rationale"], latest["task_id"]) == ("half way", "user story #42", task)
    assert [one["sequence"] for one in agent.checkpoints()] == [2, 1]
    assert [one["sequence"] for one in agent.checkpoints(limit=1)] == [2]


def test_revocation(agent: Any, twin: Twin) -> None:
    assert agent.check_revocation() == {"pending": False}
    twin.operator().revoke_agent("claude", "policy violation")
    for _ in range(2):  # told until it is acknowledged
        told = agent.check_revocation()
        assert told["pending"] is True
        assert (told["reason"], told["flush_required"]) == ("policy violation", True)
    with pytest.raises(errors.Forbidden) as caught:
        agent.send_message("hermes", "hello")
    assert caught.value.code == "agent_revoked"
    assert agent.acknowledge_revocation(told["revocation_id"]) is True
    assert agent.check_revocation() == {"pending": False}
    agent.register()
    assert agent.send_message("hermes", "hello")["id"]


def test_acknowledging_another_revocation_is_refused(agent: Any, twin: Twin) -> None:
    twin.operator().revoke_agent("claude")
    assert agent.acknowledge_revocation("rev_none") is False
    assert agent.check_revocation()["pending"] is True


# Projects and files ---------------------------------------------------------------------------------------------------


def test_projects(agent: Any, project: str, twin: Twin) -> None:
    found = agent.get_project(project)
    assert (found["name"], found["creator"], found["members"]) == ("apollo", "claude", ["claude"])
    hermes = twin.registered("hermes")
    assert hermes.list_projects("hermes") == []
    assert hermes.join_project(project) is True
    assert [one["id"] for one in hermes.list_projects("hermes")] == [project]
    assert hermes.leave_project(project) is True
    assert [one["id"] for one in hermes.list_projects()] == [project]
    assert hermes.join_project("prj_none") is False
    assert hermes.delete_project(project) is False  # it is claude's
    assert agent.delete_project(project) is True
    assert agent.delete_project(project) is False


def test_wip_limits_and_the_board(agent: Any, project: str, task: str, twin: Twin) -> None:
    operator = twin.operator()
    assert operator.set_wip_limit(project, "in_progress", 1) is True
    assert operator.set_wip_limit(project, "in_review", None) is True
    assert operator.set_wip_limit(project, "in_progress", 7, scope="column") is True
    limits = agent.get_wip_limits(project)
    assert limits["agent"] == {"in_progress": 1}
    assert limits["columns"] == {"in_progress": 7}
    assert agent.set_wip_limit(project, "in_progress", 9) is False
    agent.claim_task(project, task)
    other = agent.create_task(project, "another")["id"]
    with pytest.raises(errors.RuleBroken, match="WIP limit reached"):
        agent.claim_task(project, other)
    lanes = agent.get_board(project, lanes="agent")["lanes"]
    assert [lane["lane"] for lane in lanes] == ["claude", None]


def test_files(agent: Any, project: str) -> None:
    content = bytes(range(256)) * 1000
    uploaded = agent.upload_file(project, "a/b.bin", content)
    assert (uploaded["filename"], uploaded["size"], len(uploaded["checksum"])) == ("a/b.bin", 256_000, 64)
    assert agent.download_file(project, "a/b.bin") == content
    assert [one["filename"] for one in agent.list_files(project)] == ["a/b.bin"]
    assert agent.list_files(project)[0]["uploader"] == "claude"
    assert agent.delete_file(project, "a/b.bin") is True
    assert agent.delete_file(project, "a/b.bin") is False
    with pytest.raises(errors.NotFound):
        agent.download_file(project, "a/b.bin")
    with pytest.raises(errors.Invalid):
        agent.upload_file(project, "../../etc/passwd", b"x")


def test_metrics(agent: Any, project: str, task: str) -> None:
    agent.claim_task(project, task)
    agent.transition_task(project, task, "in_review")
    found = agent.metrics(project, days=7)
    assert found["by_status"]["in_review"] == 1
    assert found["total_tasks"] == 1
    assert len(found["flow"]) == 7


# Tasks ----------------------------------------------------------------------------------------------------------------


def test_create_task_takes_what_the_hub_took_and_more(agent: Any, project: str, task: str, twin: Twin) -> None:
    agent.set_capabilities(["code"])
    boss = twin.agent("boss", token=twin.operator().register_agent("boss", scopes=["coordinator"])["token"])
    created = boss.create_task(
        project, "title", "description", "claude",
        priority="P0", required_capabilities=("code",), required_reviewers=2, parent_task_id=task,
        labels=["ui"], depends_on=[task], status="ready",
    )  # fmt: skip
    assert (created["title"], created["description"], created["assigned_to"]) == ("title", "description", "claude")
    assert (created["priority"], created["status"], created["created_by"]) == ("P0", "ready", "boss")
    assert created["required_capabilities"] == ["code"]
    assert created["waiting_for"] == [task]
    assert agent.get_task(project, task)["subtasks"] == [created["id"]]


def test_finding_tasks(agent: Any, project: str, task: str) -> None:
    urgent = agent.create_task(project, "urgent thing", priority="P0", labels=["ui"])["id"]
    assert [one["id"] for one in agent.list_tasks(project)] == [urgent, task]
    assert [one["id"] for one in agent.list_tasks()] == [urgent, task]
    assert [one["id"] for one in agent.list_tasks(project, limit=1)] == [urgent]
    assert [one["id"] for one in agent.list_tasks(project, label="ui", priority="P0", search="thing")] == [urgent]
    assert [one["id"] for one in agent.ready_queue(project)] == [urgent, task]
    assert agent.get_my_tasks() == []
    agent.claim_task(project, task)
    assert [one["id"] for one in agent.get_my_tasks()] == [task]
    assert [one["id"] for one in agent.get_my_tasks(project)] == [task]
    assert agent.get_my_tasks("prj_none") == []
    assert [one["id"] for one in agent.list_tasks(project, agent="claude", status="ready")] == [task]
    assert [one["id"] for one in agent.find_tasks(status="backlog", project_id=project)] == [urgent]


def test_long_lists_come_whole(agent: Any, project: str, server: Ringfence, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.sdk import asking

    monkeypatch.setattr(asking, "PAGE", 3)
    made = [agent.create_task(project, f"t{number}")["id"] for number in range(10)]
    assert [one["id"] for one in agent.list_tasks(project)] == made
    assert [one["id"] for one in agent.list_tasks(project, limit=7)] == made[:7]
    assert [one["id"] for one in agent.find_tasks(project_id=project)] == made  # at the root: by the Link header


def test_the_way_of_a_task(agent: Any, project: str, task: str, twin: Twin) -> None:
    assert agent.claim_task(project, task) == {"ok": True, "task_id": task}
    assert agent.update_task(project, task, "in_progress") is True
    assert agent.transition_task(project, task, "blocked", blocked_reason="no key") is True
    assert agent.get_task(project, task)["blocked_reason"] == "no key"
    assert agent.transition_task(project, task, "ready") is True
    assert agent.transition_task(project, task, "done") is False
    moved = agent.move_task(project, task, "in_progress", note="again")
    assert moved["status"] == "in_progress"
    assert agent.transition_task(project, task, "in_review") is True
    assert agent.transition_task(project, task, "done") is False  # nobody reviewed it
    assert agent.review_task(project, task) is False  # not one's own
    reviewer = twin.registered("reviewer")
    assert reviewer.review_task(project, task) is True
    assert reviewer.withdraw_review(project, task) is True
    assert reviewer.review_task(project, task) is True
    assert agent.transition_task(project, task, "done") is True
    assert agent.task_history(project, task)[-1]["to"] == "done"
    assert "again" in [entry["note"] for entry in agent.task_history(project, task)]


def test_claiming_and_giving_back(agent: Any, project: str, task: str) -> None:
    urgent = agent.create_task(project, "urgent", priority="P0")["id"]
    claimed = agent.claim_next(project)
    assert (claimed["id"], claimed["claimed_by"]) == (urgent, "claude")
    assert agent.claim_next(project)["id"] == task
    assert agent.claim_next(project) is None
    assert agent.release_task(project, urgent)["claimed_by"] is None
    assert agent.unassign_task(project, task) is True
    assert agent.get_task(project, task)["status"] == "backlog"
    with pytest.raises(errors.Forbidden):
        agent.release_task(project, urgent)


def test_assigning_takes_a_coordinator(agent: Any, project: str, task: str, server: Ringfence, twin: Twin) -> None:
    assert agent.assign_task(project, task, "hermes") is False
    registered = twin.operator().register_agent("boss", scopes=["coordinator"])
    boss = twin.agent("boss", token=registered["token"])
    assert boss.assign_task(project, task, "hermes") is True
    assert agent.get_task(project, task)["assigned_to"] == "hermes"


def test_editing_and_deleting(agent: Any, project: str, task: str) -> None:
    edited = agent.edit_task(project, task, title="better", priority="P1", labels=["x"], required_reviewers=3)
    assert (edited["title"], edited["priority"], edited["labels"]) == ("better", "P1", ["x"])
    assert edited["description"] == "to be done"
    assert agent.delete_task(project, task) is True
    with pytest.raises(errors.NotFound):
        agent.get_task(project, task)


def test_what_belongs_to_a_task(agent: Any, project: str, task: str) -> None:
    said = agent.comment(project, task, "looks good")
    assert (said["author"], said["body"]) == ("claude", "looks good")
    assert [one["id"] for one in agent.comments(project, task)] == [said["id"]]
    assert agent.delete_comment(project, task, said["id"]) is True
    other = agent.create_task(project, "before")["id"]
    assert agent.add_dependency(project, task, other)["waiting_for"] == [other]
    found = agent.dependencies(project, task)
    assert [one["id"] for one in found["depends_on"]] == [other]
    assert [one["id"] for one in agent.dependencies(project, other)["needed_by"]] == [task]
    with pytest.raises(errors.RuleBroken, match="circle"):
        agent.add_dependency(project, other, task)
    assert agent.remove_dependency(project, task, other)["waiting_for"] == []
    assert agent.attach_file(project, task, "log.txt", b"log")["size"] == 3
    assert [one["filename"] for one in agent.list_attachments(project, task)] == ["log.txt"]
    assert agent.download_attachment(project, task, "log.txt") == b"log"
    assert agent.delete_attachment(project, task, "log.txt") is True


# Proposals ------------------------------------------------------------------------------------------------------------


def test_an_advisory_agent_proposes(agent: Any, project: str, task: str, twin: Twin) -> None:
    agent.set_autonomy_mode("advisory")
    answer = agent.claim_task(project, task)
    assert answer["ok"] is False
    assert is_proposed(answer)
    assert answer["proposal"]["action"] == "claim"
    assert "a person must approve" in answer["message"]
    assert agent.get_task(project, task)["claimed_by"] is None
    assert [one["id"] for one in agent.proposals()] == [answer["proposal"]["id"]]
    twin.operator().approve_proposal(answer["proposal"]["id"], "go")
    decided = agent.wait_for_decision(answer["proposal"]["id"])
    assert (decided["state"], decided["note"]) == ("approved", "go")
    assert agent.get_task(project, task)["claimed_by"] == "claude"
    assert agent.proposals() == []
    assert agent.get_proposal(decided["id"])["state"] == "approved"


def test_what_waits_for_approval_is_not_done(agent: Any, project: str, task: str) -> None:
    agent.claim_task(project, task)
    agent.set_autonomy_mode("advisory")
    assert agent.transition_task(project, task, "in_progress") is False
    assert is_proposed(agent.create_task(project, "new"))
    assert is_proposed(agent.edit_task(project, task, title="new"))
    assert agent.delete_task(project, task) is False
    assert agent.get_task(project, task)["id"] == task
    assert is_proposed(agent.claim_next(project)) or agent.claim_next(project) is None
    waiting = agent.proposals()
    assert agent.withdraw_proposal(waiting[0]["id"])["state"] == "withdrawn"
    undecided = agent.wait_for_decision(waiting[1]["id"], timeout_seconds=0.05, poll_interval=0.01)
    assert undecided["state"] == "pending"


# Messages -------------------------------------------------------------------------------------------------------------


def test_messages_go_there_and_back(agent: Any, twin: Twin) -> None:
    hermes = twin.registered("hermes")
    sent = agent.send_message("hermes", "PR #42 ready for review", "review")
    assert (sent["from"], sent["to"]) == ("claude", "hermes")
    assert sent["timestamp"]
    (message,) = hermes.get_messages(unread_only=True)
    assert (message["from"], message["content"], message["type"]) == ("claude", "PR #42 ready for review", "review")
    answer = hermes.send_message("claude", "on it", reply_to=message["id"])
    assert answer["thread"] == message["id"]
    assert hermes.ack(message["id"]) is True
    assert hermes.ack("msg_none") is False
    assert hermes.get_messages(unread_only=True) == []
    assert [one["content"] for one in hermes.get_messages()] == ["PR #42 ready for review"]
    assert [one["content"] for one in agent.history("hermes")] == ["on it", "PR #42 ready for review"]
    assert [one["content"] for one in agent.history("hermes", limit=1)] == ["on it"]
    assert [one["content"] for one in agent.thread(message["id"])] == ["PR #42 ready for review", "on it"]
    assert [one["id"] for one in agent.threads()] == [message["id"]]
    assert agent.get_message(message["id"])["deliveries"][0]["acknowledged_at"]
    assert {"from": "claude", "to": "hermes", "count": 1} in agent.graph()["edges"]


def test_a_broadcast_reaches_everybody_else(agent: Any, twin: Twin) -> None:
    others = [twin.registered("hermes"), twin.registered("iris")]
    agent.broadcast("hello, all")
    for other in others:
        (message,) = other.get_messages(unread_only=True)
        assert (message["content"], message["to"]) == ("hello, all", "*")
        assert other.ack(message["id"]) is True
    assert agent.get_messages() == []


def test_a_link_to_the_outside_is_refused(agent: Any) -> None:
    with pytest.raises(errors.RuleBroken, match="external URL detected"):
        agent.send_message("hermes", "see https://evil.example/x")


def test_process_inbox_handles_and_acknowledges(agent: Any, twin: Twin, seen: Seen) -> None:
    hermes = twin.registered("hermes")
    for number in range(5):
        hermes.send_message("claude", f"m{number}")
    assert agent.process_inbox(seen, max_messages=2) == 2
    assert agent.process_inbox(seen) == 3
    assert agent.process_inbox(seen) == 0
    assert seen.contents == [f"m{number}" for number in range(5)]
    assert agent.get_messages(unread_only=True) == []


def test_process_inbox_without_acknowledging_still_handles_once(agent: Any, twin: Twin, seen: Seen) -> None:
    twin.registered("hermes").send_message("claude", "m")
    assert agent.process_inbox(seen, auto_ack=False) == 1
    assert agent.process_inbox(seen, auto_ack=False) == 0
    assert len(agent.get_messages(unread_only=True)) == 1
    assert agent.process_inbox(seen) == 0  # but it is acknowledged now
    assert agent.get_messages(unread_only=True) == []
    assert agent.process_inbox(seen, unread_only=False) == 0
    assert seen.contents == ["m"]


def test_what_a_handler_raises_is_raised_and_the_message_comes_again(agent: Any, twin: Twin, seen: Seen) -> None:
    twin.registered("hermes").send_message("claude", "m")

    def fail(message: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        agent.process_inbox(fail)
    assert agent.process_inbox(seen) == 1


def test_wait_for_messages(agent: Any, twin: Twin) -> None:
    assert agent.wait_for_messages(timeout_seconds=0.05, poll_interval=0.01) == []
    hermes = twin.registered("hermes")
    threading.Timer(0.05, hermes.send_message, ("claude", "here")).start()
    assert [one["content"] for one in agent.wait_for_messages(timeout_seconds=DEADLINE, poll_interval=0.01)] == ["here"]


async def test_an_asynchronous_handler_is_awaited(server: Ringfence) -> None:
    handled: list[str] = []

    async def handle(message: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        handled.append(message["content"])

    async with AsyncAgentClient(server.url, "claude", token=server.admin_token) as agent:
        await agent.register()
        await agent.send_message("claude", "to myself")
        assert await agent.process_inbox(handle) == 1
    assert handled == ["to myself"]


async def test_many_calls_at_once_share_one_client(server: Ringfence) -> None:
    async with AsyncAgentClient(server.url, "claude", token=server.admin_token) as agent:
        await agent.register()
        project = (await agent.create_project("p"))["id"]
        made = await asyncio.gather(*(agent.create_task(project, f"t{number}") for number in range(30)))
        assert len({task["title"] for task in made if not is_proposed(task)}) == 30
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(agent.get_project(project))
