"""Snapshots and slots"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

import bot.db.tables

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "snapshots",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("key", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("image_id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("commit", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("created_at", bot.db.tables.Instant(timezone=True), nullable=False),
        sa.Column("used_at", bot.db.tables.Instant(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    with op.batch_alter_table("snapshots", schema=None) as batch_op:
        batch_op.create_index(
            "snapshots_of_repository", ["installation_id", "repository_id", "image_id"], unique=False
        )

    op.create_table(
        "slots",
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("kind", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("sandbox_id", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column("taken_at", bot.db.tables.Instant(timezone=True), nullable=False),
        sa.Column("expires_at", bot.db.tables.Instant(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    with op.batch_alter_table("slots", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_slots_sandbox_id"), ["sandbox_id"], unique=False)

    op.create_table(
        "strays",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("seen_at", bot.db.tables.Instant(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.add_column("sandboxes", sa.Column("snapshot_id", sqlmodel.sql.sqltypes.AutoString(), nullable=True))
    op.add_column("tasks", sa.Column("needs_slot", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    op.drop_column("tasks", "needs_slot")
    op.drop_column("sandboxes", "snapshot_id")
    op.drop_table("strays")
    op.drop_table("slots")
    op.drop_table("snapshots")
