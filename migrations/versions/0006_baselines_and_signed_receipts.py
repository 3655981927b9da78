"""Baselines and signed receipts"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

from bot.db.tables import Instant

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "baselines",
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("run", sa.JSON(), nullable=False),
        sa.Column("created_at", Instant(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "key"),
    )
    op.add_column("receipts", sa.Column("envelope", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("receipts", "envelope")
    op.drop_table("baselines")
