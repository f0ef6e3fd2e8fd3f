"""Use cases of agents: registering, signs of life, capabilities, and what the other rooms ask before an agent may act.

    register ──► online ──silence──► stale ──silence──► offline (its claims return) ──any sign──► online
                   │ pause / resume: busy, may do nothing, keeps what it holds
                   └ revoke: revoked, may do nothing until it acknowledges; with a flush its claims return at once

Registering again changes what an agent says of itself, and nothing that people decided about it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringfence.crew import store
from ringfence.crew.model import (
    Agent,
    Mode,
    Policy,
    Pulse,
    Revocation,
    Standing,
    check_agent_name,
    metadata_text,
    mode_named,
    normalised,
    tags_of,
)
from ringfence.kernel.auth.model import Principal, TokenKind
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.clock import DAY, Clock
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, Forbidden, NotFound
from ringfence.kernel.events.model import SYSTEM, Actor
from ringfence.settings import Settings

# (transaction, who causes it, agent, reason) -> how many things it concerned
Hook = Callable[[Transaction, Actor, str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What an agent says of itself; None: as before, or the default."""

    name: str
    type: str | None = None
    metadata: dict[str, Any] | None = None
    mode: str | None = None
    capabilities: str | Sequence[str] | None = None
    scopes: tuple[str, ...] = field(default=())


