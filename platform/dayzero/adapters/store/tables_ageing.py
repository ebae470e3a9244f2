"""Tables of re-runs and of demand."""

from datetime import date, datetime
from typing import Any

from sqlalchemy import Date, ForeignKey, Identity, Index, PrimaryKeyConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from dayzero.adapters.store import tables_telling  # noqa: F401  # the keys refer to its tables
from dayzero.adapters.store.column_types import CleanJson
from dayzero.adapters.store.tables import Base


class RerunRow(Base):
    """An adaptation that is to be run again, once at a time; rows stay when they have ended, with the priority they had."""

    __tablename__ = "reruns"
    __table_args__ = (
        Index("ix_reruns_open", "adaptation_id", unique=True, postgresql_where=text("ended_at IS NULL")),
        Index("ix_reruns_adaptation_id", "adaptation_id"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"))
    entry_id: Mapped[str] = mapped_column(ForeignKey("entries.id"))
    platform: Mapped[str]
    reasons: Mapped[Any] = mapped_column(CleanJson)
    queued_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    score: Mapped[float | None]
    terms: Mapped[Any | None] = mapped_column(CleanJson)


class DemandRow(Base):
    """How often a model was looked up on a platform on a day."""

    __tablename__ = "demand"
    __table_args__ = (PrimaryKeyConstraint("model", "platform", "day"),)
    model: Mapped[str]
    platform: Mapped[str]
    day: Mapped[date] = mapped_column(Date())
    lookups: Mapped[int]
