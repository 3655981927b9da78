"""Approvals"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

import bot.db.tables

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("episodes", sa.Column("shown_tree", sqlmodel.sql.sqltypes.AutoString(), nullable=True))
    op.add_column("episodes", sa.Column("shown_at", bot.db.tables.Instant(timezone=True), nullable=True))
    op.add_column("episodes", sa.Column("approved_tree", sqlmodel.sql.sqltypes.AutoString(), nullable=True))
    op.add_column("episodes", sa.Column("approved_by", sqlmodel.sql.sqltypes.AutoString(), nullable=True))


def downgrade() -> None:
    for column in ("approved_by", "approved_tree", "shown_at", "shown_tree"):
        op.drop_column("episodes", column)
