"""Find a subscriber's waiting deliveries beside any number that were made."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """An index by subscription and state in place of the one by subscription alone, which led through all that was told."""
    op.create_index(op.f("ix_deliveries_subscription_state"), "deliveries", ["subscription_id", "state"], unique=False)
    op.drop_index(op.f("ix_deliveries_subscription_id"), table_name="deliveries")


def downgrade() -> None:
    """Put the old one back."""
    op.create_index(op.f("ix_deliveries_subscription_id"), "deliveries", ["subscription_id"], unique=False)
    op.drop_index(op.f("ix_deliveries_subscription_state"), table_name="deliveries")
