"""What messages cost when there are many: every hot statement walks an index, and touches what it answers."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ringfence.crew.messages import store
from ringfence.crew.messages.model import compose
from ringfence.crew.messages.service import Messages
from ringfence.kernel import database as db
from ringfence.kernel.auth.model import Principal, TokenKind
from ringfence.kernel.ids import new
from ringfence.kernel.retention.service import Retention
from tests.harness import Ringfence

MANY = 100_000
HOT: dict[str, tuple[db.Query, dict[str, Any]]] = {
    "unread": (
        store.inbox(unread=True, threaded=False, newest_first=False),
        {"recipient": "bob", "cursor": "", "now": 1, "limit": 64},
    ),
    "plain inbox": (
        store.inbox(unread=False, threaded=False, newest_first=True),
        {"recipient": "bob", "cursor": "zzzz", "limit": 64},
    ),
    "history": (store.BETWEEN, {"sender": "alice", "recipient": "bob", "cursor": "zzzz", "limit": 50}),
    "rate": (store.BLOCKING, {"sender": "alice", "since": 0, "until": 1 << 60, "newer": 59}),
    "message": (store.MESSAGE, {"id": "x"}),
    "delivery": (store.DELIVERY, {"message": "x", "recipient": "bob"}),
    "deliveries": (store.DELIVERIES, {"message": "x"}),
    "acknowledge": (store.ACKNOWLEDGE, {"which": "x", "who": "bob", "at": 1, "actor": "agent:bob"}),
    "mark delivered": (store.MARK_DELIVERED, {"which": "x", "who": "bob", "at": 1}),
    "set aside": (store.SET_ASIDE, {"who": "nobody", "at": 1}),
    "expired": (store.REMOVE_EXPIRED, {"before": 0, "limit": 100}),
    "old": (store.REMOVE_ACKNOWLEDGED, {"before": 0, "limit": 100}),
    "old set aside": (store.REMOVE_SET_ASIDE, {"before": 0, "limit": 100}),
    "orphan": (store.REMOVE_MESSAGE, {"which": "x"}),
    "unheard": (store.REMOVE_UNHEARD, {"before": 0}),
}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, template: Any) -> sqlite3.Connection:
    """A database with 100,000 messages from one agent to another, all but ten of them acknowledged."""
    path = tmp_path_factory.mktemp("crowded") / "ringfence.db"
    path.write_bytes(template.read_bytes())
    connection = sqlite3.connect(path)
    ids = sorted(new("msg") for _ in range(MANY))
    connection.executemany(
        "INSERT INTO messages VALUES (?, 'alice', 'bob', 'hello', 'text', NULL, NULL, ?, ?)",
        [(each, number, 1 << 60) for number, each in enumerate(ids)],
    )
    connection.executemany(
        "INSERT INTO deliveries VALUES (?, 'bob', 'alice', ?, NULL, ?, NULL, NULL)",
        [(each, 1 << 60, None if number >= MANY - 10 else 5) for number, each in enumerate(ids)],
    )
    connection.commit()
    return connection


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_scans_no_table_and_sorts_nothing(crowded: sqlite3.Connection, name: str):
    text, params = _compiled(name)
    plan = [row[3] for row in crowded.execute(f"EXPLAIN QUERY PLAN {text}", params)]
    assert plan, text
    for step in plan:
        assert not step.startswith("SCAN"), plan
        assert "TEMP B-TREE" not in step, plan


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_takes_few_steps_among_100_000_messages(crowded: sqlite3.Connection, name: str):
    """The virtual machine's instructions are the same on every computer, however busy."""
    text, params = _compiled(name)
    crowded.execute("SAVEPOINT try")
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 100
        return 0

    crowded.set_progress_handler(count, 100)
    try:
        crowded.execute(text, params).fetchall()
    finally:
        crowded.set_progress_handler(None, 0)
        crowded.execute("ROLLBACK TO try")
    assert steps < 10_000


def _compiled(name: str) -> tuple[str, dict[str, Any]]:
    query, params = HOT[name]
    text, literals = query.on(db.SQLite(Path(__file__)))
    return text, literals | params


@pytest.mark.parametrize("name", HOT)
def test_postgresql_walks_an_index_too(either_plans: Any, name: str):
    assert "Seq Scan" not in either_plans(name)


@pytest.fixture
def either_plans(postgres_url: str) -> Any:
    import psycopg

    backend = db.PostgreSQL(postgres_url)

    def plan(name: str) -> str:
        query, params = HOT[name]
        text, literals = query.on(backend)
        with psycopg.connect(postgres_url) as connection:
            connection.execute("SET enable_seqscan = off")  # an empty table is scanned unless that is dear
            rows = connection.execute("EXPLAIN " + text, literals | params).fetchall()
        return "\n".join(row[0] for row in rows)

    return plan


class Counted(db.Transaction):
    """A transaction that keeps what was run in it."""

    def __init__(self, tx: db.Transaction) -> None:
        super().__init__(tx._backend, tx._cursor, tx.now)
        self.statements: list[str] = []

    def _execute(self, query: db.Query, params: dict[str, Any]) -> None:
        self.statements.append(query.on(self._backend)[0])
        super()._execute(query, params)


def test_sending_takes_four_statements_and_acknowledging_one(server: Ringfence):
    server.agent("alice")
    messages = Messages(server.settings, server.house.crew, server.house.auth, Retention(server.settings))
    alice, bob = (Principal(TokenKind.AGENT, name) for name in ("alice", "bob"))

    def count(tx: db.Transaction) -> tuple[list[str], list[str]]:
        sending, acknowledging = Counted(tx), Counted(tx)
        sent = messages.send(sending, compose(alice, messages.links, sender="alice", to="bob"))
        messages.acknowledge(acknowledging, bob, sent.id)
        return sending.statements, acknowledging.statements

    sending, acknowledging = server.write(count)
    assert len(sending) == 4  # the agent's standing, its rate, the message, its delivery
    assert len(acknowledging) == 1
