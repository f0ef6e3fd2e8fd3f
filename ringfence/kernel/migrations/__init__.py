"""The schema's history, by Alembic. `upgrade` brings a database to this version of Ringfence.

An upgrade is one transaction on either database: killed in the middle, it did not happen. It holds a lock, so that
several servers may try at once.
"""

import sqlite3
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from ringfence.kernel.database import is_no_space
from ringfence.kernel.errors import StorageFull, Unavailable
from ringfence.settings import Settings

_LOCK = 1380993607  # one number for every server on this database


def engine(settings: Settings) -> sa.Engine:
    if settings.database:
        try:
            import psycopg
        except ImportError:
            raise Unavailable("PostgreSQL takes a driver: pip install 'ringfence[postgres]'") from None

        def connect() -> object:
            return psycopg.connect(settings.database, connect_timeout=10)

        return sa.create_engine("postgresql+psycopg://", creator=connect)
    found = sa.create_engine(f"sqlite:///{settings.data / 'ringfence.db'}", connect_args={"timeout": 60})

    # The driver would begin a transaction only before the first INSERT, and so leave half a schema behind.
    @sa.event.listens_for(found, "connect")
    def leave_transactions_to_us(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None

    @sa.event.listens_for(found, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return found


def config() -> Config:
    found = Config()
    found.set_main_option("script_location", str(Path(__file__).parent))
    found.set_main_option("path_separator", "os")
    return found


def upgrade(settings: Settings) -> None:
    """Bring the database to the newest schema."""
    script = ScriptDirectory.from_config(config())
    connectable = engine(settings)
    try:
        with connectable.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            current = MigrationContext.configure(connection).get_current_revision()
            if current == script.get_current_head():
                return
            if current is not None and current not in {revision.revision for revision in script.walk_revisions()}:
                raise Unavailable(
                    f"the database was written by a newer Ringfence (schema {current}): install that version, or newer"
                )
            found = config()
            found.attributes["connection"] = connection
            command.upgrade(found, "head")
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error) and is_no_space(error.orig):
            raise StorageFull(
                f"the disk that holds {settings.data} is full; nothing was changed: free some space, then repeat"
            ) from None
        raise Unavailable(f"the database cannot be opened: {error.orig}") from None
    finally:
        connectable.dispose()
