"""Tellings"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

from bot.db.tables import Instant

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tellings",
        sa.Column("task_id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("edits", sa.Integer(), nullable=False),
        sa.Column("gist", sa.Text(), nullable=False),
        sa.Column("digest", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column("edited_at", Instant(timezone=True), nullable=False),
        sa.Column("again_at", Instant(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"]),
        sa.PrimaryKeyConstraint("task_id"),
    )


def downgrade() -> None:
    op.drop_table("tellings")
