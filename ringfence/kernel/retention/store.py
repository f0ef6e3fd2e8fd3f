"""All SQL of retention: a row for what somebody chose while it ran; without one the setting counts."""

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.kernel.database import Query
from ringfence.kernel.tables import metadata

retention = sa.Table(
    "retention",
    metadata,
    sa.Column("what", sa.Text, primary_key=True),
    sa.Column("days", sa.Float, nullable=False),
    sa.Column("set_at", sa.BigInteger, nullable=False),
    sa.Column("set_by", sa.Text, nullable=False),
)

CHOSEN = Query(sa.select(retention.c.days).where(retention.c.what == p("what")))
CHOOSE = Query(sa.insert(retention))
FORGET = Query(sa.delete(retention).where(retention.c.what == p("what")))
