"""The schema: what the migrations make is what the code says, on both databases, however often they run."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import ringfence.app  # noqa: F401  every room's tables
from ringfence.kernel import migrations
from ringfence.kernel.errors import Unavailable
from ringfence.kernel.tables import metadata
from ringfence.settings import Settings
from tests.harness import running
from tests.kernel.conftest import Place
from tests.postgres import Cluster


def settings_of(place: Place) -> Settings:
    return Settings(data=place.data, database=place.url)


def test_the_migrated_schema_is_the_one_the_code_speaks_of(place: Place) -> None:
    place.sql("DROP TABLE things")
    engine = migrations.engine(settings_of(place))
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)
    engine.dispose()
    assert differences == []


def test_an_upgrade_of_what_is_new_already_changes_nothing(place: Place) -> None:
    place.sql("INSERT INTO people VALUES ('ann', 'admin', NULL, 1, 'system', NULL)")
    before = place.sql("SELECT * FROM alembic_version")
    for _ in range(3):
        migrations.upgrade(settings_of(place))
    assert place.sql("SELECT name FROM people") == [("ann",)]
    assert place.sql("SELECT * FROM alembic_version") == before


def test_a_newer_schema_is_refused_and_left_alone(place: Place) -> None:
    place.sql("UPDATE alembic_version SET version_num = 'ffff'")
    with pytest.raises(Unavailable, match=r"newer Ringfence \(schema ffff\): install that version"):
        migrations.upgrade(settings_of(place))
    assert place.sql("SELECT version_num FROM alembic_version") == [("ffff",)]


def test_several_servers_may_upgrade_one_postgresql_at_once(postgres: Cluster, tmp_path: Path) -> None:
    url = postgres.create("upgraded_at_once")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: migrations.upgrade(Settings(data=tmp_path, database=url)), range(6)))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    postgres.drop("upgraded_at_once")


def test_several_processes_may_upgrade_one_sqlite_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: migrations.upgrade(Settings(data=tmp_path)), range(6)))
    with sqlite3.connect(tmp_path / "ringfence.db") as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchall() == [(1,)]


def test_an_upgrade_that_was_killed_in_the_middle_did_not_happen(tmp_path: Path) -> None:
    script = (
        "import os, signal, sqlalchemy as sa\n"
        "from pathlib import Path\n"
        "from ringfence.kernel import migrations\n"
        "from ringfence.settings import Settings\n"
        "made = []\n"
        "@sa.event.listens_for(sa.Engine, 'before_cursor_execute')\n"
        "def count(connection, cursor, statement, *_):\n"
        "    made.append(statement)\n"
        "    if sum('CREATE TABLE' in one for one in made) == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"migrations.upgrade(Settings(data=Path({str(tmp_path)!r})))\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script], check=False, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": "."}
    )
    assert killed.returncode == -signal.SIGKILL
    with sqlite3.connect(tmp_path / "ringfence.db") as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchall() == [(0,)]
    migrations.upgrade(Settings(data=tmp_path))
    with running(tmp_path, None) as server:
        assert server.admin.get("/api/v1/me").status_code == 200


def test_there_is_one_history_and_each_step_says_what_it_does() -> None:
    script = ScriptDirectory.from_config(migrations.config())
    assert len(script.get_heads()) == 1
    assert all(revision.doc for revision in script.walk_revisions())


def test_what_is_no_database_of_ours_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "ringfence.db").write_bytes(b"this is no database at all" * 100)
    with pytest.raises(Unavailable, match="cannot be opened: file is not a database"):
        migrations.upgrade(Settings(data=tmp_path))
    with pytest.raises(Unavailable, match="cannot be opened"):
        migrations.upgrade(Settings(data=tmp_path / "missing"))
    for url in (f"postgresql://nobody@/none?host={tmp_path}", "postgresql://x@127.0.0.1:1/x", "postgresql://%zz"):
        with pytest.raises(Unavailable, match="cannot be opened"):
            migrations.upgrade(Settings(data=tmp_path, database=url))
