"""Tables of the memory of failures."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, PrimaryKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from dayzero.adapters.store.column_types import CleanJson
from dayzero.adapters.store.tables import Base


class FailureRow(Base):
    """A root cause by its signature, with what people say of it."""

    __tablename__ = "failures"
    __table_args__ = (Index(None, "platform", "operator"),)
    signature: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    check_name: Mapped[str]
    operator: Mapped[str | None]
    dtypes: Mapped[Any] = mapped_column(CleanJson)
    shape_class: Mapped[str]
    platform: Mapped[str]
    symptom: Mapped[str]
    cause: Mapped[str | None]
    workaround: Mapped[str | None]
    owner: Mapped[str | None]
    ticket: Mapped[str | None]
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]


class FailureHitRow(Base):
    """An adaptation that met it, the last time in that stack; `gone_at` once a later attempt of it no longer did."""

    __tablename__ = "failure_hits"
    __table_args__ = (PrimaryKeyConstraint("signature", "adaptation_id"), Index(None, "adaptation_id"))
    signature: Mapped[str] = mapped_column(ForeignKey("failures.signature"))
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"))
    model: Mapped[str]
    platform: Mapped[str]
    stack_fingerprint: Mapped[str]
    said: Mapped[str]
    seen_at: Mapped[datetime]
    gone_at: Mapped[datetime | None]
