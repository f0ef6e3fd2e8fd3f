"""An empty database, as a place that several parties can enter; and processes that may be killed."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from ringfence.kernel.clock import Clock
from ringfence.kernel.database import Database, Query, Transaction, connect
from ringfence.kernel.events.model import SYSTEM
from ringfence.kernel.tables import metadata

# A table of the tests' own, beside the migrated ones.
things = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("value", sa.Text, nullable=False),
)
ADD = Query(sa.insert(things))
SET = Query(sa.update(things).where(things.c.id == sa.bindparam("which")).values(value=sa.bindparam("value")))
ALL = Query(sa.select(things).order_by(things.c.id))

assert metadata is not things.metadata


class Place:
    """A migrated database, and ways into it that share nothing with the one under test."""

    def __init__(self, url: str, data: Path) -> None:
        self.url, self.data = url, data
        self.sql("CREATE TABLE things (id BIGINT PRIMARY KEY, value TEXT NOT NULL)")

    def database(self, clock: Clock | None = None) -> Database:
        return connect(self.url, self.data, clock or Clock())

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Run on a connection of its own, committed at once."""
        if self.url:
            with psycopg.connect(self.url, autocommit=True) as connection:
                cursor = connection.execute(text)
                return cursor.fetchall() if cursor.description else []
        with sqlite3.connect(self.data / "ringfence.db", isolation_level=None, timeout=10) as connection:
            return connection.execute(text).fetchall()

    def kept(self) -> dict[int, str]:
        return dict(self.sql("SELECT id, value FROM things ORDER BY id"))


@pytest.fixture
def sqlite_place(tmp_path: Path, template: Path) -> Place:
    shutil.copy(template, tmp_path / "ringfence.db")
    return Place("", tmp_path)


@pytest.fixture
def postgres_place(postgres_url: str, tmp_path: Path) -> Place:
    return Place(postgres_url, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue("postgres_place" if request.param == "postgresql" else "sqlite_place")
    return found


def add(number: int, value: str = "x") -> Callable[[Transaction], int]:
    """A use case with a change and its event."""

    def use_case(tx: Transaction) -> int:
        tx.run(ADD, id=number, value=value)
        tx.record("thing_added", SYSTEM, {"id": number})
        return number

    return use_case


class Held:
    """The writer's thread, kept busy until `release`: what is written meanwhile becomes one batch."""

    def __init__(self, database: Database) -> None:
        self._go, self._begun = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait(tx: Transaction) -> None:
            loop.call_soon_threadsafe(self._begun.set)
            assert self._go.wait(20)

        self._task = asyncio.create_task(database.write(wait))

    async def __aenter__(self) -> "Held":
        await asyncio.wait_for(self._begun.wait(), 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._go.set()
        await self._task
