"""All SQL about the demo: one row, or none."""

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.demo.model import Demo
from ringfence.kernel.database import Query, Row
from ringfence.kernel.tables import metadata

ONLY = "demo"

demos = sa.Table(
    "demos",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("agents", sa.Text, nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("started_by", sa.Text, nullable=False),
    sa.Column("lives_until", sa.BigInteger, nullable=False),
    sa.Column("next_at", sa.BigInteger, nullable=False),
    sa.Column("steps", sa.BigInteger, nullable=False),
)

_shown = sa.select(*[column for column in demos.c if column.name != "id"])

DEMO = Query(_shown)
DEMO_HELD = Query(_shown.with_for_update())
ADD = Query(sa.insert(demos))
REMOVE = Query(sa.delete(demos))
RENEW = Query(sa.update(demos).values(lives_until=p("until"), next_at=p("at")))
STEPPED = Query(sa.update(demos).values(next_at=p("at"), steps=demos.c.steps + 1))


def demo(row: Row) -> Demo:
    project, agents, *rest = row
    return Demo(project, tuple(json.loads(agents)), *rest)


def columns(demo: Demo) -> dict[str, Any]:
    return {
        "id": ONLY, "project": demo.project, "agents": json.dumps(demo.agents), "started_at": demo.started_at,
        "started_by": demo.started_by, "lives_until": demo.lives_until, "next_at": demo.next_at, "steps": demo.steps,
    }  # fmt: skip
