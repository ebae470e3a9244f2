"""Waivers in PostgreSQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.rows import utc
from dayzero.adapters.store.tables_telling import WaiverRow
from dayzero.domain.waivers import Waiver
from dayzero.errors import BadInputError, NotFoundError


@dataclass(frozen=True, slots=True)
class AskedWaiver:
    """What a waiver is to say."""

    model: str
    platform: str
    check: str
    reason: str
    owner: str
    until: datetime


def add_waiver(session: Session, asked: AskedWaiver, now: datetime) -> Waiver:
    """A new row; BadInputError where it has expired already, or says nothing of what, who and why."""
    if asked.until <= now:
        raise BadInputError(f"a waiver until {asked.until:%Y-%m-%d %H:%M} UTC has expired.", remedy="Name a moment to come.")
    row = WaiverRow(
        id=uuid4().hex,
        model=short_name(asked.model, "the pattern of a model"),
        platform=short_name(asked.platform, "the pattern of a platform"),
        check_name=short_name(asked.check, "a check's name"),
        reason=short_name(asked.reason.strip(), "a waiver's reason"),
        owner=short_name(asked.owner.strip(), "a waiver's owner"),
        until=asked.until,
        created_at=now,
        ended_at=None,
    )
    session.add(row)
    session.flush()
    return _noun(row)


def all_waivers(session: Session) -> Sequence[Waiver]:
    """Every row, the oldest first."""
    return tuple(_noun(row) for row in session.execute(select(WaiverRow).order_by(WaiverRow.seq)).scalars())


def end_waiver(session: Session, waiver_id: str, now: datetime) -> Waiver:
    """Note the end, once. NotFoundError."""
    row = session.get(WaiverRow, waiver_id)
    if row is None:
        raise NotFoundError(f"there is no waiver {waiver_id[:80]}.", remedy="See `dayzero waiver ls`.")
    row.ended_at = row.ended_at or now
    session.flush()
    return _noun(row)


def _noun(row: WaiverRow) -> Waiver:
    return Waiver(
        row.id, row.model, row.platform, row.check_name, row.reason, row.owner, utc(row.until), utc(row.created_at),
        utc(row.ended_at) if row.ended_at else None,
    )  # fmt: skip
