"""Give tokens names and scopes, keep an audit trail, and let embargoes hide models and platforms."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; tokens of before stay workers' tokens of their platforms."""
    op.add_column("tokens", sa.Column("name", sa.Text(), server_default="", nullable=False))
    op.alter_column("tokens", "platform", existing_type=sa.Text(), nullable=True)
    op.create_table(
        "embargoes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("platform", sa.Text(), nullable=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_embargoes")),
    )
    op.create_index("ix_embargoes_in_force", "embargoes", ["until"], unique=False, postgresql_where=sa.text("ended_at IS NULL"))
    op.create_table(
        "audit_trail",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_trail")),
        sa.UniqueConstraint("seq", name=op.f("uq_audit_trail_seq")),
    )
    op.create_table(
        "embargo_tokens",
        sa.Column("embargo_id", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["embargo_id"], ["embargoes.id"], name=op.f("fk_embargo_tokens_embargo_id_embargoes")),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_embargo_tokens_token_id_tokens")),
        sa.PrimaryKeyConstraint("embargo_id", "token_id", name=op.f("pk_embargo_tokens")),
    )
    op.execute(
        "CREATE TRIGGER audit_trail_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_trail "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )


def downgrade() -> None:
    """Refuse: what an embargo hides would be seen."""
    raise NotImplementedError("go back by restoring a backup")
