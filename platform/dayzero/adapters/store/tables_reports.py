"""Table of what others say."""

from datetime import datetime
from typing import Any

from sqlalchemy import Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from dayzero.adapters.store.column_types import CleanJson
from dayzero.adapters.store.tables import Base


class ReportRow(Base):
    """A claim; `digest` is over kind and claim, so that a file can be imported again."""

    __tablename__ = "reports"
    __table_args__ = (Index(None, "model", "platform"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    digest: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    model: Mapped[str]
    platform: Mapped[str]
    claim: Mapped[Any] = mapped_column(CleanJson)
    state: Mapped[str]
    told_by: Mapped[str]
    created_at: Mapped[datetime]
    judged_by: Mapped[str | None]
    judged_at: Mapped[datetime | None]
    why: Mapped[str | None]
