"""All SQL about agents, and how its rows become facts."""

import json
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.crew.model import Agent, Checkpoint, Mode, Revocation, Standing, Status, normalised
from ringfence.kernel.database import Query, Row
from ringfence.kernel.tables import metadata

agents = sa.Table(
    "agents",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("ceiling", sa.Text, nullable=False),
    sa.Column("registered_at", sa.BigInteger, nullable=False),
    sa.Column("last_heartbeat", sa.BigInteger, nullable=False),
    sa.Column("last_seen", sa.BigInteger, nullable=False),
    sa.Column("tick", sa.BigInteger, nullable=False),
    sa.Column("missed", sa.BigInteger, nullable=False),
    sa.Column("checkpoint_sequence", sa.BigInteger, nullable=False),
    sa.Column("current_task_id", sa.Text),
    sa.Column("paused_at", sa.BigInteger),
    sa.Column("pause_reason", sa.Text, nullable=False),
    sa.Column("frozen", sa.Integer, nullable=False),
    sa.Column("revocation", sa.Text),
    sa.Column("stalled_at", sa.BigInteger),
    sa.Column("stale_at", sa.BigInteger),
    sa.Column("offline_at", sa.BigInteger),
    # An agent that unregistered itself stays as a row, so that it cannot shed what people laid on it.
    sa.Column("gone_at", sa.BigInteger),
)

