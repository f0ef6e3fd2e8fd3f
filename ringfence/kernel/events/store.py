"""All SQL of the event table."""

from functools import cache

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.kernel.tables import metadata

_VERIFIED = sa.text("kind = 'audit_verified'")  # few, and looked for among all

events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("via", sa.Text),
    sa.Column("agent", sa.Text),
    sa.Column("project", sa.Text),
    sa.Column("subject", sa.Text),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("prev", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Index("events_by_subject", "subject", "seq"),
    sa.Index("events_by_project", "project", "seq"),
    sa.Index("events_verified", "seq", sqlite_where=_VERIFIED, postgresql_where=_VERIFIED),
)

HEAD = sa.select(events.c.seq, events.c.hash).order_by(events.c.seq.desc()).limit(sa.literal_column("1"))
FIRST = sa.select(events.c.seq).order_by(events.c.seq).limit(sa.literal_column("1"))
INSERT = sa.insert(events)

AFTER = sa.select(events).where(events.c.seq > p("after", type_=sa.BigInteger)).order_by(events.c.seq).limit(p("limit"))
ONE = sa.select(events).where(events.c.seq == p("seq", type_=sa.BigInteger))
DELETE_BEFORE = sa.delete(events).where(events.c.seq < p("seq", type_=sa.BigInteger))
PRUNINGS = sa.select(events).where(events.c.kind == "events_pruned").order_by(events.c.seq.desc())


VERIFIED = sa.select(events).where(_VERIFIED).order_by(events.c.seq.desc()).limit(sa.literal_column("1"))


@cache
def listing(filters: frozenset[str], kinds: int, *, newest_first: bool) -> sa.Select[tuple[object, ...]]:
    """Events between `cursor`, which is none of them, and `end`; narrowed by equality on each column named in
    `filters`, to so many `kinds`, and to those that an agent did or is concerned by (`involves`)."""
    cursor, end = p("cursor", type_=sa.BigInteger), p("end", type_=sa.BigInteger)
    seq = events.c.seq
    query = sa.select(events).where(*((seq < cursor, seq >= end) if newest_first else (seq > cursor, seq <= end)))
    for name in sorted(filters - {"involves"}):
        query = query.where(events.c[name] == p(name))
    if "involves" in filters:
        query = query.where((events.c.agent == p("involves")) | (events.c.actor == p("involves_actor")))
    if kinds:
        query = query.where(events.c.kind.in_([p(f"kind_{number}") for number in range(kinds)]))
    return query.order_by(seq.desc() if newest_first else seq).limit(p("limit"))
