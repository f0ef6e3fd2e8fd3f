"""Proposals: what agents in advisory mode want to do, waiting for a person."""

from typing import Annotated, Literal

from typer import Argument, Option

from ringfence.cli.api import path
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.screen import Column, Item, when

proposal = Noun("proposal", "What advisory agents want to do: approve or deny.")

WISHES = {
    "transition": "move to {status}",
    "create_task": "write “{title}”",
    "edit_task": "edit",
    "assign": "assign to {agent}",
    "review": "sign as {reviewer}",
}


def wish(proposal: Item) -> object:
    """What it wants to do, in words."""
    words = WISHES.get(proposal["action"])
    try:
        return proposal["action"] if words is None else words.format_map(proposal["payload"])
    except KeyError:
        return proposal["action"]


State = Literal["pending", "approved", "denied", "failed", "withdrawn", "expired", "all"]
COLUMNS = [
    Column("id", "id", whole=True),
    Column("state", "state"),
    Column("agent", "agent"),
    Column("wants to", wish, prose=True),
    Column("task", "task"),
    Column("why", "why", prose=True),
    Column("created", when("created_at")),
]
FACTS = [
    *COLUMNS,
    Column("project", "project"),
    Column("with", "payload"),
    Column("decided", when("decided_at")),
    Column("decided by", "decided_by"),
    Column("note", "note", prose=True),
    Column("result", "result"),
]

Which = Annotated[str, Argument(metavar="PROPOSAL", help="Its id, or how the id begins or ends.")]
Note = Annotated[str | None, Option("--note", "-n", help="The agent is told.")]


@proposal.verb("list")
def list_proposals(
    run: Invocation,
    state: Annotated[State, Option(help="Only those.")] = "pending",
    agent: Annotated[str | None, Option(help="Only this agent's.")] = None,
    project: Annotated[str | None, Option("--project", "-p", help="The project's id or name.")] = None,
) -> None:
    """What waits for a decision."""
    found = run.api.every(
        "/api/v1/proposals",
        state=None if state == "all" else state, agent=agent, project=run.project(project) if project else None,
    )  # fmt: skip
    run.screen.items(found, COLUMNS, "nothing waits for approval" if state == "pending" else "no proposals")


@proposal.verb("show")
def show(run: Invocation, proposal: Which) -> None:
    """A proposal, with all that it would do."""
    run.screen.facts(run.find(proposal, "proposal", "/api/v1/proposals"), FACTS)


@proposal.verb("approve")
def approve(run: Invocation, proposal: Which, note: Note = None) -> None:
    """Approve a proposal: it is done at once, as the agent, if it still can be."""
    _decide(run, proposal, "approve", note)


@proposal.verb("deny")
def deny(run: Invocation, proposal: Which, note: Note = None) -> None:
    """Deny a proposal."""
    _decide(run, proposal, "deny", note)


@proposal.verb("withdraw")
def withdraw(run: Invocation, proposal: Which) -> None:
    """Take back what an agent proposed."""
    found = run.find(proposal, "proposal", "/api/v1/proposals")
    answer = run.api.post("/api/v1/proposals" + path(found["id"], "withdraw")).body
    run.screen.done(answer, f"Withdrawn: {found['agent']} wanted to {found['action']}.", found["id"])


def _decide(run: Invocation, word: str, verdict: str, note: str | None) -> None:
    found = run.find(word, "proposal", "/api/v1/proposals")
    answer = run.api.post("/api/v1/proposals" + path(found["id"], verdict), {"note": note}).body
    done = "Approved" if verdict == "approve" else "Denied"
    run.screen.done(answer, f"{done}: {found['agent']} wants to {found['action']}.", found["id"])
