"""Requesting work: one row a (purpose, content, platform, mode)."""

from datetime import datetime
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.ledger import ensure_platform
from dayzero.adapters.store.tables import AdaptationRow, ReleaseRow
from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.domain.verdict import Mode


def request_work(
    session: Session, release: ReleaseRow, platform: str, purpose: Purpose, mode: Mode, now: datetime
) -> tuple[str, bool]:
    """(id of the adaptation, whether it was made now)."""
    ensure_platform(session, platform, now)
    unique = {"purpose": purpose.value, "content_id": release.content_id, "platform": platform, "mode": mode.value}
    made = session.execute(
        insert(AdaptationRow)
        .values(
            **unique, id=str(uuid4()), release_id=release.id, model_id=release.model_id,
            state=AdaptationState.REQUESTED.value, attempt=0, attempts_before=0, requested_at=now,
        )
        .on_conflict_do_nothing()
        .returning(AdaptationRow.id)
    ).scalar_one_or_none()  # fmt: skip
    if made is not None:
        return made, True
    return session.execute(select(AdaptationRow.id).filter_by(**unique)).scalar_one(), False


def request_prestage(session: Session, release: ReleaseRow, platform: str, now: datetime) -> str | None:
    """Request the pre-stage of a configuration, once a model × configuration × platform; the id if it was made now.

    Partial weights change a release's content from commit to commit; its configuration stays.
    """
    before = (
        select(AdaptationRow.id)
        .join(ReleaseRow, ReleaseRow.id == AdaptationRow.release_id)
        .where(
            AdaptationRow.purpose == Purpose.PRESTAGE.value,
            AdaptationRow.platform == platform,
            AdaptationRow.model_id == release.model_id,
            ReleaseRow.configuration_digest == release.configuration_digest,
        )
    )
    if session.execute(before.limit(1)).scalar_one_or_none() is not None:
        return None
    adaptation_id, made = request_work(session, release, platform, Purpose.PRESTAGE, Mode.INFERENCE, now)
    return adaptation_id if made else None