class Crew:
    def __init__(self, settings: Settings, auth: Auth, clock: Clock) -> None:
        self._settings = settings
        self._auth = auth
        self._clock = clock
        self.signs: dict[str, int] = {}  # when each agent was last heard of, until the sweep has written it down
        self.on_release: list[Hook] = []  # an agent loses what it claimed
        self.on_flush: list[Hook] = []  # an agent loses what waits for it
        self.on_halt: list[Hook] = []  # an agent is revoked or gone
        self.on_freeze: list[Hook] = []  # an agent is paused in the middle of what it does
        self.on_thaw: list[Hook] = []  # it may go on with that
        auth.is_agent = lambda tx, name: tx.row(store.AGENT_OR_GONE, name=name) is not None
        self.holds_work: Callable[[Transaction, str], bool] = lambda tx, agent: False

    # What other rooms ask -------------------------------------------------------------------------------------------

    def standing(self, tx: Transaction, name: str) -> Standing:
        row = tx.row(store.STANDING, name=name)
        return self._unregistered(tx, name) if row is None else store.standing(row)

    def may_work(self, tx: Transaction, name: str, doing: str) -> Standing:
        """The agent's standing, if it may do something now; until this transaction ends nobody changes it.

        Whether it may begin something new is asked apart: one paused without a freeze ends what it has begun.
        """
        row = tx.row(store.STANDING_HELD, name=name)
        if row is None:
            return self._unregistered(tx, name)
        standing = store.standing(row)
        _check_awake(standing, doing)
        return standing

    def check_awake(self, tx: Transaction, name: str, doing: str) -> None:
        """The same where nothing is written."""
        _check_awake(self.standing(tx, name), doing)

    def may_begin(self, standing: Standing, doing: str) -> None:
        """Refuse new work to an agent that is paused."""
        if standing.paused_at is not None:
            raise _paused(standing, doing)

    def roster(self, tx: Transaction) -> list[tuple[str, str]]:
        """Name and type of every registered agent."""
        return [(name, kind) for name, kind in tx.rows(store.ROSTER)]

    def set_current_task(self, tx: Transaction, agent: str, task_id: str | None) -> None:
        tx.run(store.SET_CURRENT_TASK, who=agent, task=task_id)

    def seen(self, name: str) -> None:
        """A sign of life: any authenticated call of the agent."""
        self.signs[name] = self._clock.now()

    # Reading --------------------------------------------------------------------------------------------------------

    def agent(self, tx: Transaction, name: str) -> Agent:
        row = tx.row(store.AGENT, name=name)
        if row is None:
            raise _unknown(name)
        return store.agent(row)

    def page(
        self, tx: Transaction, cursor: str, limit: int, *, status: str = "", type: str = "", capability: str = ""
    ) -> list[Agent]:
        tag = capability.strip().lower()
        rows = tx.rows(store.AGENTS, cursor=cursor, limit=limit, status=status, type=type, capability=tag)
        return [store.agent(row) for row in rows]

    def able(self, tx: Transaction, tag: str) -> list[str]:
        """The agents that have this capability."""
        return [row[0] for row in tx.rows(store.ABLE, tag=tag.strip().lower())]

    def held(self, tx: Transaction, name: str) -> Agent:
        """The agent, which nobody else changes until this transaction ends."""
        row = tx.row(store.AGENT_OR_GONE, name=name)
        agent = None if row is None else store.agent(row)
        if agent is None or agent.gone_at is not None:
            raise _unknown(name)
        return agent

    def policy(self, tx: Transaction, type: str) -> Policy:
        """How far an agent of this type may go when nobody decided about it."""
        row = tx.row(store.POLICY, type=type)
        return Policy() if row is None else Policy(Mode(row[0]), Mode(row[1]))

    # Registering ----------------------------------------------------------------------------------------------------

    def register(
        self, tx: Transaction, by: Principal, wanted: Registration, seed: bytes | None = None
    ) -> tuple[Agent, str | None]:
        """The agent, and its new token unless it came with its own."""
        name = check_agent_name(wanted.name)
        if not by.is_person and (more := set(wanted.scopes) - by.scopes):
            raise Forbidden(f"your token does not give the scope {min(more)!r}: ask an operator", code="scope")
        actor = self._registrant(tx, by, name)
        row = tx.row(store.AGENT_OR_GONE, name=name)
        known = None if row is None else store.agent(row)
        if (known is None or known.gone_at is not None) and not by.is_agent and self._auth.named(tx, name):
            raise Conflict(f"the name {name!r} is taken by a person or a script: choose another", code="name_taken")
        if known is None:
            self._add(tx, by, wanted)
        else:
            self._refresh(tx, by, known, wanted)
        token = None if by.is_agent else self._token(tx, by, actor, wanted, seed)
        agent = self.agent(tx, name)
        told = {"name": name, "type": agent.type, "autonomy_mode": agent.mode, "capabilities": agent.tags}
        tx.record("agent_registered", actor, told, agent=name, subject=name)
        if known is not None and known.stale_at is not None:
            self.back(tx, actor, name, was_offline=known.offline_at is not None)
            agent = self.agent(tx, name)
        return agent, token

    def _registrant(self, tx: Transaction, by: Principal, name: str) -> Actor:
        if by.kind is TokenKind.ENROLMENT:
            self._auth.spend(tx, by)
            return Actor(f"agent:{name}", via=f"enrolment:{by.token_id}")
        return by.acting_for(name)

    def _add(self, tx: Transaction, by: Principal, wanted: Registration) -> None:
        kind = wanted.type or "unknown"
        policy = self.policy(tx, kind)
        if wanted.mode is not None:
            policy = self._chosen(by, policy, mode_named(wanted.mode))
        tags = tags_of(wanted.capabilities or ())
        sequence = tx.row(store.LAST_SEQUENCE, agent=wanted.name)
        tx.run(
            store.ADD_AGENT,
            name=wanted.name, type=kind, metadata=metadata_text(wanted.metadata or {}), tags=json.dumps(tags),
            description="", mode=policy.mode, ceiling=policy.ceiling,
            registered_at=tx.now, last_heartbeat=tx.now, last_seen=tx.now, tick=0, missed=0,
            checkpoint_sequence=(sequence and sequence[0]) or 0, current_task_id=None,
            paused_at=None, pause_reason="", frozen=0, revocation=None,
            stalled_at=None, stale_at=None, offline_at=None, gone_at=None,
        )  # fmt: skip
        self._index(tx, wanted.name, tags)

    def _chosen(self, by: Principal, policy: Policy, mode: Mode) -> Policy:
        """An operator decides; an agent that enrols itself chooses below the policy's ceiling."""
        if by.is_person:
            return Policy(mode, mode)
        if mode.exceeds(policy.ceiling):
            raise Forbidden(
                f"new agents may be {policy.ceiling} at most, not {mode}: "
                "register with less, and ask an operator to raise it",
                code="above_ceiling", ceiling=policy.ceiling,
            )  # fmt: skip
        return Policy(mode, policy.ceiling)

    def _refresh(self, tx: Transaction, by: Principal, known: Agent, wanted: Registration) -> None:
        """What the agent says of itself; its mode, ceiling, pause and revocation stay as people left them."""
        if by.kind is TokenKind.ENROLMENT and known.gone_at is None:
            raise Conflict(
                f"there is an agent {known.name!r} already: choose another name, or use that agent's own token",
                code="agent_exists", agent=known.name,
            )  # fmt: skip
        if by.is_person:
            check_unlimited(by, "register an agent again")
        if wanted.mode is not None:
            mode_named(wanted.mode)
        tags = known.tags if wanted.capabilities is None else tags_of(wanted.capabilities)
        metadata = known.metadata if wanted.metadata is None else wanted.metadata
        tx.run(
            store.REFRESH,
            who=known.name, new_type=wanted.type or known.type, new_metadata=metadata_text(metadata),
            new_tags=json.dumps(tags), since=known.registered_at if known.gone_at is None else tx.now, at=tx.now,
        )  # fmt: skip
        if wanted.capabilities is not None:
            self._index(tx, known.name, tags)

    def _token(self, tx: Transaction, by: Principal, actor: Actor, wanted: Registration, seed: bytes | None) -> str:
        scopes = tuple(wanted.scopes) if wanted.scopes or by.is_person else tuple(by.scopes)
        return self._auth.issue(
            tx, actor, TokenKind.AGENT, wanted.name,
            scopes=scopes, projects=by.projects, lives=int(self._settings.token_days * DAY), seed=seed,
        )[1]  # fmt: skip

    def unregister(self, tx: Transaction, by: Principal, name: str) -> None:
        """Take an agent off the roster: its claims return, what waits for it is set aside, its tokens end.

        One that leaves by itself meets, should it come back, the same mode, ceiling and pause; one that an operator
        removes is forgotten, but for its checkpoints.
        """
        actor = by.acting_for(name) if by.is_agent else by.actor
        agent = self.held(tx, name)
        if by.is_agent and agent.revocation is not None:
            raise Forbidden(
                f"agent {name!r} was revoked: acknowledge {agent.revocation} first, or ask an operator to remove it",
                code="agent_revoked", agent=name, revocation_id=agent.revocation,
            )  # fmt: skip
        if by.is_person:
            check_unlimited(by, "remove an agent")
        for hook in (*self.on_release, *self.on_flush, *self.on_halt):
            hook(tx, actor, name, "unregistered")
        tx.run(store.SUPERSEDE, who=name, at=tx.now)
        tx.run(store.CLEAR_CAPABILITIES, who=name)
        if by.is_agent:
            tx.run(store.LEAVE, who=name, at=tx.now)
        else:
            tx.run(store.REMOVE, who=name)
        self.signs.pop(name, None)
        tx.record("agent_unregistered", actor, {"name": name}, agent=name, subject=name)
        self._auth.revoke_tokens_of(tx, actor, name, TokenKind.AGENT)

    def erase(self, tx: Transaction, by: Principal, name: str) -> None:
        """Remove an agent with all that is kept of one that is gone: its checkpoints and revocations."""
        self.unregister(tx, by, name)
        tx.run(store.ERASE_CHECKPOINTS, who=name)
        tx.run(store.ERASE_REVOCATIONS, who=name)

    def set_capabilities(
        self, tx: Transaction, by: Principal, name: str, given: str | Sequence[str], description: str
    ) -> tuple[str, ...]:
        """The tags as submitted."""
        actor = by.acting_for(name)
        was = self.held(tx, name).tags
        if by.is_person:
            check_unlimited(by, "change an agent's capabilities")
        tags = tags_of(given)
        tx.run(store.SET_TAGS, who=name, new_tags=json.dumps(tags), told=description)
        self._index(tx, name, tags)
        told = {"name": name, "tags": tags, "was": {"tags": was}}
        tx.record("agent_capabilities_changed", actor, told, agent=name, subject=name)
        return tags

    # Signs of life --------------------------------------------------------------------------------------------------

    def heartbeat(self, tx: Transaction, by: Principal, name: str) -> Pulse:
        """A sign of life, which lifts nothing; its answer tells the agent what it is to do."""
        actor = by.acting_for(name)
        row = tx.row(store.HEARTBEAT, who=name, at=tx.now)
        if row is None:
            raise _unknown(name)
        tick, missed, paused_at, directive, stalled_at, stale_at = row
        if stale_at is not None:
            self.back(tx, actor, name)
        if tick % self._settings.checkpoint_every == 0 and self.holds_work(tx, name):
            self._missed(tx, name, missed + 1, stalled_at)
        due = tick >= self._settings.checkpoint_every
        revocation = None if directive is None else self.revocation(tx, directive)
        return Pulse(tick, due, paused_at is not None, revocation)

    def back(self, tx: Transaction, by: Actor, name: str, *, was_offline: bool | None = None) -> None:
        """A silent agent gave a sign."""
        if was_offline is None:
            was_offline = self.agent(tx, name).offline_at is not None
        if tx.run(store.MARK_BACK, who=name, at=tx.now):
            told = {"name": name, "was": "offline" if was_offline else "stale"}
            tx.record("agent_back", by, told, agent=name, subject=name)

    def revocation(self, tx: Transaction, directive: str) -> Revocation:
        row = tx.row(store.REVOCATION, id=directive)
        assert row is not None
        return store.revocation(row)

    def _missed(self, tx: Transaction, name: str, count: int, stalled_at: int | None) -> None:
        stalled = count >= self._settings.checkpoint_missed
        tx.run(store.MISSED, who=name, count=count, since=(stalled_at or tx.now) if stalled else stalled_at)
        if stalled and stalled_at is None:
            tx.record("agent_stalled", SYSTEM, {"name": name, "missed": count}, agent=name, subject=name)

    def _index(self, tx: Transaction, name: str, tags: Sequence[str]) -> None:
        tx.run(store.CLEAR_CAPABILITIES, who=name)
        if tags:
            tx.run_many(store.ADD_CAPABILITY, [{"agent": name, "tag": tag} for tag in normalised(tags)])

    def _unregistered(self, tx: Transaction, name: str) -> Standing:
        return Standing(name, False, "unknown", self.policy(tx, "unknown").mode, frozenset())


def check_unlimited(by: Principal, what: str) -> None:
    """Agents belong to no project: whoever is limited to some projects does not decide about them."""
    if by.projects is not None:
        raise Forbidden(
            f"you see some projects only, and agents work in all: ask an operator without that limit to {what}",
            code="limited_to_projects",
        )


def _check_awake(agent: Standing, doing: str) -> None:
    if agent.revoked is not None:
        raise Forbidden(
            f"agent {agent.name!r} was revoked and cannot {doing}: halt, read GET /agents/{agent.name}/revocation, "
            f"and acknowledge {agent.revoked}",
            code="agent_revoked", agent=agent.name, revocation_id=agent.revoked,
        )  # fmt: skip
    if agent.frozen:
        raise _paused(agent, doing)


def _paused(agent: Standing, doing: str) -> Forbidden:
    why = f" ({agent.pause_reason})" if agent.pause_reason else ""
    return Forbidden(
        f"agent {agent.name!r} is paused{why} and cannot {doing}: wait until an operator resumes it",
        code="agent_paused", agent=agent.name,
    )  # fmt: skip


def _unknown(name: str) -> NotFound:
    return NotFound(f"agent not found: {name[:80]!r} is not registered; POST /agents/register does it")