capabilities = sa.Table(
    "agent_capabilities",
    metadata,
    sa.Column("tag", sa.Text, primary_key=True),
    sa.Column("agent", sa.Text, primary_key=True),
    sa.Index("agent_capabilities_by_agent", "agent"),
)

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("task_id", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("rationale", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("submitted_at", sa.BigInteger, nullable=False),
    sa.Index("checkpoints_by_agent", "agent", "sequence", unique=True),
)

revocations = sa.Table(
    "revocations",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("flush_required", sa.Integer, nullable=False),
    sa.Column("issued_at", sa.BigInteger, nullable=False),
    sa.Column("issued_by", sa.Text, nullable=False),
    sa.Column("acknowledged_at", sa.BigInteger),
    sa.Column("superseded_at", sa.BigInteger),
    sa.Index("revocations_by_agent", "agent", "id"),
)

policy = sa.Table(
    "crew_policy",
    metadata,
    sa.Column("agent_type", sa.Text, primary_key=True),  # empty: every type that has no row of its own
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("ceiling", sa.Text, nullable=False),
    sa.Column("set_at", sa.BigInteger, nullable=False),
    sa.Column("set_by", sa.Text, nullable=False),
)

_c = agents.c
_here = _c.gone_at.is_(None)
_LIVENESS = sa.case(
    (_c.offline_at.is_not(None), Status.OFFLINE.value),
    (_c.stale_at.is_not(None), Status.STALE.value),
    (_c.stalled_at.is_not(None), Status.STALLED.value),
    else_=Status.ONLINE.value,
)
_STATUS = sa.case(
    (_c.revocation.is_not(None), Status.REVOKED.value),
    (_c.paused_at.is_not(None), Status.BUSY.value),
    else_=_LIVENESS,
)
_agent = sa.select(*_c, _STATUS.label("status"))
_AGENT_FIELDS = [*_c.keys(), "status"]

# Agents ---------------------------------------------------------------------------------------------------------------

AGENT = Query(_agent.where(_c.name == p("name"), _here))
# Also one that is gone, and nobody else's to change until this transaction ends.
AGENT_OR_GONE = Query(_agent.where(_c.name == p("name")).with_for_update(key_share=True))
AGENTS = Query(
    _agent.where(
        _here,
        _c.name > p("cursor"),
        sa.or_(p("status") == "", p("status") == _STATUS),
        sa.or_(p("type") == "", _c.type == p("type")),
        sa.or_(
            p("capability") == "",
            sa.exists().where(capabilities.c.agent == _c.name, capabilities.c.tag == p("capability")),
        ),
    )
    .order_by(_c.name)
    .limit(p("limit"))
)
ROSTER = Query(sa.select(_c.name, _c.type).where(_here).order_by(_c.name))
ABLE = Query(
    sa.select(_c.name)
    .join(capabilities, capabilities.c.agent == _c.name)
    .where(capabilities.c.tag == p("tag"), _here)
    .order_by(_c.name)
)

_standing = sa.select(
    _c.name, _c.type, _c.mode, _c.tags, _c.paused_at, _c.pause_reason, _c.frozen, _c.revocation,
    _LIVENESS.label("liveness"),
).where(_c.name == p("name"), _here)  # fmt: skip
STANDING = Query(_standing)
# Revoking and pausing wait for whoever read this, and then see what they did.
STANDING_HELD = Query(_standing.with_for_update(key_share=True))

ADD_AGENT = Query(sa.insert(agents))
REFRESH = Query(
    sa.update(agents)
    .where(_c.name == p("who"))
    .values(
        type=p("new_type"), metadata=p("new_metadata"), tags=p("new_tags"), registered_at=p("since"),
        last_heartbeat=p("at"), last_seen=p("at"), gone_at=sa.null(),
    )
)  # fmt: skip
SET_TAGS = Query(sa.update(agents).where(_c.name == p("who")).values(tags=p("new_tags"), description=p("told")))
ADD_CAPABILITY = Query(sa.insert(capabilities))
CLEAR_CAPABILITIES = Query(sa.delete(capabilities).where(capabilities.c.agent == p("who")))
SET_CURRENT_TASK = Query(sa.update(agents).where(_c.name == p("who")).values(current_task_id=p("task")))
LEAVE = Query(
    sa.update(agents)
    .where(_c.name == p("who"))
    .values(
        gone_at=p("at"), current_task_id=sa.null(), tick=0, missed=0,
        stalled_at=sa.null(), stale_at=sa.null(), offline_at=sa.null(),
        metadata="{}", tags="[]", description="",
    )
)  # fmt: skip
REMOVE = Query(sa.delete(agents).where(_c.name == p("who")))
ERASE_CHECKPOINTS = Query(sa.delete(checkpoints).where(checkpoints.c.agent == p("who")))
ERASE_REVOCATIONS = Query(sa.delete(revocations).where(revocations.c.agent == p("who")))

# Signs of life --------------------------------------------------------------------------------------------------------

HEARTBEAT = Query(
    sa.update(agents)
    .where(_c.name == p("who"), _here)
    .values(last_heartbeat=p("at"), last_seen=p("at"), tick=_c.tick + 1)
    .returning(_c.tick, _c.missed, _c.paused_at, _c.revocation, _c.stalled_at, _c.stale_at)
)
SEEN = Query(sa.update(agents).where(_c.name == p("who"), _c.last_seen < p("at"), _here).values(last_seen=p("at")))
# After the machine's clock was set back, a sign that lies in the future counts as one of now.
NOT_IN_FUTURE = Query(sa.update(agents).where(_c.last_seen > p("at"), _c.stale_at.is_(None)).values(last_seen=p("at")))
# A frozen agent cannot give a sign: it is not judged by its silence.
_judged = sa.and_(_here, sa.or_(_c.paused_at.is_(None), _c.frozen == 0))
SILENT = Query(
    sa.select(_c.name, _c.last_seen).where(_judged, _c.stale_at.is_(None), _c.last_seen < p("before")).order_by(_c.name)
)
SILENT_FOR_LONG = Query(
    sa.select(_c.name, _c.last_seen)
    .where(_judged, _c.offline_at.is_(None), _c.last_seen < p("before"))
    .order_by(_c.name)
)
AWAY = Query(sa.select(_c.name).where(_here, _c.stale_at.is_not(None)).order_by(_c.name))
MARK_STALE = Query(
    sa.update(agents)
    .where(_c.name == p("who"), _c.stale_at.is_(None), _c.last_seen < p("before"))
    .values(stale_at=p("at"))
)
MARK_OFFLINE = Query(
    sa.update(agents)
    .where(_c.name == p("who"), _c.offline_at.is_(None), _c.last_seen < p("before"))
    .values(offline_at=p("at"), stale_at=sa.func.coalesce(_c.stale_at, p("at")), current_task_id=sa.null())
)
MARK_BACK = Query(
    sa.update(agents)
    .where(_c.name == p("who"), _c.stale_at.is_not(None))
    .values(stale_at=sa.null(), offline_at=sa.null(), last_seen=p("at"))
)
MISSED = Query(sa.update(agents).where(_c.name == p("who")).values(missed=p("count"), stalled_at=p("since")))

# Autonomy -------------------------------------------------------------------------------------------------------------

SET_MODE = Query(sa.update(agents).where(_c.name == p("who")).values(mode=p("new_mode"), ceiling=p("new_ceiling")))
SET_MODES = Query(
    sa.update(agents)
    .where(sa.or_(p("kind") == "", _c.type == p("kind")))
    .values(mode=p("new_mode"), ceiling=p("new_ceiling"))
)
POLICY = Query(
    sa.select(policy.c.mode, policy.c.ceiling)
    .where(sa.or_(policy.c.agent_type == p("type"), policy.c.agent_type == ""))
    .order_by(policy.c.agent_type.desc())
    .limit(sa.literal_column("1"))
)
POLICIES = Query(sa.select(policy).order_by(policy.c.agent_type))
CLEAR_POLICY = Query(sa.delete(policy).where(sa.or_(p("kind") == "", policy.c.agent_type == p("kind"))))
ADD_POLICY = Query(sa.insert(policy))

# Pausing and revoking -------------------------------------------------------------------------------------------------

PAUSE = Query(
    sa.update(agents)
    .where(_c.name == p("who"))
    .values(paused_at=sa.func.coalesce(_c.paused_at, p("at")), pause_reason=p("reason"), frozen=p("freeze"))
)
# Its silence while it was frozen is not held against it.
RESUME = Query(
    sa.update(agents)
    .where(_c.name == p("who"), _c.paused_at.is_not(None))
    .values(
        paused_at=sa.null(), pause_reason="", frozen=0,
        last_seen=sa.case((_c.frozen == 1, p("at", type_=sa.BigInteger)), else_=_c.last_seen),
    )
)  # fmt: skip
SET_REVOCATION = Query(sa.update(agents).where(_c.name == p("who")).values(revocation=p("directive")))
RECOVER = Query(
    sa.update(agents)
    .where(_c.name == p("who"), _c.revocation == p("directive"))
    .values(revocation=sa.null(), tick=0, missed=0, stalled_at=sa.null())
)
REVOCATION = Query(sa.select(revocations).where(revocations.c.id == p("id")))
_by_agent = sa.or_(p("agent") == "", revocations.c.agent == p("agent"))
REVOCATIONS = Query(
    sa.select(revocations)
    .where(_by_agent, revocations.c.id < p("cursor"))
    .order_by(revocations.c.id.desc())
    .limit(p("limit"))
)
ADD_REVOCATION = Query(sa.insert(revocations))
SUPERSEDE = Query(
    sa.update(revocations)
    .where(
        revocations.c.agent == p("who"), revocations.c.acknowledged_at.is_(None), revocations.c.superseded_at.is_(None)
    )
    .values(superseded_at=p("at"))
)
ACKNOWLEDGE = Query(sa.update(revocations).where(revocations.c.id == p("directive")).values(acknowledged_at=p("at")))

# Checkpoints ----------------------------------------------------------------------------------------------------------

NEXT_CHECKPOINT = Query(
    sa.update(agents)
    .where(_c.name == p("who"), _here)
    .values(
        checkpoint_sequence=_c.checkpoint_sequence + 1, tick=0, missed=0, stalled_at=sa.null(),
        current_task_id=sa.func.coalesce(p("task", type_=sa.Text), _c.current_task_id),
    )
    .returning(_c.checkpoint_sequence)
)  # fmt: skip
ADD_CHECKPOINT = Query(sa.insert(checkpoints))
LAST_SEQUENCE = Query(sa.select(sa.func.max(checkpoints.c.sequence)).where(checkpoints.c.agent == p("agent")))
CHECKPOINTS = Query(
    sa.select(checkpoints)
    .where(checkpoints.c.agent == p("agent"), checkpoints.c.sequence < p("cursor", type_=sa.BigInteger))
    .order_by(checkpoints.c.sequence.desc())
    .limit(p("limit"))
)


def agent(row: Row) -> Agent:
    fields = dict(zip(_AGENT_FIELDS, row, strict=True))
    return Agent(
        **fields
        | {
            "metadata": json.loads(fields["metadata"]),
            "tags": tuple(json.loads(fields["tags"])),
            "mode": Mode(fields["mode"]),
            "ceiling": Mode(fields["ceiling"]),
            "frozen": bool(fields["frozen"]),
            "status": Status(fields["status"]),
        }
    )


def standing(row: Row) -> Standing:
    name, kind, mode, tags, paused_at, pause_reason, frozen, revoked, liveness = row
    return Standing(
        name, True, kind, Mode(mode), _able(tags), paused_at, pause_reason, bool(frozen), revoked, Status(liveness)
    )


@lru_cache(maxsize=1024)
def _able(tags: str) -> frozenset[str]:
    return frozenset(normalised(json.loads(tags)))


def revocation(row: Row) -> Revocation:
    directive, who, reason, flush, issued_at, issued_by, acknowledged_at, superseded_at = row
    return Revocation(directive, who, reason, bool(flush), issued_at, issued_by, acknowledged_at, superseded_at)


def checkpoint(row: Row) -> Checkpoint:
    ident, who, sequence, task_id, state, rationale, told, at = row
    return Checkpoint(ident, who, sequence, task_id, state, rationale, json.loads(told), at)
