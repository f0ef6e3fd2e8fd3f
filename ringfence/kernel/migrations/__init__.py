"""The schema's history, by Alembic. `upgrade` brings a database to this version of Ringfence."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from ringfence.settings import Settings


def engine(settings: Settings) -> sa.Engine:
    if settings.database:
        return sa.create_engine(
            settings.database.replace("://", "+psycopg://", 1).replace("postgres+", "postgresql+", 1)
        )
    return sa.create_engine(f"sqlite:///{settings.data / 'ringfence.db'}")


def config() -> Config:
    found = Config()
    found.set_main_option("script_location", str(Path(__file__).parent))
    found.set_main_option("path_separator", "os")
    return found


def upgrade(settings: Settings) -> None:
    """Bring the database to the newest schema; several servers may try at once."""
    from ringfence.kernel.errors import Unavailable

    script = ScriptDirectory.from_config(config())
    connectable = engine(settings)
    try:
        with connectable.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_lock(1380993607)"))
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
            connection.commit()
    except sa.exc.OperationalError as error:
        raise Unavailable(f"the database cannot be opened: {error.orig}") from None
    finally:
        connectable.dispose()
