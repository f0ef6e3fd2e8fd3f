"""How long things are kept, where somebody chose it while it ran."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "retention",
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("days", sa.Float(), nullable=False),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("what"),
    )


def downgrade() -> None:
    op.drop_table("retention")
