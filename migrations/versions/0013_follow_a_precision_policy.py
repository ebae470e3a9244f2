"""Follow a precision policy: an adaptation says which one its targets compute by."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; adaptations of before follow none."""
    op.add_column("adaptations", sa.Column("policy", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("adaptations", "policy")
