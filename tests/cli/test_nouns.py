"""Every noun and verb against a real server: once for people, once as JSON."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli


@pytest.fixture
def name() -> Callable[[str], str]:
    """Names that no other test has."""
    tail = uuid.uuid4().hex[:8]
    return lambda word: f"{word}-{tail}"


@pytest.fixture
def project(office: Cli, name: Callable[[str], str]) -> str:
    return str(office.api("POST", "/api/v1/projects", name=name("web"))["id"])


@pytest.fixture
def agent(office: Cli, name: Callable[[str], str]) -> str:
    office.api("POST", "/api/v1/crew", name=name("claude"), type=name("type"), capabilities=["code"])
    return name("claude")


@pytest.fixture
def task(office: Cli, project: str) -> str:
    told = {"title": "Mend the door", "description": "It squeaks.\nOil it."}
    return str(office.api("POST", f"/api/v1/projects/{project}/tasks", **told)["id"])


# Projects -------------------------------------------------------------------------------------------------------------


def test_projects(office: Cli, name: Callable[[str], str], agent: str) -> None:
    made = office.json("project", "create", name("web"))
    assert made["name"] == name("web")
    assert made["id"] in office.ok("project", "list")
    assert name("web") in [it["name"] for it in office.json("project", "list")]
    assert office.json("project", "show", name("web"))["id"] == made["id"]
    assert "in_progress 3 for each agent" in office.ok("project", "show", made["id"])
    assert agent in office.ok("project", "join", name("web"), agent)
    assert agent in office.json("project", "show", name("web"))["members"]
    assert [it["id"] for it in office.json("project", "list", "--agent", agent)] == [made["id"]]
    office.ok("project", "leave", name("web"), agent)
    assert agent not in office.json("project", "show", name("web"))["members"]
    assert office.json("project", "change", name("web"), "--members-only")["visibility"] == "members"
    assert office("project", "delete", name("web")).code == 2
    office.ok("project", "delete", name("web"), "--yes")
    assert office("project", "show", made["id"]).code == 3
    assert office("project", "show", name("web")).code == 3


def test_wip_limits(office: Cli, project: str, agent: str) -> None:
    assert "in_progress" in office.ok("project", "wip", project)
    office.ok("project", "wip", project, "in_progress", "1")
    office.ok("project", "wip", project, "in_review", "none")
    office.ok("project", "wip", project, "in_progress", "2", "--agent", agent)
    office.ok("project", "wip", project, "done", "9", "--column")
    limits = office.json("project", "wip", project)
    assert limits["agent"] == {"in_progress": 1}
    assert limits["agents"] == {agent: {"in_progress": 2}}
    assert limits["columns"] == {"done": 9}
    assert office("project", "wip", project, "in_progress").code == 2
    assert office("project", "wip", project, "in_progress", "many").code == 2
    assert office("project", "wip", project, "somewhere", "1").code == 2


def test_files_go_up_and_come_down(office: Cli, project: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 100
    (tmp_path / "plan.bin").write_bytes(content)
    made = office.json("project", "upload", project, tmp_path / "plan.bin", "--name", "docs/plan.bin")
    assert made["size"] == len(content)
    assert "Uploaded plan.bin" in office.ok("project", "upload", project, "plan.bin", cwd=tmp_path)
    assert "docs/plan.bin" in office.ok("project", "files", project)
    assert {it["filename"] for it in office.json("project", "files", project)} == {"docs/plan.bin", "plan.bin"}
    (tmp_path / "there").mkdir()
    office.ok("project", "download", project, "docs/plan.bin", cwd=tmp_path / "there")
    assert (tmp_path / "there/plan.bin").read_bytes() == content
    again = office("project", "download", project, "docs/plan.bin", cwd=tmp_path / "there")
    assert again.code == 2
    assert "--yes" in again.err
    office.ok("project", "download", project, "docs/plan.bin", "-o", tmp_path / "other.bin")
    assert (tmp_path / "other.bin").read_bytes() == content
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert office("project", "download", project, "plan.bin", "-o", tmp_path / "link", "--yes").code == 1
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "words").write_text("words\n")
    office.ok("project", "upload", project, tmp_path / "words")
    assert office.ok("project", "download", project, "words", "-o", "-") == "words\n"
    office.ok("project", "rm-file", project, "docs/plan.bin", "--yes")
    assert office("project", "download", project, "docs/plan.bin").code == 3
    assert office("project", "upload", project, "nothing-here").code == 1


def test_the_board_and_its_figures(office: Cli, project: str, task: str) -> None:
    assert office.json("project", "board", project)["lanes"][0]["columns"]["backlog"][0]["id"] == task
    assert "Mend the door" in office.ok("project", "board", project, "--lanes", "priority")
    assert office("project", "board", project, "--lanes", "colour").code == 2
    assert office.json("project", "metrics", project)["total_tasks"] == 1
    assert "backlog" in office.ok("project", "metrics", project, "--days", "7")


# Tasks ----------------------------------------------------------------------------------------------------------------


def test_a_task_on_its_way(office: Cli, project: str, task: str, agent: str) -> None:
    assert "Oil it." in office.ok("task", "show", task)
    office.ok("task", "move", task, "ready", "--note", "go on")
    assert [it["id"] for it in office.json("task", "ready", "-p", project)] == [task]
    assert task in office.ok("task", "ready", "-p", project, "--agent", agent)
    assert "Claimed" in office.ok("task", "claim", task, "--agent", agent)
    assert office("task", "claim", task).code == 5
    office.ok("task", "release", task, "--agent", agent)
    assert office.json("task", "claim-next", "-p", project, "--agent", agent)["task"]["id"] == task
    nothing = office("task", "claim-next", "-p", project, "--agent", agent)
    assert nothing.code == 3
    office.ok("task", "move", task, "in_progress", "--agent", agent)
    assert office("task", "move", task, "done", "--agent", agent).code == 1
    office.ok("task", "move", task, "in_review", "--agent", agent)
    assert "has reviewed" in office.ok("task", "review", task)
    office.ok("task", "review", task, "--withdraw")
    office.ok("task", "review", task)
    office.ok("task", "move", task, "done")
    assert office.json("task", "show", task)["reviewers"] == ["alice"]
    assert [it["to"] for it in office.json("task", "history", task)][-1] == "done"
    assert "go on" in office.ok("task", "history", task)


def test_tasks_are_listed_by_many_things(office: Cli, project: str, agent: str, task: str) -> None:
    made = office.json(
        "task", "create", "Paint it", "-p", project, "--priority", "p0", "--ready", "--label", "ui", "--label", "red",
        "--capability", "code", "--assign", agent, "--reviewers", "0", "--parent", task,
    )  # fmt: skip
    assert (made["priority"], made["status"], made["labels"]) == ("P0", "ready", ["ui", "red"])
    assert [it["id"] for it in office.json("task", "list", "-p", project)] == [made["id"], task]
    for words in (
        ["--status", "ready"], ["--agent", agent], ["--label", "red"], ["--priority", "P0"], ["-s", "paint"],
        ["--limit", "1"], ["--parent", task],
    ):  # fmt: skip
        assert office.ok("task", "list", "-p", project, "-q", *words) == f"{made['id']}\n", words
    assert "Paint it" in office.ok("task", "list", "-p", project)
    assert office("task", "list", "--status", "somewhere").code == 2
    assert office("task", "list", "-p", "no such project").code == 3


def test_a_task_is_edited_and_deleted(office: Cli, task: str) -> None:
    office.ok("task", "edit", task, "--title", "Mend the gate", "-d", "-", "--label", "x", given="From a pipe.\n")
    found = office.json("task", "show", task)
    assert (found["title"], found["description"], found["labels"]) == ("Mend the gate", "From a pipe.\n", ["x"])
    assert office.json("task", "edit", task, "--label", "")["labels"] == []
    assert office("task", "edit", task).code == 2
    assert office("task", "edit", task, "--priority", "P9").code == 2
    assert office("task", "delete", task).code == 2
    assert task in office.ok("task", "delete", task, "--yes")
    assert office("task", "show", task).code == 3


def test_a_task_is_assigned_and_taken_back(office: Cli, task: str, agent: str) -> None:
    assert agent in office.ok("task", "assign", task, agent)
    assert office.json("task", "show", task)["assigned_to"] == agent
    office.ok("task", "unassign", task, "--json")
    assert office.json("task", "show", task)["assigned_to"] is None


def test_a_task_waits_for_another(office: Cli, project: str, task: str) -> None:
    first = office.ok("task", "create", "Buy oil", "-p", project, "-q").strip()
    assert first in office.ok("task", "depend", task, first)
    assert office.json("task", "dependencies", task)["depends_on"][0]["id"] == first
    assert "waits for it" in office.ok("task", "dependencies", first)
    assert office("task", "depend", first, task).code in (1, 5)
    assert office.json("task", "undepend", task, first)["waiting_for"] == []


def test_comments(office: Cli, task: str) -> None:
    office.ok("task", "comment", task, "Looks good")
    made = office.json("task", "comment", task, "-", given="Two\nlines\n")
    assert [it["body"] for it in office.json("task", "comments", task)] == ["Looks good", "Two\nlines\n"]
    assert "  Two\n  lines\n" in office.ok("task", "comments", task)
    office.ok("task", "rm-comment", task, made["id"], "--yes")
    assert len(office.json("task", "comments", task)) == 1


def test_attachments(office: Cli, task: str, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("it broke\n")
    assert office.json("task", "attach", task, tmp_path / "log.txt")["filename"] == "log.txt"
    assert "log.txt" in office.ok("task", "attachments", task)
    assert office.ok("task", "download", task, "log.txt", "-o", "-") == "it broke\n"
    office.ok("task", "detach", task, "log.txt", "--yes")
    assert office.json("task", "attachments", task) == []


def test_an_id_may_be_shortened_unless_it_could_be_another(office: Cli, project: str, task: str) -> None:
    other = office.ok("task", "create", "Another", "-p", project, "-q").strip()
    assert office.json("task", "show", task[-8:])["id"] == task
    assert office.json("task", "show", task[:-1])["id"] == task
    said = office("task", "show", "tsk_0")
    assert said.code == 2
    assert task in said.err or other in said.err or "tasks:" in said.err
    assert office("task", "show", "tsk_none").code == 3
    assert office("task", "show", "tsk_" + "0" * 26).code == 3


# Agents ---------------------------------------------------------------------------------------------------------------


def test_agents_are_registered_and_shown(office: Cli, name: Callable[[str], str]) -> None:
    said = office("agent", "register", name("codex"), "--mode", "manual", "--capability", "code")
    assert said.code == 0
    assert said.out.startswith("rfag_")  # the token alone
    assert office.json("agent", "show", name("codex"))["autonomy_mode"] == "manual"
    assert name("codex") in office.ok("agent", "list", "--capability", "code")
    assert name("codex") in [it["name"] for it in office.json("agent", "list", "--status", "online")]
    assert "mode at most" in office.ok("agent", "show", name("codex"))
    assert office("agent", "unregister", name("codex")).code == 2
    office.ok("agent", "unregister", name("codex"), "--yes")
    assert office("agent", "show", name("codex")).code == 3


def test_agents_are_paused_and_resumed_alone_and_together(office: Cli, agent: str, name: Callable[[str], str]) -> None:
    office.ok("agent", "pause", agent, "-r", "lunch")
    assert office.json("agent", "show", agent)["pause_reason"] == "lunch"
    office.ok("agent", "resume", agent)
    assert office.json("agent", "pause", "--all", "--type", name("type"), "--only-new")["paused"] == [agent]
    assert agent in office.ok("agent", "resume", "--all", "--type", name("type"))
    assert office("agent", "pause").code == 2
    assert office("agent", "pause", agent, "--all").code == 2
    assert office("agent", "resume", "nobody-at-all").code == 3


def test_modes_of_one_and_of_all(office: Cli, agent: str, name: Callable[[str], str]) -> None:
    assert office.json("agent", "mode", agent, "advisory")["autonomy_mode"] == "advisory"
    assert office.ok("agent", "mode", agent, "-q") == "advisory\n"
    assert office.json("agent", "mode", agent, "--ceiling", "manual")["autonomy_ceiling"] == "manual"
    changed = office.json("agent", "mode", "--all", "fully_autonomous", "--type", name("type"))
    assert changed["updated_agents"] == [agent]
    assert "mode" in office.json("agent", "mode", "--all")
    assert office("agent", "mode", agent, "wild").code == office("agent", "mode", "--all", "wild").code == 2


def test_an_agent_is_revoked(office: Cli, agent: str) -> None:
    assert office("agent", "revoke", agent).code == 2
    made = office.json("agent", "revoke", agent, "-r", "lost its way", "--yes")
    assert made["revocation_id"] in office.ok("agent", "revocations", agent)
    assert office.json("agent", "revocations")[0]["id"] == made["revocation_id"]
    assert office.json("agent", "show", agent)["status"] == "revoked"


def test_capabilities(office: Cli, agent: str) -> None:
    office.ok("agent", "capabilities", agent, "code", "Review", "--description", "Reads a lot.")
    assert office.json("agent", "capabilities", agent)[0]["tags"] == ["code", "review"]
    assert agent in office.ok("agent", "capabilities")
    assert agent in office.json("agent", "capabilities", "--match", "REVIEW")["agents"]
    assert agent in office.ok("agent", "capabilities", "--match", "review")


def test_checkpoints(office: Cli, agent: str) -> None:
    assert office.json("agent", "checkpoints", agent) == []
    office.api("POST", f"/agents/{agent}/checkpoint", state="half way", rationale="it works")
    assert "half way" in office.ok("agent", "checkpoints", agent)


def test_an_agent_without_an_sdk_lives_by_the_command(office: Cli, name: Callable[[str], str], project: str) -> None:
    token = office.ok("agent", "register", name("codex"), "-q").strip()
    task = office.ok("task", "create", "Mend", "-p", project, "--ready", "-q").strip()
    agent: dict[str, Any] = {"RINGFENCE_TOKEN": token}
    assert office.json("task", "claim-next", "-p", project, **agent)["task"]["id"] == task
    made = office.json("agent", "checkpoint", name("codex"), "half way", "-r", "it fits", "-t", task, **agent)
    assert made["sequence"] == 1
    assert "half way" in office.ok("agent", "checkpoints", name("codex"), **agent)
    assert office.json("agent", "show", name("codex"))["current_task_id"] == task
    assert office.json("agent", "heartbeat", name("codex"), **agent)["paused"] is False
    assert office("agent", "acknowledge", name("codex"), **agent).code == 2
    directive = office.ok("agent", "revoke", name("codex"), "-r", "stop there", "-q", "--yes").strip()
    heard = office.ok("agent", "heartbeat", name("codex"), **agent)
    assert directive in heard
    assert "stop there" in heard
    assert office("agent", "acknowledge", name("codex"), "rev_nonsense", **agent).code == 3
    assert directive in office.ok("agent", "acknowledge", name("codex"), **agent)
    assert office.json("agent", "show", name("codex"))["status"] == "online"
    office.ok("agent", "mode", name("codex"), "advisory")
    asked = office.json("task", "claim", task, **agent)["proposal"]["id"]
    office.ok("proposal", "withdraw", asked, **agent)
    assert office.json("proposal", "show", asked)["state"] == "withdrawn"


def test_an_agents_name_may_be_shortened(office: Cli, agent: str) -> None:
    assert office.json("agent", "show", agent[:-2])["name"] == agent
    assert office("agent", "show", "").code in (2, 3)


# Messages -------------------------------------------------------------------------------------------------------------


def test_messages(office: Cli, agent: str, name: Callable[[str], str]) -> None:
    made = office.json("message", "send", agent, "How is it going?", "--thread", name("thread"))
    office.ok("message", "send", "alice", "-", "--from", agent, "--reply-to", made["id"], given="Well.\n")
    assert [it["content"] for it in office.json("message", "inbox", agent, "--unread")] == ["How is it going?"]
    assert "How is it going?" in office.ok("message", "inbox", agent)
    assert "Well." in office.ok("message", "inbox")
    assert {it["from"] for it in office.json("message", "history", "alice", agent)} == {"alice", agent}
    assert agent in office.ok("message", "history", agent, "alice")
    assert name("thread") in office.ok("message", "thread")
    assert "  How is it going?" in office.ok("message", "thread", name("thread"))
    assert office.json("message", "show", made["id"])["content"] == "How is it going?"
    assert "How is it going?" in office.ok("message", "show", made["id"])
    office.ok("message", "ack", made["id"], "--agent", agent)
    assert office.json("message", "inbox", agent, "--unread") == []
    assert office.json("message", "graph")["nodes"]
    assert office("message", "graph").code == 0
    assert made["id"] in office.ok("message", "list")
    assert office("message", "prune", "--days", "9999").code == 2
    assert office.json("message", "prune", "--days", "9999", "--yes")["removed"] == 0


def test_a_message_with_a_link_outside_is_refused_with_its_reason(office: Cli, agent: str) -> None:
    said = office("message", "send", "alice", "see https://evil.example/x", "--from", agent)
    assert said.code in (1, 4)
    assert "evil.example" in said.err


# Proposals ------------------------------------------------------------------------------------------------------------


def test_what_an_advisory_agent_wants_waits_for_approval(office: Cli, project: str, task: str, agent: str) -> None:
    office.ok("agent", "mode", agent, "advisory")
    office.ok("task", "move", task, "ready")
    waits = office("task", "claim", task, "--agent", agent)
    assert waits.code == 0
    assert "waits for a person's approval" in waits.out
    found = office.json("proposal", "list", "--agent", agent)
    assert [it["state"] for it in found] == ["pending"]
    assert found[0]["id"] in waits.out
    assert found[0]["id"] in office.ok("proposal", "list", "-p", project)
    assert office.json("proposal", "show", found[0]["id"])["agent"] == agent
    assert agent in office.ok("proposal", "show", found[0]["id"][-8:])
    office.ok("proposal", "approve", found[0]["id"], "-n", "fine")
    assert office.json("task", "show", task)["claimed_by"] == agent
    assert office("proposal", "approve", found[0]["id"]).code == 5
    other = office.ok("task", "create", "Another", "-p", project, "--ready", "-q").strip()
    asked = office.json("task", "claim", other, "--agent", agent)
    assert office.json("proposal", "deny", asked["proposal"]["id"])["state"] == "denied"
    assert office.json("proposal", "list", "--state", "all", "--agent", agent)
    assert office("proposal", "list", "--state", "odd").code == 2


# The record -----------------------------------------------------------------------------------------------------------


def test_the_audit_log(office: Cli, agent: str) -> None:
    assert office.json("audit", "log", "--agent", agent, "-n", "1")
    assert "agent_registered" in office.ok("audit", "log", "--kind", "agent_registered")
    head = office.ok("audit", "head").strip()
    assert len(head) == 64
    assert office.json("audit", "verify", "--head", head)["ok"]
    assert "is what was written" in office.ok("audit", "verify")
    assert office("audit", "verify", "--head", "0" * 64).code == 1
    assert not office("audit", "verify", "--head", "0" * 64, "--json").json["ok"]
    assert office("audit", "prune", "--days", "9999").code == 2
    assert office.json("audit", "prune", "--days", "9999", "--yes")["removed"] == 0


def test_a_log_that_was_edited_is_found_out(cli: Cli) -> None:
    import contextlib
    import sqlite3

    cli.up()
    cli.ok("agent", "register", "claude")
    with contextlib.closing(sqlite3.connect(cli.data / "ringfence.db")) as database:
        database.execute("UPDATE events SET data = replace(data, 'claude', 'codex') WHERE kind = 'agent_registered'")
        database.commit()
    said = cli("audit", "verify")
    assert said.code == 1
    assert "not as it was written" in said.err
