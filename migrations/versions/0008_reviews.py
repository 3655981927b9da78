"""What reviews ask, and what failing CI is mended for"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TEXT = sqlmodel.sql.sqltypes.AutoString()


def upgrade() -> None:
    op.add_column("tasks", sa.Column("merges", TEXT, nullable=True))
    op.add_column("episodes", sa.Column("review_id", sa.BigInteger(), nullable=True))
    op.add_column("episodes", sa.Column("threads", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("episodes", sa.Column("replies", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("episodes", sa.Column("published", TEXT, nullable=True))
    op.add_column("episodes", sa.Column("answered", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("episodes", sa.Column("repairs", TEXT, nullable=True))


def downgrade() -> None:
    for column in ("repairs", "answered", "published", "replies", "threads", "review_id"):
        op.drop_column("episodes", column)
    op.drop_column("tasks", "merges")
