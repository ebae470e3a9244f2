"""Keep people who sign in, their sessions, and the states of sign-ins that were used."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new."""
    op.create_table(
        "people",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_people_token_id_tokens")),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_people")),
        sa.UniqueConstraint("token_id", name=op.f("uq_people_token_id")),
    )
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id_tokens")),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_token_id", "sessions", ["token_id"], unique=False)
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"], unique=False)
    op.create_table(
        "spent_states",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_spent_states")),
    )
    op.create_index("ix_spent_states_expires_at", "spent_states", ["expires_at"], unique=False)


def downgrade() -> None:
    """Forget who signed in; their tokens stay."""
    for table in ("spent_states", "sessions", "people"):
        op.drop_table(table)
