"""Sandboxes and snapshots."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sandboxes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("runtime", sa.Text(), nullable=False),
        sa.Column("image", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("read_only", sa.Integer(), nullable=False),
        sa.Column("memory_disk", sa.Integer(), nullable=False),
        sa.Column("memory", sa.BigInteger(), nullable=True),
        sa.Column("cpus", sa.Float(), nullable=True),
        sa.Column("pids", sa.BigInteger(), nullable=True),
        sa.Column("disk", sa.BigInteger(), nullable=True),
        sa.Column("requested", sa.Text(), nullable=False),
        sa.Column("best_effort", sa.Integer(), nullable=False),
        sa.Column("env", sa.Text(), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=True),
        sa.Column("on_crash", sa.Text(), nullable=False),
        sa.Column("ttl", sa.Float(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("idle_timeout", sa.Float(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("enforced", sa.Text(), nullable=False),
        sa.Column("life", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("crashes", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("active_at", sa.BigInteger(), nullable=False),
        sa.Column("destroyed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    alive = sa.text("state <> 'destroyed'")
    op.create_index("sandboxes_by_name", "sandboxes", ["name"], unique=True, sqlite_where=alive, postgresql_where=alive)
    op.create_index("sandboxes_by_node", "sandboxes", ["node", "state"], unique=False)
    op.create_index("sandboxes_by_owner", "sandboxes", ["owner", "state"], unique=False)
    op.create_index("sandboxes_by_agent", "sandboxes", ["agent"], unique=False)
    op.create_index("sandboxes_by_expiry", "sandboxes", ["expires_at"], unique=False)
    op.create_table(
        "snapshots",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("sandbox", sa.Text(), nullable=False),
        sa.Column("image", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("snapshots_by_name", "snapshots", ["name"], unique=True)


def downgrade() -> None:
    op.drop_table("snapshots")
    op.drop_table("sandboxes")
