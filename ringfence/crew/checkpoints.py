"""Checkpoints: what an agent says it is doing, expected every few heartbeats. All are kept, numbered per agent."""

from typing import Any

from ringfence.crew import store
from ringfence.crew.links import LinkPolicy, external_link
from ringfence.crew.model import Checkpoint, metadata_text
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.clock import MINUTE, SECOND
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import NotFound, RateLimited, RuleBroken
from ringfence.kernel.ids import new
from ringfence.settings import Settings

NEWEST = 1 << 62
PER_MINUTE = 120  # of one agent: they are all kept


class Checkpoints:
    def __init__(self, settings: Settings, crew: Crew) -> None:
        self._links = LinkPolicy(frozenset(settings.link_hosts))
        self._crew = crew

    def submit(
        self,
        tx: Transaction,
        by: Principal,
        name: str,
        *,
        task_id: str | None,
        state: str,
        rationale: str,
        metadata: dict[str, Any],
    ) -> Checkpoint:
        """The next checkpoint of an agent: it is no longer stalled."""
        actor = by.acting_for(name)
        agent = self._crew.held(tx, name)
        told = metadata_text(metadata)
        self._check_rate(tx, name, agent.checkpoint_sequence + 1 - PER_MINUTE)
        row = tx.row(store.NEXT_CHECKPOINT, who=name, task=task_id)
        assert row is not None
        checkpoint = Checkpoint(new("ckp"), name, row[0], task_id, state, rationale, metadata, tx.now)
        tx.run(
            store.ADD_CHECKPOINT,
            id=checkpoint.id, agent=name, sequence=checkpoint.sequence, task_id=task_id, state=state,
            rationale=rationale, metadata=told, submitted_at=tx.now,
        )  # fmt: skip
        event = {"agent": name, "task_id": task_id, "state": state[:500], "sequence": checkpoint.sequence}
        tx.record("checkpoint_submitted", actor, event, agent=name, subject=name)
        if agent.stalled_at is not None:
            tx.record("agent_unstalled", actor, {"name": name}, agent=name, subject=name)
        return checkpoint

    def _check_rate(self, tx: Transaction, name: str, sequence: int) -> None:
        """`sequence` is that of the oldest checkpoint that must be a minute old by now."""
        rows = tx.rows(store.CHECKPOINTS, agent=name, cursor=sequence + 1, limit=1)
        if rows and (left := store.checkpoint(rows[0]).submitted_at + MINUTE - tx.now) > 0:
            raise RateLimited(
                f"an agent may submit {PER_MINUTE} checkpoints in a minute: wait",
                retry_after=-(-left // SECOND), agent=name,
            )  # fmt: skip

    def latest(self, tx: Transaction, by: Principal, name: str) -> Checkpoint:
        found = self.history(tx, by, name, NEWEST, 1)
        if not found:
            raise NotFound(f"No checkpoint found of agent {name[:80]!r}")
        return found[0]

    def history(self, tx: Transaction, by: Principal, name: str, cursor: int, limit: int) -> list[Checkpoint]:
        """Newest first; an agent sees its own."""
        if by.is_agent:
            by.acting_for(name)
        rows = tx.rows(store.CHECKPOINTS, agent=name, cursor=cursor, limit=limit)
        return [store.checkpoint(row) for row in rows]

    def check_links(
        self, agent: str, task_id: str | None, state: str, rationale: str, metadata: dict[str, Any]
    ) -> None:
        """Refuse a checkpoint that leads outside. It takes a while: not for the writer's thread."""
        told = metadata_text(metadata)
        for where, text in (("state", state), ("rationale", rationale), ("metadata", told), ("task_id", task_id or "")):
            if text and (link := external_link(text, self._links)):
                raise RuleBroken(
                    f"Sandbox: checkpoint {where} blocked (external URL detected): {link!r} leads outside; take it "
                    "out, or ask an admin to allow its host in the setting link_hosts",
                    code="external_link", agent=agent,
                )  # fmt: skip
