"""Tables of embargoes and of the audit trail."""

from datetime import datetime

from sqlalchemy import ForeignKey, Identity, Index, PrimaryKeyConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from dayzero.adapters.store.tables import Base
from dayzero.adapters.store.tables_telling import TokenRow


class EmbargoRow(Base):
    """An embargo; rows stay when it is over."""

    __tablename__ = "embargoes"
    __table_args__ = (Index("ix_embargoes_in_force", "until", postgresql_where=text("ended_at IS NULL")),)
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    model: Mapped[str | None]
    platform: Mapped[str | None]
    until: Mapped[datetime]
    reason: Mapped[str]
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]


class EmbargoTokenRow(Base):
    """A token that sees through an embargo."""

    __tablename__ = "embargo_tokens"
    __table_args__ = (PrimaryKeyConstraint("embargo_id", "token_id"),)
    embargo_id: Mapped[str] = mapped_column(ForeignKey("embargoes.id"))
    token_id: Mapped[str] = mapped_column(ForeignKey(TokenRow.id))


class AuditRow(Base):
    """A line of the audit trail. Append-only by trigger."""

    __tablename__ = "audit_trail"
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True), unique=True)
    at: Mapped[datetime]
    who: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    detail: Mapped[str]
