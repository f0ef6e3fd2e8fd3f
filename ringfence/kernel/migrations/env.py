"""Alembic's entry: it is always handed an open connection (see `upgrade`)."""

from alembic import context

from ringfence.kernel.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
