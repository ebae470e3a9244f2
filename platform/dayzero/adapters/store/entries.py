"""Appending versions of entries."""

from collections import Counter
from dataclasses import fields, replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dayzero.adapters.store.day_zero import clock_of
from dayzero.adapters.store.events import adaptation_fields, entry_fields, release_fields, write_event
from dayzero.adapters.store.limits import document_of
from dayzero.adapters.store.rows import noun_of
from dayzero.adapters.store.tables import AdaptationRow, ReleaseRow
from dayzero.adapters.store.tables_telling import EntryRow
from dayzero.domain.adaptation import Purpose
from dayzero.domain.canonical import digest, plain
from dayzero.domain.entry import CompatibilityEntry, Correctness, DayZeroClock, Freshness
from dayzero.domain.events import EventKind
from dayzero.domain.release import ReleaseStage
from dayzero.domain.verdict import Mode, Verdict
from dayzero.errors import BadInputError

_GONE = (ReleaseStage.SUPERSEDED.value, ReleaseStage.WITHDRAWN.value)


def append_entry(
    session: Session, adaptation: AdaptationRow, model: str, entry: CompatibilityEntry, now: datetime
) -> EntryRow | None:
    """Append the entry unless it says what the current one of its key says (the clock apart); write entry.changed.

    BadInputError when the entry is about another model or platform than the adaptation.
    """
    if (entry.key.model, entry.key.platform, entry.key.mode.value) != (model, adaptation.platform, adaptation.mode):
        raise BadInputError(
            f"an entry for {entry.key.model} on {entry.key.platform} ({entry.key.mode.value}) does not belong to the "
            f"adaptation of {model} for {adaptation.platform} ({adaptation.mode})."
        )
    release = session.get_one(ReleaseRow, adaptation.release_id)
    if adaptation.purpose == Purpose.ADAPT.value and not is_standing(session, release):
        entry = _stale(entry, "its release was superseded while it was adapted")
    content_digest = digest(replace(entry, clock=DayZeroClock()))
    alone(session, digest(entry.key))
    current = current_of(session, digest(entry.key))
    if current is not None and not current.predicted and adaptation.purpose == Purpose.PRESTAGE.value:
        return None  # what weights showed stands before any prediction
    if current is not None and current.content_digest == content_digest and current.model_id == adaptation.model_id:
        return None
    clock = _filled(entry.clock, clock_of(session, adaptation))
    if entry.correctness is Correctness.VERIFIED and clock.verified_at is None:
        clock = replace(clock, verified_at=now)
    return _append(session, adaptation, replace(entry, clock=clock), content_digest, EventKind.ENTRY_CHANGED, now)


def mark_stale(session: Session, release: ReleaseRow, why: str, now: datetime) -> tuple[tuple[str, Mode], ...]:
    """Append a stale version of every current entry of the release's content, with entry.stale; their platforms and modes."""
    marked = []
    keys = select(EntryRow.key_digest).where(
        EntryRow.model_id == release.model_id, EntryRow.content_id == release.content_id, EntryRow.predicted.is_(False)
    )
    for key_digest in session.execute(keys.distinct()).scalars().all():
        alone(session, key_digest)
        row = current_of(session, key_digest)
        assert row is not None, "a key that was read from the table has a current entry"
        marked.append((row.platform, Mode(row.mode)))
        if row.freshness != Freshness.STALE.value:
            append_stale(session, session.get_one(AdaptationRow, row.adaptation_id), row, why, now)
    return tuple(dict.fromkeys(marked))


def append_stale(session: Session, adaptation: AdaptationRow, row: EntryRow, why: str, now: datetime) -> EntryRow:
    """Append the stale version of an entry that is the current one of its key; write entry.stale."""
    stale = _stale(noun_of(CompatibilityEntry, row.document), why)
    content_digest = digest(replace(stale, clock=DayZeroClock()))
    return _append(session, adaptation, stale, content_digest, EventKind.ENTRY_STALE, now)


def alone(session: Session, key_digest: str) -> None:
    """Wait for whoever else derives an entry of that key, until this transaction ends: of two equal entries one is written."""
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(key_digest, 0))))


def is_standing(session: Session, release: ReleaseRow) -> bool:
    """Whether the release's content still stands on some hub: neither superseded nor withdrawn everywhere."""
    query = select(ReleaseRow.id).where(ReleaseRow.content_id == release.content_id, ReleaseRow.stage.not_in(_GONE))
    return session.execute(query.limit(1)).scalar_one_or_none() is not None


def _stale(entry: CompatibilityEntry, why: str) -> CompatibilityEntry:
    if entry.freshness is Freshness.STALE:
        return entry
    reason = f"{entry.reason} Stale: {why}." if entry.reason else f"Stale: {why}."
    return replace(entry, freshness=Freshness.STALE, reason=reason)


def current_of(session: Session, key_digest: str) -> EntryRow | None:
    """The newest version of the key, which later writers wait for once it was asked under the key's lock."""
    query = select(EntryRow).where(EntryRow.key_digest == key_digest).order_by(EntryRow.seq.desc()).limit(1)
    return session.execute(query).scalar_one_or_none()


def _filled(told: DayZeroClock, known: DayZeroClock) -> DayZeroClock:
    """The told clock, with what it lacks from the rows."""
    names = [field.name for field in fields(DayZeroClock)]
    return DayZeroClock(**{name: getattr(told, name) or getattr(known, name) for name in names})


def _append(
    session: Session, adaptation: AdaptationRow, entry: CompatibilityEntry, content_digest: str, kind: EventKind, now: datetime
) -> EntryRow:
    document_of(entry, f"the entry of {entry.key.model} on {entry.key.platform}")
    counts = Counter(check.verdict for check in entry.checks)
    clock = {name: getattr(entry.clock, name) for name in _CLOCK_COLUMNS}
    row = EntryRow(
        id=uuid4().hex,
        key_digest=digest(entry.key),
        content_digest=content_digest,
        predicted=adaptation.purpose == Purpose.PRESTAGE.value,
        model_id=adaptation.model_id,
        release_id=adaptation.release_id,
        adaptation_id=adaptation.id,
        model=entry.key.model,
        content_id=entry.key.content_id,
        platform=entry.key.platform,
        stack_fingerprint=entry.key.stack_fingerprint,
        engine=entry.key.engine,
        dtype=entry.key.dtype,
        plan=str(entry.key.plan),
        devices=entry.key.plan.world,
        mode=entry.key.mode.value,
        method=entry.method,
        lifecycle=entry.lifecycle.value,
        correctness=entry.correctness.value,
        performance=entry.performance.value,
        freshness=entry.freshness.value,
        grade=entry.grade.value,
        reason=entry.reason,
        checks_passed=counts[Verdict.PASS],
        checks_failed=counts[Verdict.FAIL],
        checks_error=counts[Verdict.ERROR],
        checks_not_run=counts[Verdict.NOT_RUN],
        known_gaps=len(entry.gaps),
        bundle=entry.bundle,
        recorded_at=now,
        document=plain(entry),
        **clock,
    )
    session.add(row)
    session.flush()
    release = session.get_one(ReleaseRow, adaptation.release_id)
    seen = (release_fields(release), adaptation_fields(adaptation), entry_fields(row))
    write_event(session, kind, entry.key.model, now, *seen, adaptation_id=adaptation.id)
    return row


_CLOCK_COLUMNS = (
    "announced_at",
    "config_seen_at",
    "weights_live_at",
    "detected_at",
    "staged_at",
    "first_token_at",
    "verified_at",
)
