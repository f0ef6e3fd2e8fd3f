"""Use cases of proposals. Rooms say in `performers` how each action is done once a person approved it."""

import json
from collections.abc import Callable
from typing import Any

from ringfence.crew.proposals import store
from ringfence.crew.proposals.model import (
    PENDING,
    WHY_LENGTH,
    Proposal,
    ProposalState,
    fingerprint,
    outcome,
    payload_text,
)
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, NotFound, RateLimited, RingfenceError, Unavailable
from ringfence.kernel.events.model import Actor
from ringfence.kernel.ids import new

NEWEST = "~"  # sorts after every id

Performer = Callable[[Transaction, Principal, Proposal], object]


class Proposals:
    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.performers: dict[str, Performer] = {}
        crew.on_halt.append(self.withdraw_all)

    def propose(
        self,
        tx: Transaction,
        by: Actor,
        agent: str,
        action: str,
        *,
        project: str | None,
        task: str | None,
        payload: dict[str, Any],
        why: str = "",
    ) -> Proposal:
        """A proposal that waits for a person; an equal one that waits already is the same."""
        text = payload_text(payload)
        mark = fingerprint(agent, action, project, task, text)
        known = tx.row(store.PENDING_LIKE, fingerprint=mark)
        if known is not None:
            return store.proposal(known)
        if len(tx.rows(store.PENDING_OF, agent=agent)) >= PENDING:
            raise Conflict(
                f"{PENDING} proposals of agent {agent!r} wait for a person: withdraw some, or wait",
                code="too_many_proposals", agent=agent,
            )  # fmt: skip
        ident = new("prp")
        tx.run(
            store.ADD,
            id=ident, agent=agent, action=action, project=project, task=task, payload=text, why=why[:WHY_LENGTH],
            state=ProposalState.PENDING, created_at=tx.now, decided_at=None, decided_by=None, note="", result=None,
            fingerprint=mark,
        )  # fmt: skip
        proposal = self._get(tx, ident)
        self._record(tx, "proposal_created", by, proposal, {"payload": proposal.payload, "why": proposal.why})
        return proposal

    # Reading --------------------------------------------------------------------------------------------------------

    def find(self, tx: Transaction, by: Principal, ident: str) -> Proposal:
        """The proposal, if it is yours to see: an agent sees its own, a person those of their projects."""
        row = tx.row(store.PROPOSAL, id=ident)
        proposal = None if row is None else store.proposal(row)
        if proposal is None or not _visible(by, proposal):
            raise NotFound(f"there is no proposal {ident[:64]!r}")
        return proposal

    def page(
        self, tx: Transaction, by: Principal, cursor: str, limit: int, *, state: str, agent: str, project: str
    ) -> tuple[list[Proposal], str | None]:
        """Newest first, and where the next page begins."""
        if by.is_agent:
            agent = agent or by.name
            by.acting_for(agent)
        rows = tx.rows(store.PROPOSALS, cursor=cursor or NEWEST, limit=limit, state=state, agent=agent, project=project)
        found = [store.proposal(row) for row in rows]
        following = found[-1].id if len(found) == limit else None
        return [proposal for proposal in found if _visible(by, proposal)], following

    # Deciding -------------------------------------------------------------------------------------------------------

    def approve(self, tx: Transaction, by: Principal, ident: str, note: str) -> Proposal:
        """Do what was proposed, as its agent. Everything but the mode is checked again: what can no longer be done
        makes the proposal `failed`, and nothing else changes."""
        proposal = self._pending(tx, by, ident)
        if self._crew.standing(tx, proposal.agent).frozen:
            raise _paused(proposal)
        try:
            with tx.savepoint():
                result = outcome(self._performer(proposal)(tx, by, proposal))
        except (Unavailable, RateLimited):
            raise  # another time it may work
        except RingfenceError as error:
            if error.code == "agent_paused":  # it would begin something new
                raise _paused(proposal) from None
            failure = {"error": error.message, "code": error.code}
            return self._decide(tx, by.actor, proposal, ProposalState.FAILED, note, failure)
        return self._decide(tx, by.actor, proposal, ProposalState.APPROVED, note, result)

    def deny(self, tx: Transaction, by: Principal, ident: str, note: str) -> Proposal:
        return self._decide(tx, by.actor, self._pending(tx, by, ident), ProposalState.DENIED, note)

    def withdraw(self, tx: Transaction, by: Principal, ident: str) -> Proposal:
        """Its agent changed its mind."""
        proposal = self._pending(tx, by, ident)
        return self._decide(tx, by.acting_for(proposal.agent), proposal, ProposalState.WITHDRAWN, "")

    def withdraw_all(self, tx: Transaction, by: Actor, agent: str, reason: str) -> int:
        """The agent was revoked or is gone: nobody is asked any more."""
        waiting = [store.proposal(row) for row in tx.rows(store.PENDING_OF, agent=agent)]
        for proposal in waiting:
            self._decide(tx, by, proposal, ProposalState.WITHDRAWN, f"the agent was {reason}")
        return len(waiting)

    def erase(self, tx: Transaction, agent: str) -> None:
        """Remove what an agent ever proposed; the events stay."""
        tx.run(store.ERASE, who=agent)

    def _pending(self, tx: Transaction, by: Principal, ident: str) -> Proposal:
        proposal = self.find(tx, by, ident)
        if proposal.state is not ProposalState.PENDING:
            raise _decided(proposal)
        return proposal

    def _performer(self, proposal: Proposal) -> Performer:
        performer = self.performers.get(proposal.action)
        if performer is None:
            raise Conflict(f"nothing here can do {proposal.action!r} any more", code="unknown_action")
        return performer

    def _decide(
        self,
        tx: Transaction,
        by: Actor,
        proposal: Proposal,
        state: ProposalState,
        note: str,
        result: dict[str, Any] | None = None,
    ) -> Proposal:
        """Last of all, so that of two decisions at once the later one undoes itself."""
        text = None if result is None else json.dumps(result)
        if not tx.run(store.DECIDE, which=proposal.id, becomes=state, at=tx.now, who=by.name, told=note, outcome=text):
            raise _decided(self._get(tx, proposal.id))
        decided = self._get(tx, proposal.id)
        self._record(tx, f"proposal_{state}", by, decided, {"note": note, "result": result})
        return decided

    def _get(self, tx: Transaction, ident: str) -> Proposal:
        row = tx.row(store.PROPOSAL, id=ident)
        assert row is not None
        return store.proposal(row)

    def _record(self, tx: Transaction, kind: str, by: Actor, proposal: Proposal, more: dict[str, Any]) -> None:
        told = {
            "id": proposal.id,
            "agent": proposal.agent,
            "action": proposal.action,
            "project": proposal.project,
            "task": proposal.task,
        }
        tx.record(kind, by, told | more, project=proposal.project, agent=proposal.agent, subject=proposal.id)


def _visible(by: Principal, proposal: Proposal) -> bool:
    return proposal.agent == by.name if by.is_agent else by.sees(proposal.project)


def _paused(proposal: Proposal) -> Conflict:
    return Conflict(
        f"agent {proposal.agent!r} is paused: resume it first; its proposal waits",
        code="agent_paused", project=proposal.project, agent=proposal.agent, subject=proposal.id,
    )  # fmt: skip


def _decided(proposal: Proposal) -> Conflict:
    who = f" by {proposal.decided_by}" if proposal.decided_by else ""
    return Conflict(
        f"proposal {proposal.id} was {proposal.state} already{who}",
        code="proposal_decided", project=proposal.project, agent=proposal.agent, subject=proposal.id,
        state=proposal.state,
    )  # fmt: skip
