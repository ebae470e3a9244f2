"""The day-0 clock of a model on a platform, from the rows that know."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dayzero.adapters.store.rows import maybe_utc
from dayzero.adapters.store.tables import AdaptationRow, CheckRow, ReleaseRow
from dayzero.adapters.store.tables_telling import DeliveryRow, EntryRow, EventRow
from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.domain.entry import Correctness, DayZeroClock
from dayzero.domain.events import EventKind
from dayzero.domain.subscriptions import DeliveryState
from dayzero.domain.verdict import CheckLayer, Verdict

_TOLD = (EventKind.ENTRY_CHANGED, EventKind.ADAPTATION_COMPLETED, EventKind.PRESTAGE_COMPLETED)


def clock_of(session: Session, adaptation: AdaptationRow) -> DayZeroClock:
    """When each thing happened, as far as it has.

    Weights count as live when the hub says that their commit was published, else (or if that is later) when we saw them;
    the first token is the first end-to-end check that passed on the platform.
    """
    announced, config_seen = session.execute(
        select(func.min(ReleaseRow.announced_at), func.min(ReleaseRow.config_seen_at)).where(
            ReleaseRow.model_id == adaptation.model_id
        )
    ).one()
    weights_live, detected = session.execute(
        select(func.min(func.least(ReleaseRow.published_at, ReleaseRow.weights_seen_at)), func.min(ReleaseRow.weights_seen_at))
        .where(ReleaseRow.model_id == adaptation.model_id, ReleaseRow.content_id == adaptation.content_id)
        .where(ReleaseRow.weights_seen_at.is_not(None))
    ).one()
    staged = session.execute(
        select(func.min(AdaptationRow.finished_at)).where(
            AdaptationRow.model_id == adaptation.model_id,
            AdaptationRow.platform == adaptation.platform,
            AdaptationRow.purpose == Purpose.PRESTAGE.value,
            AdaptationRow.state == AdaptationState.DONE.value,
        )
    ).scalar_one()
    first_token = session.execute(
        select(func.min(CheckRow.recorded_at)).where(
            CheckRow.adaptation_id == adaptation.id,
            CheckRow.layer == CheckLayer.END_TO_END.value,
            CheckRow.verdict == Verdict.PASS.value,
        )
    ).scalar_one()
    # A later attempt records its checks anew; when the first token came is kept in the entries of the earlier ones.
    kept = session.execute(
        select(func.min(EntryRow.first_token_at)).where(EntryRow.adaptation_id == adaptation.id)
    ).scalar_one()
    verified = session.execute(
        select(func.min(EntryRow.recorded_at)).where(
            EntryRow.adaptation_id == adaptation.id, EntryRow.correctness == Correctness.VERIFIED.value
        )
    ).scalar_one()
    notified = session.execute(
        select(func.min(DeliveryRow.delivered_at))
        .join(EventRow, EventRow.id == DeliveryRow.event_id)
        .where(
            EventRow.adaptation_id == adaptation.id,
            EventRow.kind.in_([kind.value for kind in _TOLD]),
            DeliveryRow.state == DeliveryState.DELIVERED.value,
        )
    ).scalar_one()
    first = min((moment for moment in (first_token, kept) if moment is not None), default=None)
    moments = (announced, config_seen, weights_live, detected, staged, first, verified, notified)
    return DayZeroClock(*(maybe_utc(moment) for moment in moments))
