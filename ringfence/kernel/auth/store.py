"""All SQL about people and tokens."""

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.kernel.database import Query
from ringfence.kernel.tables import metadata

people = sa.Table(
    "people",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("projects", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("disabled_at", sa.BigInteger),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("role", sa.Text),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("projects", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("expires_at", sa.BigInteger),
    sa.Column("uses_left", sa.BigInteger),
    sa.Column("last_used_at", sa.BigInteger),
    sa.Column("revoked_at", sa.BigInteger),
    sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Index("tokens_by_subject", "subject"),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Index("idempotency_by_age", "created_at"),
)

_TOKEN_COLUMNS = [column for column in tokens.c if column.name != "hash"]

PERSON = Query(sa.select(people).where(people.c.name == p("name")))
PEOPLE = Query(sa.select(people).where(people.c.name > p("cursor")).order_by(people.c.name).limit(p("limit")))
ADMINS = Query(sa.select(people).where(people.c.role == "admin").order_by(people.c.name).with_for_update())
ADD_PERSON = Query(sa.insert(people))
SET_PERSON = Query(
    sa.update(people)
    .where(people.c.name == p("who"))
    .values(role=p("role"), projects=p("projects"), disabled_at=p("disabled_at"))
)

TOKEN_BY_HASH = Query(sa.select(*_TOKEN_COLUMNS).where(tokens.c.hash == p("hash")))
TOKEN = Query(sa.select(*_TOKEN_COLUMNS).where(tokens.c.id == p("id")))
TOKENS = Query(sa.select(*_TOKEN_COLUMNS).where(tokens.c.id > p("cursor")).order_by(tokens.c.id).limit(p("limit")))
TOKENS_OF = Query(
    sa.select(*_TOKEN_COLUMNS)
    .where(tokens.c.subject == p("subject"), tokens.c.id > p("cursor"))
    .order_by(tokens.c.id)
    .limit(p("limit"))
)
LIVE_OF_KIND = Query(
    sa.select(tokens.c.id)
    .where(tokens.c.subject == p("subject"), tokens.c.kind == p("kind"), tokens.c.revoked_at.is_(None))
    .limit(1)
)
LIVE_MADE_BY = Query(
    sa.select(*_TOKEN_COLUMNS)
    .where(tokens.c.created_by == p("maker"), tokens.c.revoked_at.is_(None))
    .order_by(tokens.c.id)
)
ADD_TOKEN = Query(sa.insert(tokens))
REVOKE_TOKEN = Query(
    sa.update(tokens).where(tokens.c.id == p("which"), tokens.c.revoked_at.is_(None)).values(revoked_at=p("at"))
)
REVOKE_TOKENS_OF = Query(
    sa.update(tokens)
    .where(tokens.c.subject == p("who"), tokens.c.kind == p("what"), tokens.c.revoked_at.is_(None))
    .values(revoked_at=p("at"))
)
SPEND_TOKEN = Query(
    sa.update(tokens)
    .where(tokens.c.id == p("which"), tokens.c.uses_left > 0, tokens.c.revoked_at.is_(None))
    .values(uses_left=tokens.c.uses_left - 1, last_used_at=p("at"))
)
TOUCH_TOKEN = Query(sa.update(tokens).where(tokens.c.id == p("which")).values(last_used_at=p("at")))
FORGET_TOKENS = Query(
    sa.delete(tokens).where((tokens.c.expires_at < p("before")) | (tokens.c.revoked_at < p("before")))
)

ANSWERED = Query(
    sa.select(idempotency.c.request, idempotency.c.status, idempotency.c.body, idempotency.c.created_at).where(
        idempotency.c.key == p("key")
    )
)
ADD_ANSWER = Query(sa.insert(idempotency))
FORGET_ANSWERS = Query(sa.delete(idempotency).where(idempotency.c.created_at < p("before")))
