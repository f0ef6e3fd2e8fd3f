"""Verifications of the chain are found at once; whose a task was at each move, and which limits held when."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

VERIFIED = sa.text("kind = 'audit_verified'")


def upgrade() -> None:
    op.create_index("events_verified", "events", ["seq"], sqlite_where=VERIFIED, postgresql_where=VERIFIED)
    op.add_column("moves", sa.Column("agent", sa.Text(), nullable=True))
    op.execute("UPDATE moves SET agent = (SELECT assigned_to FROM tasks WHERE tasks.id = moves.task_id)")
    op.create_table(
        "limit_changes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("wip_limit", sa.Integer(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("limit_changes_by_project", "limit_changes", ["project_id", "at"], unique=False)
    op.execute(
        "INSERT INTO limit_changes (id, project_id, status, agent, wip_limit, at) "
        "SELECT 'lim_' || project_id || status || agent, project_id, status, agent, wip_limit, created_at "
        "FROM wip_limits JOIN projects ON projects.id = wip_limits.project_id"
    )


def downgrade() -> None:
    op.drop_index("limit_changes_by_project", table_name="limit_changes")
    op.drop_table("limit_changes")
    op.drop_column("moves", "agent")
    op.drop_index("events_verified", table_name="events")
