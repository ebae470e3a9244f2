"""Serve subscribers in lanes: in order a subject, one dispatcher at a time, with rests, digests and quiet hours."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
PENDING = sa.text("state = 'pending'")


def upgrade() -> None:
    """Add the columns; subscriptions of before are confirmed, and their deliveries keep the order of their events."""
    op.add_column("outbox", sa.Column("position", sa.BigInteger(), nullable=True))
    op.execute("UPDATE outbox SET position = seq WHERE fanned_out_at IS NOT NULL")
    op.create_index("ix_outbox_position", "outbox", ["position"], unique=True)
    for column in (
        sa.Column("confirmed_at", MOMENT, nullable=True),
        sa.Column("token_id", sa.Text(), nullable=True),
        sa.Column("digest_every_s", sa.BigInteger(), nullable=True),
        sa.Column("quiet", postgresql.JSONB(), nullable=True),
        sa.Column("served_at", MOMENT, nullable=True),
        sa.Column("digest_sent_at", MOMENT, nullable=True),
        sa.Column("lane_holder", sa.Text(), nullable=True),
        sa.Column("lane_until", MOMENT, nullable=True),
        sa.Column("rests_until", MOMENT, nullable=True),
        sa.Column("absences", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("absences_in_row", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
    ):
        op.add_column("subscriptions", column)
    op.create_foreign_key(op.f("fk_subscriptions_token_id_tokens"), "subscriptions", "tokens", ["token_id"], ["id"])
    op.execute("UPDATE subscriptions SET confirmed_at = created_at")
    for column in (
        sa.Column("position", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("subject", sa.Text(), server_default="", nullable=False),
        sa.Column("absences_before", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("digest_id", sa.Text(), nullable=True),
    ):
        op.add_column("deliveries", column)
    op.execute("UPDATE deliveries d SET position = o.seq, subject = o.subject FROM outbox o WHERE o.id = d.event_id")
    op.create_index("ix_deliveries_lane", "deliveries", ["subscription_id", "position"], postgresql_where=PENDING)
    op.create_index("ix_deliveries_subject", "deliveries", ["subscription_id", "subject", "position"], postgresql_where=PENDING)


def downgrade() -> None:
    """Refuse: addresses are locked, and the order of what is pending would be lost."""
    raise NotImplementedError("go back by restoring a backup")
