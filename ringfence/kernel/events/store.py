"""All SQL of the event table."""

from functools import cache

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.kernel.tables import metadata

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
)

HEAD = sa.select(events.c.seq, events.c.hash).order_by(events.c.seq.desc()).limit(sa.literal_column("1"))
INSERT = sa.insert(events)

AFTER = sa.select(events).where(events.c.seq > p("after", type_=sa.BigInteger)).order_by(events.c.seq).limit(p("limit"))
ONE = sa.select(events).where(events.c.seq == p("seq", type_=sa.BigInteger))
DELETE_BEFORE = sa.delete(events).where(events.c.seq < p("seq", type_=sa.BigInteger))
PRUNINGS = sa.select(events).where(events.c.kind == "events_pruned").order_by(events.c.seq.desc())


@cache
def listing(filters: frozenset[str], *, newest_first: bool) -> sa.Select[tuple[object, ...]]:
    """Events on one side of `cursor`, narrowed by equality on each column named in `filters`."""
    cursor = p("cursor", type_=sa.BigInteger)
    query = sa.select(events).where(events.c.seq < cursor if newest_first else events.c.seq > cursor)
    for name in sorted(filters):
        query = query.where(events.c[name] == p(name))
    return query.order_by(events.c.seq.desc() if newest_first else events.c.seq).limit(p("limit"))
