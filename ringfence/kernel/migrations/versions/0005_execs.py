"""What is run in sandboxes."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "execs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sandbox", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("argv", sa.Text(), nullable=False),
        sa.Column("cwd", sa.Text(), nullable=False),
        sa.Column("pty", sa.Text(), nullable=True),
        sa.Column("timeout", sa.Float(), nullable=True),
        sa.Column("input", sa.Integer(), nullable=False),
        sa.Column("detached", sa.Integer(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=True),
        sa.Column("request", sa.LargeBinary(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("errno", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("user_us", sa.BigInteger(), nullable=True),
        sa.Column("system_us", sa.BigInteger(), nullable=True),
        sa.Column("memory_kib", sa.BigInteger(), nullable=True),
        sa.Column("out_size", sa.BigInteger(), nullable=False),
        sa.Column("err_size", sa.BigInteger(), nullable=False),
        sa.Column("out_kept", sa.BigInteger(), nullable=False),
        sa.Column("err_kept", sa.BigInteger(), nullable=False),
        sa.Column("out_data", sa.LargeBinary(), nullable=True),
        sa.Column("err_data", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("execs_by_sandbox", "execs", ["sandbox", "id"], unique=False)
    keyed, running, ended = sa.text("key IS NOT NULL"), sa.text("ended_at IS NULL"), sa.text("ended_at IS NOT NULL")
    op.create_index("execs_by_key", "execs", ["key"], unique=True, sqlite_where=keyed, postgresql_where=keyed)
    op.create_index("execs_open", "execs", ["sandbox"], sqlite_where=running, postgresql_where=running)
    op.create_index("execs_by_end", "execs", ["ended_at"], sqlite_where=ended, postgresql_where=ended)


def downgrade() -> None:
    op.drop_table("execs")
