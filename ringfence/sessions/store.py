"""All SQL about execs. Their ids are made in order of time."""

import json
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.fence.link.model import Exit, Why
from ringfence.kernel.database import Query, Row
from ringfence.kernel.tables import metadata
from ringfence.sessions.model import Exec

execs = sa.Table(
    "execs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("sandbox", sa.Text, nullable=False),
    sa.Column("project", sa.Text),
    sa.Column("agent", sa.Text),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("argv", sa.Text, nullable=False),
    sa.Column("cwd", sa.Text, nullable=False),
    sa.Column("pty", sa.Text),
    sa.Column("timeout", sa.Float),
    sa.Column("input", sa.Integer, nullable=False),
    sa.Column("detached", sa.Integer, nullable=False),
    sa.Column("key", sa.LargeBinary),
    sa.Column("request", sa.LargeBinary),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("cause", sa.Text),
    sa.Column("code", sa.Integer),
    sa.Column("signal", sa.Integer),
    sa.Column("errno", sa.Integer),
    sa.Column("error", sa.Text),
    sa.Column("user_us", sa.BigInteger),
    sa.Column("system_us", sa.BigInteger),
    sa.Column("memory_kib", sa.BigInteger),
    sa.Column("out_size", sa.BigInteger, nullable=False),
    sa.Column("err_size", sa.BigInteger, nullable=False),
    sa.Column("out_kept", sa.BigInteger, nullable=False),
    sa.Column("err_kept", sa.BigInteger, nullable=False),
    sa.Column("out_data", sa.LargeBinary),
    sa.Column("err_data", sa.LargeBinary),
)

c = execs.c


def _partial(name: str, *columns: sa.Column[Any], where: sa.ColumnElement[bool], unique: bool = False) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=where, postgresql_where=where, unique=unique)


sa.Index("execs_by_sandbox", c.sandbox, c.id)
_partial("execs_by_key", c.key, where=c.key.is_not(None), unique=True)
_partial("execs_open", c.sandbox, where=c.ended_at.is_(None))
_partial("execs_by_end", c.ended_at, where=c.ended_at.is_not(None))

_DATA = {"key", "request", "out_data", "err_data"}
_SHOWN = [column for column in c if column.name not in _DATA]

ADD = Query(
    sa.insert(execs).values(
        {
            name: p(name)
            for name in (
                "id", "sandbox", "project", "agent", "actor", "argv", "cwd", "pty", "timeout", "input", "detached",
                "key", "request", "started_at",
            )
        }
        | {"out_size": 0, "err_size": 0, "out_kept": 0, "err_kept": 0}
    )
)  # fmt: skip
END = Query(
    sa.update(execs)
    .where(c.id == p("which"), c.ended_at.is_(None))
    .values(
        {
            name: p(name)
            for name in (
                "ended_at", "cause", "code", "signal", "errno", "error", "user_us", "system_us", "memory_kib",
                "out_size", "err_size", "out_kept", "err_kept", "out_data", "err_data",
            )
        }
    )
)  # fmt: skip
EXEC = Query(sa.select(*_SHOWN).where(c.id == p("id")))
KEYED = Query(sa.select(c.id, c.request).where(c.key == p("key")))
FORGET_KEY = Query(sa.update(execs).where(c.id == p("id")).values(key=sa.null(), request=sa.null()))
OPEN = Query(sa.select(*_SHOWN).where(c.ended_at.is_(None)).order_by(c.id))
OUT_DATA = Query(sa.select(c.out_data).where(c.id == p("id")))
ERR_DATA = Query(sa.select(c.err_data).where(c.id == p("id")))
_OLD = sa.select(c.id).where(c.ended_at < p("before")).order_by(c.ended_at).limit(p("limit"))
REMOVE_OLD = Query(sa.delete(execs).where(c.id.in_(_OLD)).returning(c.sandbox, c.id))
FORGET_OUTPUT = Query(
    sa.update(execs)
    .where(c.sandbox == p("where"))
    .values(out_kept=0, err_kept=0, out_data=sa.null(), err_data=sa.null())
)


@cache
def page(*, running: bool) -> Query:
    query = sa.select(*_SHOWN).where(c.sandbox == p("sandbox"), c.id < p("cursor"))
    if running:
        query = query.where(c.ended_at.is_(None))
    return Query(query.order_by(c.id.desc()).limit(p("limit")))


def columns(it: Exec, key: bytes | None, request: bytes | None) -> dict[str, Any]:
    return {
        "id": it.id, "sandbox": it.sandbox, "project": it.project, "agent": it.agent, "actor": it.actor,
        "argv": json.dumps(it.argv, ensure_ascii=False), "cwd": it.cwd,
        "pty": None if it.pty is None else f"{it.pty[0]}x{it.pty[1]}", "timeout": it.timeout, "input": int(it.input),
        "detached": int(it.detached), "key": key, "request": request, "started_at": it.started_at,
    }  # fmt: skip


def ending(it: Exec, out_data: bytes | None, err_data: bytes | None) -> dict[str, Any]:
    exit = it.exit
    assert exit is not None
    return {
        "which": it.id, "ended_at": it.ended_at, "cause": exit.why.value, "code": exit.code, "signal": exit.signal,
        "errno": exit.errno, "error": exit.error, "user_us": exit.user_us, "system_us": exit.system_us,
        "memory_kib": exit.memory_kib, "out_size": it.out_size, "err_size": it.err_size, "out_kept": it.out_kept,
        "err_kept": it.err_kept, "out_data": out_data, "err_data": err_data,
    }  # fmt: skip


def found(row: Row) -> Exec:
    (
        id, sandbox, project, agent, actor, argv, cwd, pty, timeout, input, detached, started_at, ended_at, cause, code,
        signal, errno, error, user_us, system_us, memory_kib, out_size, err_size, out_kept, err_kept,
    ) = row  # fmt: skip
    exit = None
    if ended_at is not None:
        exit = Exit(
            why=Why(cause), code=code, signal=signal, out=out_size, err=err_size, user_us=user_us,
            system_us=system_us, memory_kib=memory_kib, errno=errno, error=error,
        )  # fmt: skip
    rows, _, columns = pty.partition("x") if pty else ("", "", "")
    return Exec(
        id=id, sandbox=sandbox, project=project, agent=agent, actor=actor, argv=tuple(json.loads(argv)), cwd=cwd,
        pty=(int(rows), int(columns)) if pty else None, timeout=timeout, input=bool(input), detached=bool(detached),
        started_at=started_at, ended_at=ended_at, exit=exit, out_size=out_size, err_size=err_size, out_kept=out_kept,
        err_kept=err_kept,
    )  # fmt: skip
