"""All SQL about proposals."""

import json

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.crew.proposals.model import Proposal, ProposalState
from ringfence.kernel.database import Query, Row
from ringfence.kernel.tables import metadata

_is_pending = sa.text("state = 'pending'")

proposals = sa.Table(
    "proposals",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("project", sa.Text),
    sa.Column("task", sa.Text),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("decided_at", sa.BigInteger),
    sa.Column("decided_by", sa.Text),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("result", sa.Text),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Index("proposals_by_agent", "agent", "id"),
    # One of each kind waits, whichever server it came through.
    sa.Index(
        "proposals_pending_once", "fingerprint", unique=True, sqlite_where=_is_pending, postgresql_where=_is_pending
    ),
)

_c = proposals.c
_shown = sa.select(*[column for column in _c if column.name != "fingerprint"])

PROPOSAL = Query(_shown.where(_c.id == p("id")))
PENDING_LIKE = Query(_shown.where(_c.fingerprint == p("fingerprint"), _c.state == ProposalState.PENDING.value))
PENDING_OF = Query(_shown.where(_c.agent == p("agent"), _c.state == ProposalState.PENDING.value).order_by(_c.id))
PROPOSALS = Query(
    _shown.where(
        _c.id < p("cursor"),
        sa.or_(p("state") == "", _c.state == p("state")),
        sa.or_(p("agent") == "", _c.agent == p("agent")),
        sa.or_(p("project") == "", _c.project == p("project")),
    )
    .order_by(_c.id.desc())
    .limit(p("limit"))
)
ADD = Query(sa.insert(proposals))
DECIDE = Query(
    sa.update(proposals)
    .where(_c.id == p("which"), _c.state == ProposalState.PENDING.value)
    .values(state=p("becomes"), decided_at=p("at"), decided_by=p("who"), note=p("told"), result=p("outcome"))
)
ERASE = Query(sa.delete(proposals).where(_c.agent == p("who")))


def proposal(row: Row) -> Proposal:
    ident, agent, action, project, task, payload, why, state, created_at, decided_at, decided_by, note, result = row
    return Proposal(
        ident, agent, action, project, task, json.loads(payload), why, ProposalState(state), created_at, decided_at,
        decided_by, note, None if result is None else json.loads(result),
    )  # fmt: skip
