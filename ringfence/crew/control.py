"""What people decide about agents: how far each goes alone, pausing, revoking. The server enforces it at once.

revoke ──► the directive is told at every poll and heartbeat ──► the agent acknowledges its id ──► recovered
             │ another revoke: the newer directive replaces it
"""

from ringfence.crew import store
from ringfence.crew.model import Agent, Mode, Policy, Revocation, mode_named
from ringfence.crew.service import Crew, check_unlimited
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from ringfence.kernel.ids import new

NEWEST = "~"  # sorts after every id


class Control:
    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    # Autonomy -------------------------------------------------------------------------------------------------------

    def set_mode(self, tx: Transaction, by: Principal, name: str, mode: str | None, ceiling: str | None) -> Agent:
        """Operators set mode and ceiling; an agent sets its own mode up to its ceiling."""
        if by.is_agent:
            by.acting_for(name)
            agent = self._crew.held(tx, name)
            chosen = self._own_mode(agent, mode, ceiling)
        else:
            check_unlimited(by, "set an agent's mode")
            agent = self._crew.held(tx, name)
            chosen = _chosen(mode, ceiling, agent.mode)
        tx.run(store.SET_MODE, who=name, new_mode=chosen.mode, new_ceiling=chosen.ceiling)
        was = {"mode": agent.mode, "ceiling": agent.ceiling}
        told = {"name": name, "mode": chosen.mode, "ceiling": chosen.ceiling, "was": was}
        tx.record("agent_autonomy_changed", by.actor, told, agent=name, subject=name)
        return self._crew.agent(tx, name)

    def _own_mode(self, agent: Agent, mode: str | None, ceiling: str | None) -> Policy:
        wanted = mode_named(mode or Mode.FULLY_AUTONOMOUS)
        if ceiling is not None:
            raise Forbidden("only an operator may set the ceiling of a mode", code="role", agent=agent.name)
        if wanted.exceeds(agent.ceiling):
            raise Forbidden(
                f"agent {agent.name!r} may be {agent.ceiling} at most, not {wanted}: ask an operator for more",
                code="above_ceiling", agent=agent.name, ceiling=agent.ceiling,
            )  # fmt: skip
        return Policy(wanted, agent.ceiling)

    def set_all_modes(
        self, tx: Transaction, by: Principal, mode: str, ceiling: str | None, agent_type: str
    ) -> tuple[Policy, list[str]]:
        """For the agents there are and those to come; the names of those there are."""
        check_unlimited(by, "set the mode of all agents")
        chosen = _chosen(mode, ceiling, Mode.FULLY_AUTONOMOUS)
        tx.run(store.CLEAR_POLICY, kind=agent_type)
        tx.run(
            store.ADD_POLICY,
            agent_type=agent_type, mode=chosen.mode, ceiling=chosen.ceiling, set_at=tx.now, set_by=by.actor.name,
        )  # fmt: skip
        tx.run(store.SET_MODES, kind=agent_type, new_mode=chosen.mode, new_ceiling=chosen.ceiling)
        names = [name for name, kind in self._crew.roster(tx) if agent_type in ("", kind)]
        told = {"mode": chosen.mode, "ceiling": chosen.ceiling, "agent_type": agent_type or None, "agents": names}
        tx.record("global_autonomy_changed", by.actor, told)
        return chosen, names

    def policies(self, tx: Transaction) -> list[tuple[str, Policy, int, str]]:
        """Type (empty: all others), policy, since when, by whom."""
        return [
            (kind, Policy(Mode(mode), Mode(ceiling)), set_at, set_by)
            for kind, mode, ceiling, set_at, set_by in tx.rows(store.POLICIES)
        ]

    # Pausing --------------------------------------------------------------------------------------------------------

    def pause(self, tx: Transaction, by: Principal, name: str, reason: str, *, freeze: bool) -> Agent:
        """Nothing new from this agent. It keeps what it holds; `freeze` also stops it in the middle of that."""
        check_unlimited(by, "pause an agent")
        self._crew.held(tx, name)
        self._pause(tx, by, name, reason, freeze=freeze)
        return self._crew.agent(tx, name)

    def resume(self, tx: Transaction, by: Principal, name: str) -> Agent:
        check_unlimited(by, "resume an agent")
        self._crew.held(tx, name)
        self._resume(tx, by, name, "")
        return self._crew.agent(tx, name)

    def pause_all(self, tx: Transaction, by: Principal, reason: str, agent_type: str, *, freeze: bool) -> list[str]:
        """The names of the agents that are paused now."""
        check_unlimited(by, "pause all agents")
        names = [name for name, kind in self._crew.roster(tx) if agent_type in ("", kind)]
        for name in names:
            self._pause(tx, by, name, reason, freeze=freeze)
        return names

    def resume_all(self, tx: Transaction, by: Principal, reason: str, agent_type: str) -> list[str]:
        """The names of the agents that were paused; also those that were paused one by one."""
        check_unlimited(by, "resume all agents")
        names = [name for name, kind in self._crew.roster(tx) if agent_type in ("", kind)]
        return [name for name in names if self._resume(tx, by, name, reason)]

    def _pause(self, tx: Transaction, by: Principal, name: str, reason: str, *, freeze: bool) -> None:
        tx.run(store.PAUSE, who=name, at=tx.now, reason=reason, freeze=int(freeze))
        for hook in self._crew.on_freeze if freeze else self._crew.on_thaw:
            hook(tx, by.actor, name, "paused")
        told = {"name": name, "reason": reason, "freeze": freeze}
        tx.record("agent_paused", by.actor, told, agent=name, subject=name)

    def _resume(self, tx: Transaction, by: Principal, name: str, reason: str) -> bool:
        if not tx.run(store.RESUME, who=name, at=tx.now):
            return False
        for hook in self._crew.on_thaw:
            hook(tx, by.actor, name, "resumed")
        tx.record("agent_resumed", by.actor, {"name": name, "reason": reason}, agent=name, subject=name)
        return True

    # Revoking -------------------------------------------------------------------------------------------------------

    def revoke(self, tx: Transaction, by: Principal, name: str, reason: str, *, flush_required: bool) -> Revocation:
        """Halt an agent. With a flush it loses its claims, and what waits for it is set aside."""
        check_unlimited(by, "revoke an agent")
        self._crew.held(tx, name)
        directive = new("rev")
        tx.run(store.SUPERSEDE, who=name, at=tx.now)
        tx.run(
            store.ADD_REVOCATION,
            id=directive, agent=name, reason=reason, flush_required=int(flush_required),
            issued_at=tx.now, issued_by=by.actor.name, acknowledged_at=None, superseded_at=None,
        )  # fmt: skip
        tx.run(store.SET_REVOCATION, who=name, directive=directive)
        returned = self._flush(tx, by, name) if flush_required else 0
        for hook in self._crew.on_halt:
            hook(tx, by.actor, name, "revoked")
        told = {"agent": name, "revocation_id": directive, "reason": reason, "flush_required": flush_required}
        tx.record("agent_revoked", by.actor, {**told, "returned_tasks": returned}, agent=name, subject=name)
        return self._crew.revocation(tx, directive)

    def _flush(self, tx: Transaction, by: Principal, name: str) -> int:
        returned = sum(hook(tx, by.actor, name, "revoked") for hook in self._crew.on_release)
        for hook in self._crew.on_flush:
            hook(tx, by.actor, name, "revoked")
        self._crew.set_current_task(tx, name, None)
        return returned

    def pending(self, tx: Transaction, by: Principal, name: str) -> Revocation | None:
        """The directive that waits for this agent: the same at every poll, until it is acknowledged."""
        if by.is_agent:
            by.acting_for(name)
        agent = self._crew.agent(tx, name)
        return None if agent.revocation is None else self._crew.revocation(tx, agent.revocation)

    def acknowledge(self, tx: Transaction, by: Principal, name: str, directive: str) -> None:
        """The agent has halted. What people paused stays paused."""
        actor = by.acting_for(name)
        if by.is_person:
            check_unlimited(by, "acknowledge a revocation for an agent")
        self._crew.held(tx, name)
        row = tx.row(store.REVOCATION, id=directive)
        revocation = None if row is None else store.revocation(row)
        if revocation is None or revocation.agent != name:
            raise NotFound(
                f"there is no revocation {directive[:64]!r} of agent {name!r}: "
                f"GET /agents/{name}/revocation tells the id to acknowledge"
            )
        if revocation.superseded_at is not None:
            raise Conflict(
                f"revocation {directive!r} was replaced by a newer one: GET /agents/{name}/revocation tells it",
                code="revocation_superseded", agent=name,
            )  # fmt: skip
        if tx.run(store.RECOVER, who=name, directive=directive):
            tx.run(store.ACKNOWLEDGE, directive=directive, at=tx.now)
            told = {"name": name, "revocation_id": directive}
            tx.record("agent_recovered", actor, told, agent=name, subject=name)

    def history(self, tx: Transaction, agent: str, cursor: str, limit: int) -> list[Revocation]:
        """Newest first; `agent` empty: of all."""
        rows = tx.rows(store.REVOCATIONS, agent=agent, cursor=cursor or NEWEST, limit=limit)
        return [store.revocation(row) for row in rows]


def _chosen(mode: str | None, ceiling: str | None, present: Mode) -> Policy:
    """What an operator means: a mode alone is the ceiling too, a ceiling alone lowers the present mode to it."""
    if mode is None and ceiling is not None:
        highest = mode_named(ceiling)
        return Policy(highest if present.exceeds(highest) else present, highest)
    wanted = mode_named(Mode.FULLY_AUTONOMOUS if mode is None else mode)
    highest = wanted if ceiling is None else mode_named(ceiling)
    if wanted.exceeds(highest):
        raise Invalid(f"the mode {wanted} is above the ceiling {highest}: raise the ceiling, or lower the mode")
    return Policy(wanted, highest)
