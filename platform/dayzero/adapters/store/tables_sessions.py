"""Tables of people who sign in."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, PrimaryKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from dayzero.adapters.store.tables import Base
from dayzero.adapters.store.tables_telling import TokenRow


class PersonRow(Base):
    """Somebody who signed in, and the token that stands for them."""

    __tablename__ = "people"
    __table_args__ = (PrimaryKeyConstraint("issuer", "subject"),)
    issuer: Mapped[str]
    subject: Mapped[str]
    token_id: Mapped[str] = mapped_column(ForeignKey(TokenRow.id), unique=True)


class SessionRow(Base):
    """A session of a person, as the sha256 of its text; the row goes when it ends."""

    __tablename__ = "sessions"
    __table_args__ = (Index("ix_sessions_token_id", "token_id"), Index("ix_sessions_expires_at", "expires_at"))
    sha256: Mapped[str] = mapped_column(primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey(TokenRow.id))
    expires_at: Mapped[datetime]


class SpentStateRow(Base):
    """The state of a sign-in that was used, as its sha256, for as long as it could be shown again."""

    __tablename__ = "spent_states"
    __table_args__ = (Index("ix_spent_states_expires_at", "expires_at"),)
    sha256: Mapped[str] = mapped_column(primary_key=True)
    expires_at: Mapped[datetime]
