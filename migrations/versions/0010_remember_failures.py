"""Remember failures by their signature, and who met them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables; what entries met before is remembered from their next run on."""
    op.create_table(
        "failures",
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("check_name", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=True),
        sa.Column("dtypes", postgresql.JSONB(), nullable=False),
        sa.Column("shape_class", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("symptom", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("workaround", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("ticket", sa.Text(), nullable=True),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("signature", name=op.f("pk_failures")),
    )
    op.create_index("ix_failures_platform_operator", "failures", ["platform", "operator"])
    op.create_table(
        "failure_hits",
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("adaptation_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("stack_fingerprint", sa.Text(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gone_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["signature"], ["failures.signature"], name=op.f("fk_failure_hits_signature_failures")),
        sa.ForeignKeyConstraint(["adaptation_id"], ["adaptations.id"], name=op.f("fk_failure_hits_adaptation_id_adaptations")),
        sa.PrimaryKeyConstraint("signature", "adaptation_id", name=op.f("pk_failure_hits")),
    )
    op.create_index("ix_failure_hits_adaptation_id", "failure_hits", ["adaptation_id"])


def downgrade() -> None:
    """Refuse: what people wrote would be lost."""
    raise NotImplementedError("go back by restoring a backup")
