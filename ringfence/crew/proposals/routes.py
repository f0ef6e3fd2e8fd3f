"""Proposals over HTTP."""

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from ringfence.crew.proposals.model import Proposal, ProposalState
from ringfence.crew.proposals.service import Proposals
from ringfence.kernel.clock import iso, iso_or_none
from ringfence.kernel.errors import Conflict
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Nothing, Page
from ringfence.kernel.http.openapi import Listed


class ProposalView(TypedDict):
    id: str
    agent: str
    action: str
    project: str | None
    task: str | None
    payload: dict[str, Any]
    why: str
    state: ProposalState
    created_at: str
    decided_at: str | None
    decided_by: str | None
    note: str
    result: dict[str, Any] | None


class Proposed(TypedDict):
    ok: bool
    proposal: ProposalView
    message: str


class NoteBody(Fields):
    note: Annotated[str, Field(max_length=2000)] = ""


class ProposalsQuery(Fields):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: Annotated[str, Field(pattern=r"^[a-z0-9_]{0,64}$")] | None = None
    state: ProposalState | None = None
    agent: Annotated[str, Field(max_length=64)] | None = None
    project: Annotated[str, Field(max_length=64)] | None = None


def proposal_view(proposal: Proposal) -> ProposalView:
    return {
        "id": proposal.id,
        "agent": proposal.agent,
        "action": proposal.action,
        "project": proposal.project,
        "task": proposal.task,
        "payload": proposal.payload,
        "why": proposal.why,
        "state": proposal.state,
        "created_at": iso(proposal.created_at),
        "decided_at": iso_or_none(proposal.decided_at),
        "decided_by": proposal.decided_by,
        "note": proposal.note,
        "result": proposal.result,
    }


def proposed(proposal: Proposal) -> Answer:
    """202: an advisory agent asked for something that a person must approve."""
    body: Proposed = {
        "ok": False,
        "proposal": proposal_view(proposal),
        "message": (
            f"agent {proposal.agent!r} is advisory: a person must approve this first; "
            f"GET /api/v1/proposals/{proposal.id} tells what became of it"
        ),
    }
    return Answer(body, 202)


def routes(proposals: Proposals) -> Api:
    api = Api("proposals")

    @api.route("GET", "/api/v1/proposals", access=Access.READ, query=ProposalsQuery, answers=Listed(ProposalView))
    async def list_proposals(call: Call[Fields, ProposalsQuery]) -> Page:
        """What agents proposed, newest first; an agent sees its own."""
        query = call.query
        limit = query.limit or call.server.settings.page_size
        found, following = await call.read(
            lambda tx: proposals.page(
                tx, call.principal, query.cursor or "", limit,
                state=query.state or "", agent=query.agent or "", project=query.project or "",
            )
        )  # fmt: skip
        return Page([proposal_view(proposal) for proposal in found], following)

    @api.route("GET", "/api/v1/proposals/{proposal_id}", access=Access.READ, answers=ProposalView)
    async def get_proposal(call: Call[Fields, Fields]) -> ProposalView:
        """One proposal, and what became of it."""
        return proposal_view(await call.read(lambda tx: proposals.find(tx, call.principal, call["proposal_id"])))

    @api.route(
        "POST", "/api/v1/proposals/{proposal_id}/approve",
        access=Access.STEER, body=NoteBody, answers=ProposalView,
    )  # fmt: skip
    async def approve(call: Call[NoteBody, Fields]) -> ProposalView:
        """Approve: it is done at once, as its agent. What can no longer be done answers 409, and is `failed`."""
        decided = await call.write(
            lambda tx: proposals.approve(tx, call.principal, call["proposal_id"], call.body.note)
        )
        if decided.state is ProposalState.FAILED:
            raise _failed(decided)
        return proposal_view(decided)

    @api.route("POST", "/api/v1/proposals/{proposal_id}/deny", access=Access.STEER, body=NoteBody, answers=ProposalView)
    async def deny(call: Call[NoteBody, Fields]) -> ProposalView:
        """Deny; the note tells the agent why."""
        return proposal_view(
            await call.write(lambda tx: proposals.deny(tx, call.principal, call["proposal_id"], call.body.note))
        )

    @api.route(
        "POST", "/api/v1/proposals/{proposal_id}/withdraw", access=Access.ACT, body=Nothing, answers=ProposalView
    )
    async def withdraw(call: Call[Nothing, Fields]) -> ProposalView:
        """Take back what you proposed."""
        return proposal_view(await call.write(lambda tx: proposals.withdraw(tx, call.principal, call["proposal_id"])))

    return api


def _failed(proposal: Proposal) -> Conflict:
    error = Conflict(
        str((proposal.result or {}).get("error")), code="proposal_failed", proposal=proposal_view(proposal)
    )
    error.recorded = True  # `proposal_failed` tells of it
    return error
