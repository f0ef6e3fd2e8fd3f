"""What advisory agents propose, and what becomes of it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence.crew.proposals.model import PENDING, Proposal
from ringfence.crew.proposals.routes import proposed
from ringfence.kernel.auth.model import Principal, Role
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, RateLimited, RuleBroken, TooLarge, Unavailable
from ringfence.kernel.events.model import Actor
from tests.crew.watching import events, refused
from tests.harness import Ringfence, running


def propose(server: Ringfence, agent: str = "claude", action: str = "sing", **more: Any) -> Proposal:
    payload, project, task = more.pop("payload", {"song": 1}), more.pop("project", None), more.pop("task", None)
    found: Proposal = server.write(
        lambda tx: server.house.proposals.propose(
            tx, Actor(f"agent:{agent}"), agent, action, project=project, task=task, payload=payload, **more
        )
    )
    return found


def sings(server: Ringfence, error: Exception | None = None) -> list[tuple[str, str | None, str]]:
    """The action `sing`: it leaves an event, and what it was given, then fails if it is to."""
    sung: list[tuple[str, str | None, str]] = []

    def perform(tx: Transaction, by: Principal, proposal: Proposal) -> object:
        actor = by.acting_for(proposal.agent)
        tx.record("sung", actor, {"song": proposal.payload["song"]}, agent=proposal.agent)
        server.house.crew.set_current_task(tx, proposal.agent, "tsk_sung")
        sung.append((actor.name, actor.via, proposal.id))
        if error is not None:
            raise error
        return {"id": "sng_1"}

    server.house.proposals.performers["sing"] = perform
    return sung


def decide(client: httpx.Client, proposal: Proposal, verb: str, note: str = "") -> httpx.Response:
    return client.post(f"/api/v1/proposals/{proposal.id}/{verb}", json={"note": note} if note else None)


def state(server: Ringfence, proposal: Proposal) -> str:
    found: str = server.admin.get(f"/api/v1/proposals/{proposal.id}").json()["state"]
    return found


def current_task(server: Ringfence) -> object:
    return server.admin.get("/api/v1/crew/claude").json()["current_task_id"]


# Proposing ------------------------------------------------------------------------------------------------------------


def test_a_proposal_waits_and_is_told(either: Ringfence):
    claude = either.agent("claude")
    made = propose(either, project="prj_1", task="tsk_1", why="it is late")
    seen = claude.get(f"/api/v1/proposals/{made.id}").json()
    assert seen.keys() == {
        "id", "agent", "action", "project", "task", "payload", "why", "state", "created_at", "decided_at",
        "decided_by", "note", "result",
    }  # fmt: skip
    assert (seen["agent"], seen["action"], seen["project"], seen["task"]) == ("claude", "sing", "prj_1", "tsk_1")
    assert (seen["payload"], seen["why"], seen["state"]) == ({"song": 1}, "it is late", "pending")
    assert seen["decided_at"] is seen["decided_by"] is seen["result"] is None
    [event] = events(either, "proposal_created")
    assert (event["id"], event["payload"], event["why"]) == (made.id, {"song": 1}, "it is late")


def test_who_must_wait_is_answered_202_with_the_proposal(server: Ringfence):
    server.agent("claude")
    made = propose(server)
    answer = proposed(made)
    assert answer.status == 202
    assert isinstance(answer.body, dict)
    assert (answer.body["ok"], answer.body["proposal"]["id"]) == (False, made.id)
    assert made.id in answer.body["message"]


def test_an_equal_proposal_that_waits_is_the_same_one(either: Ringfence):
    either.agent("claude")
    first = propose(either, payload={"a": 1, "b": [2]})
    assert propose(either, payload={"b": [2], "a": 1}).id == first.id
    others = [
        propose(either, payload={"a": 2}), propose(either, payload={"a": 1, "b": [2]}, task="tsk_1"),
        propose(either, agent="other", payload={"a": 1, "b": [2]}), propose(either, "claude", "hum"),
    ]  # fmt: skip
    assert len({first.id, *(other.id for other in others)}) == 5
    assert len(events(either, "proposal_created")) == 5


def test_what_was_decided_may_be_proposed_again(server: Ringfence):
    server.agent("claude")
    first = propose(server)
    decide(server.admin, first, "deny")
    assert propose(server).id != first.id


def test_equal_proposals_at_once_on_two_servers_are_one(postgres_url: str, tmp_path: Path):
    with (
        running(tmp_path / "one", None, database=postgres_url) as one,
        running(tmp_path / "two", None, database=postgres_url) as two,
    ):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda number: propose(two if number % 2 else one).id, range(32)))
        assert len(set(found)) == 1
        assert len(events(one, "proposal_created")) == 1


def test_an_agent_cannot_flood_the_inbox(server: Ringfence):
    server.agent("claude")
    for number in range(PENDING):
        propose(server, payload={"song": number})
    with pytest.raises(Conflict) as refusal:
        propose(server, payload={"song": "one more"})
    assert refusal.value.code == "too_many_proposals"
    assert propose(server, payload={"song": 0}).state == "pending"
    assert propose(server, agent="other").state == "pending"


def test_a_huge_proposal_is_refused(server: Ringfence):
    with pytest.raises(TooLarge):
        propose(server, payload={"song": "la" * 100_000})


def test_proposals_survive_a_restart(either: Ringfence):
    either.agent("claude")
    made = propose(either)
    either.restart()
    sung = sings(either)
    assert decide(either.admin, made, "approve").json()["state"] == "approved"
    assert len(sung) == 1


# Deciding -------------------------------------------------------------------------------------------------------------


def test_approving_does_it_in_the_agents_name_through_the_operator(either: Ringfence):
    either.agent("claude")
    sung = sings(either)
    made = propose(either)
    answer = decide(either.admin, made, "approve", "go")
    assert answer.status_code == 200, answer.text
    assert sung == [("agent:claude", "operator:admin", made.id)]
    seen = answer.json()
    assert (seen["state"], seen["decided_by"], seen["note"], seen["result"]) == (
        "approved", "operator:admin", "go", {"id": "sng_1"},
    )  # fmt: skip
    assert current_task(either) == "tsk_sung"
    [did], [approved] = events(either, "sung"), events(either, "proposal_approved")
    assert (did["by"], did["via"]) == ("agent:claude", "operator:admin")
    assert (approved["id"], approved["by"], approved["note"]) == (made.id, "operator:admin", "go")


def test_what_can_no_longer_be_done_fails_with_409_and_leaves_nothing_else(either: Ringfence):
    either.agent("claude")
    sings(either, RuleBroken("the choir is full", code="choir_full"))
    made = propose(either)
    answer = decide(either.admin, made, "approve")
    assert refused(answer, 409, "proposal_failed") == "the choir is full"
    assert answer.json()["proposal"]["state"] == "failed"
    seen = either.admin.get(f"/api/v1/proposals/{made.id}").json()
    assert (seen["state"], seen["result"]) == ("failed", {"error": "the choir is full", "code": "choir_full"})
    assert current_task(either) is None
    assert events(either, "sung") == []
    assert [event["id"] for event in events(either, "proposal_failed")] == [made.id]
    assert events(either, "refused") == []


@pytest.mark.parametrize("error", [Unavailable("not now"), RateLimited("slowly", retry_after=5)])
def test_what_may_work_another_time_leaves_the_proposal_waiting(server: Ringfence, error: Exception):
    server.agent("claude")
    sings(server, error)
    made = propose(server)
    assert decide(server.admin, made, "approve").status_code in (429, 503)
    assert (state(server, made), current_task(server), events(server, "sung")) == ("pending", None, [])


def test_an_error_of_ours_leaves_the_proposal_waiting(server: Ringfence):
    server.agent("claude")
    sings(server, KeyError("bug"))
    made = propose(server)
    assert decide(server.admin, made, "approve").status_code == 500
    assert (state(server, made), current_task(server)) == ("pending", None)


def test_the_proposal_of_a_paused_agent_waits_until_it_is_resumed(server: Ringfence):
    server.agent("claude")
    sings(server)
    made = propose(server)
    server.admin.post("/agents/claude/pause")
    refused(decide(server.admin, made, "approve"), 409, "agent_paused")
    assert state(server, made) == "pending"
    server.admin.post("/agents/claude/resume")
    assert decide(server.admin, made, "approve").status_code == 200


def test_what_nothing_here_can_do_fails(server: Ringfence):
    server.agent("claude")
    made = propose(server, action="unheard-of")
    refused(decide(server.admin, made, "approve"), 409, "proposal_failed")


def test_denying_tells_why_and_does_nothing(either: Ringfence):
    claude = either.agent("claude")
    sung = sings(either)
    made = propose(either)
    assert decide(either.admin, made, "deny", "too loud").json()["state"] == "denied"
    seen = claude.get(f"/api/v1/proposals/{made.id}").json()
    assert (seen["note"], seen["decided_by"], sung) == ("too loud", "operator:admin", [])
    assert events(either, "proposal_denied")[0]["note"] == "too loud"


@pytest.mark.parametrize("first", ["approve", "deny", "withdraw"])
@pytest.mark.parametrize("then", ["approve", "deny", "withdraw"])
def test_a_decision_is_final(server: Ringfence, first: str, then: str):
    server.agent("claude")
    sung = sings(server)
    made = propose(server)
    assert decide(server.admin, made, first).status_code == 200
    decided = state(server, made)
    refused(decide(server.admin, made, then), 409, "proposal_decided")
    assert state(server, made) == decided
    assert len(sung) == (first == "approve")


def test_of_two_who_approve_at_once_one_does_it(either: Ringfence):
    either.agent("claude")
    sings(either)
    made = propose(either)
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: decide(either.admin, made, "approve").status_code, range(8)))
    assert sorted(codes) == [200] + [409] * 7
    assert len(events(either, "sung")) == 1


def test_of_two_servers_that_decide_at_once_one_does_it(postgres_url: str, tmp_path: Path):
    with (
        running(tmp_path / "one", None, database=postgres_url) as one,
        running(tmp_path / "two", None, database=postgres_url) as two,
    ):
        both = threading.Barrier(2, timeout=10)

        def perform(tx: Transaction, by: Principal, proposal: Proposal) -> object:
            if proposal.payload["together"] and both.n_waiting < 2 and not met.is_set():
                both.wait()
                met.set()
            tx.record("sung", by.actor, {})
            return None

        met = threading.Event()
        for server in (one, two):
            server.house.proposals.performers["sing"] = perform
        made = propose(one, payload={"together": True})
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda server: decide(server.admin, made, "approve"), (one, two)))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert len(events(one, "sung")) == 1
        assert state(one, made) == "approved"


def test_an_agent_withdraws_its_own(either: Ringfence):
    claude = either.agent("claude")
    made = propose(either)
    assert decide(claude, made, "withdraw").json()["state"] == "withdrawn"
    assert events(either, "proposal_withdrawn")[0]["by"] == "agent:claude"


# Revoked, or gone -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", [True, False])
def test_a_revoked_agents_proposals_are_withdrawn_with_the_reason(either: Ringfence, flush: bool):
    either.agent("claude")
    mine, others = propose(either), propose(either, agent="other")
    either.admin.post("/agents/claude/revoke", json={"flush_required": flush})
    assert (state(either, mine), state(either, others)) == ("withdrawn", "pending")
    [event] = events(either, "proposal_withdrawn")
    assert (event["id"], event["note"], event["by"]) == (mine.id, "the agent was revoked", "operator:admin")
    refused(decide(either.admin, mine, "approve"), 409, "proposal_decided")


def test_the_proposals_of_an_agent_that_leaves_are_withdrawn(server: Ringfence):
    claude = server.agent("claude")
    made = propose(server)
    claude.delete("/agents/claude")
    assert state(server, made) == "withdrawn"


# Who sees, who may ----------------------------------------------------------------------------------------------------


def test_an_agent_sees_its_own_proposals_only(server: Ringfence):
    claude, other = server.agent("claude"), server.agent("other")
    made = propose(server)
    assert [item["id"] for item in claude.get("/api/v1/proposals").json()["items"]] == [made.id]
    assert other.get("/api/v1/proposals").json()["items"] == []
    assert other.get("/api/v1/proposals", params={"agent": "claude"}).status_code == 403
    assert other.get(f"/api/v1/proposals/{made.id}").status_code == 404
    assert decide(other, made, "withdraw").status_code == 404


def test_an_agent_approves_nothing_and_neither_does_a_viewer(server: Ringfence):
    claude = server.agent("claude", scopes=["coordinator"])
    viewer = server.client(server.token("eve", Role.VIEWER))
    made = propose(server)
    for client in (claude, viewer):
        for verb in ("approve", "deny"):
            refused(decide(client, made, verb), 403, "role")
    assert viewer.get(f"/api/v1/proposals/{made.id}").status_code == 200
    assert state(server, made) == "pending"


def test_an_operator_decides_in_the_projects_they_see(server: Ringfence):
    sings(server)
    server.agent("claude")
    limited = server.client(server.token("lena", Role.OPERATOR, projects=["prj_1"]))
    mine, hidden = propose(server, project="prj_1"), propose(server, project="prj_2")
    assert [item["id"] for item in limited.get("/api/v1/proposals").json()["items"]] == [mine.id]
    for verb in ("approve", "deny", "withdraw"):
        assert decide(limited, hidden, verb).status_code == 404
    assert decide(limited, mine, "approve").status_code == 200


def test_proposals_are_listed_newest_first_filtered_and_paged(either: Ringfence):
    made = [propose(either, payload={"song": number}, project=f"prj_{number % 2}") for number in range(5)]
    decide(either.admin, made[0], "deny")

    def listed(**query: str) -> list[str]:
        answer = either.admin.get("/api/v1/proposals", params={"state": "pending", **query})
        return [item["id"] for item in answer.json()["items"]]

    ids = [proposal.id for proposal in made]
    assert listed() == ids[:0:-1]
    assert listed(project="prj_1") == [ids[3], ids[1]]
    assert listed(agent="nobody") == []
    assert listed(state="denied") == [ids[0]]
    first = either.admin.get("/api/v1/proposals", params={"limit": 2}).json()
    assert [item["id"] for item in first["items"]] == ids[:2:-1]
    assert listed(cursor=first["next"]) == [ids[2], ids[1]]
    assert either.admin.get("/api/v1/proposals", params={"state": "odd"}).status_code == 400


def test_a_proposal_nobody_made_is_not_found(server: Ringfence):
    for verb in ("approve", "deny", "withdraw"):
        assert server.admin.post(f"/api/v1/proposals/prp_nonsense/{verb}").status_code == 404
    assert server.admin.get("/api/v1/proposals/prp_nonsense").status_code == 404
