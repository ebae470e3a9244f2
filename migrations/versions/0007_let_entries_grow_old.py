"""Let entries grow old: re-runs, demand, and which attempt used which result."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables, and the attempts of result links (unknown for older ones)."""
    op.create_table(
        "reruns",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("reasons", postgresql.JSONB(), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("terms", postgresql.JSONB(), nullable=True),
        sa.ForeignKeyConstraint(["adaptation_id"], ["adaptations.id"], name=op.f("fk_reruns_adaptation_id_adaptations")),
        sa.ForeignKeyConstraint(["entry_id"], ["entries.id"], name=op.f("fk_reruns_entry_id_entries")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reruns")),
    )
    op.create_index("ix_reruns_adaptation_id", "reruns", ["adaptation_id"])
    op.create_index("ix_reruns_open", "reruns", ["adaptation_id"], unique=True, postgresql_where=sa.text("ended_at IS NULL"))
    op.create_table(
        "demand",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("lookups", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model", "platform", "day", name=op.f("pk_demand")),
    )
    op.add_column("result_links", sa.Column("first_attempt", sa.BigInteger(), nullable=True))
    op.add_column("result_links", sa.Column("last_attempt", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Refuse: queued work would be lost."""
    raise NotImplementedError("go back by restoring a backup")
