"""All SQL about messages and their deliveries.

Ids are made in order of time, so a recipient's messages in order are one walk along an index, and so is every page of
them. What is unread has an index of its own: a poll touches what it returns, however much was acknowledged before.
"""

from functools import cache

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.kernel.database import Query
from ringfence.kernel.tables import metadata

messages = sa.Table(
    "messages",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("sender", sa.Text, nullable=False),
    sa.Column("recipient", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("thread", sa.Text),
    sa.Column("reply_to", sa.Text),
    sa.Column("sent_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("message", sa.Text, primary_key=True),
    sa.Column("recipient", sa.Text, primary_key=True),
    sa.Column("sender", sa.Text, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("delivered_at", sa.BigInteger),
    sa.Column("acknowledged_at", sa.BigInteger),
    sa.Column("acknowledged_by", sa.Text),
    sa.Column("set_aside_at", sa.BigInteger),
)

m, d = messages.c, deliveries.c
_OPEN = d.acknowledged_at.is_(None) & d.set_aside_at.is_(None)


def _partial(name: str, *columns: sa.Column[object], where: sa.ColumnElement[bool]) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=where, postgresql_where=where)


sa.Index("messages_by_sender", m.sender, m.sent_at)
_partial("messages_by_thread", m.thread, m.id, where=m.thread.is_not(None))
_partial("messages_broadcast", m.expires_at, where=m.recipient == "*")
sa.Index("deliveries_by_recipient", d.recipient, d.message)
sa.Index("deliveries_by_pair", d.sender, d.recipient, d.message)
_partial("deliveries_unread", d.recipient, d.message, where=_OPEN)
_partial("deliveries_by_expiry", d.expires_at, where=_OPEN)
_partial("deliveries_by_acknowledgement", d.acknowledged_at, where=d.acknowledged_at.is_not(None))
_partial("deliveries_set_aside", d.set_aside_at, where=d.set_aside_at.is_not(None))

_STATE = (d.recipient, d.delivered_at, d.acknowledged_at, d.acknowledged_by, d.set_aside_at)
_WITH_STATE = sa.select(*m, *_STATE)
_DELIVERED = deliveries.join(messages, m.id == d.message)

ADD_MESSAGE = Query(sa.insert(messages))
ADD_DELIVERY = Query(
    sa.insert(deliveries).values(
        message=p("message"), recipient=p("recipient"), sender=p("sender"), expires_at=p("expires_at")
    )
)

MESSAGE = Query(sa.select(*m).where(m.id == p("id")))
DELIVERY = Query(sa.select(*_STATE).where(d.message == p("message"), d.recipient == p("recipient")))
DELIVERIES = Query(
    sa.select(*_STATE).where(d.message == p("message")).order_by(d.recipient).limit(sa.literal_column("1000"))
)
# The newest message but so many, of those that count: the one that must leave the window first.
BLOCKING = Query(
    sa.select(m.sent_at)
    .where(m.sender == p("sender"), m.sent_at > p("since"), m.sent_at <= p("until"))
    .order_by(m.sent_at.desc())
    .limit(sa.literal_column("1"))
    .offset(p("newer"))
)
START_THREAD = Query(sa.update(messages).where(m.id == p("which"), m.thread.is_(None)).values(thread=p("which")))

ACKNOWLEDGE = Query(
    sa.update(deliveries)
    .where(d.message == p("which"), d.recipient == p("who"), d.acknowledged_at.is_(None))
    .values(acknowledged_at=p("at"), acknowledged_by=p("actor"))
)
MARK_DELIVERED = Query(
    sa.update(deliveries)
    .where(d.message == p("which"), d.recipient == p("who"), d.delivered_at.is_(None))
    .values(delivered_at=p("at"))
)
SET_ASIDE = Query(sa.update(deliveries).where(d.recipient == p("who"), _OPEN).values(set_aside_at=p("at")))


@cache
def inbox(*, unread: bool, threaded: bool, newest_first: bool) -> Query:
    """What `recipient` was sent, beyond `cursor`."""
    query = _WITH_STATE.select_from(_DELIVERED).where(d.recipient == p("recipient"))
    if unread:
        query = query.where(_OPEN, d.expires_at > p("now"))
    if threaded:
        query = query.where(m.thread == p("thread"))
    return _paged(query, d.message, newest_first)


@cache
def everything(*, threaded: bool, newest_first: bool) -> Query:
    """All messages beyond `cursor`; the state of a broadcast is nobody's."""
    both = messages.outerjoin(deliveries, (d.message == m.id) & (d.recipient == m.recipient))
    query = _WITH_STATE.select_from(both)
    if threaded:
        query = query.where(m.thread == p("thread"))
    return _paged(query, m.id, newest_first)


def _paged(query: sa.Select[tuple[object, ...]], key: sa.Column[str], newest_first: bool) -> Query:
    query = query.where(key < p("cursor") if newest_first else key > p("cursor"))
    return Query(query.order_by(key.desc() if newest_first else key).limit(p("limit")))


_OWN = messages.outerjoin(deliveries, (d.message == m.id) & (d.recipient == p("name")))
_TAKES_PART = (m.sender == p("name")) | d.recipient.is_not(None)
THREAD_OF = _paged(_WITH_STATE.select_from(_OWN).where(m.thread == p("thread"), _TAKES_PART), m.id, newest_first=False)
BETWEEN = _paged(
    _WITH_STATE.select_from(_DELIVERED).where(d.sender == p("sender"), d.recipient == p("recipient")),
    d.message,
    newest_first=True,
)

_LAST = sa.func.max(m.id)
_THREADS = (
    sa.select(m.thread, sa.func.count(), sa.func.min(m.sent_at), sa.func.max(m.sent_at), _LAST)
    .where(m.thread.is_not(None))
    .group_by(m.thread)
    .having(p("cursor") > _LAST)
    .order_by(_LAST.desc())
    .limit(p("limit"))
)
THREADS = Query(_THREADS)
THREADS_OF = Query(_THREADS.select_from(_OWN).where(_TAKES_PART))

EDGES = Query(sa.select(d.sender, d.recipient, sa.func.count()).group_by(d.sender, d.recipient))
EDGES_FROM = Query(
    sa.select(d.sender, d.recipient, sa.func.count()).where(d.sender == p("name")).group_by(d.sender, d.recipient)
)
EDGES_TO = Query(
    sa.select(d.sender, d.recipient, sa.func.count())
    .where(d.recipient == p("name"), d.sender != p("name"))
    .group_by(d.sender, d.recipient)
)


def _removal(where: sa.ColumnElement[bool], oldest: sa.Column[int | None]) -> Query:
    """Remove up to `limit` deliveries, the oldest first; the ids of their messages."""
    some = sa.select(d.message, d.recipient).where(where).order_by(oldest).limit(p("limit"))
    return Query(sa.delete(deliveries).where(sa.tuple_(d.message, d.recipient).in_(some)).returning(d.message))


REMOVE_EXPIRED = _removal(_OPEN & (d.expires_at <= p("before")), d.expires_at)
REMOVE_ACKNOWLEDGED = _removal(d.acknowledged_at <= p("before"), d.acknowledged_at)
REMOVE_SET_ASIDE = _removal(d.set_aside_at <= p("before"), d.set_aside_at)
_UNDELIVERED = ~sa.exists().where(d.message == m.id)
REMOVE_MESSAGE = Query(sa.delete(messages).where(m.id == p("which"), _UNDELIVERED))
REMOVE_UNHEARD = Query(sa.delete(messages).where(m.recipient == "*", m.expires_at <= p("before"), _UNDELIVERED))

ERASE_DELIVERIES = Query(sa.delete(deliveries).where((d.sender == p("who")) | (d.recipient == p("who"))))
ERASE_MESSAGES = Query(sa.delete(messages).where((m.sender == p("who")) | (m.recipient == p("who"))))
