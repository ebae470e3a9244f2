"""Entries that grow old and the queue of re-runs, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Engine,
    RowMapping,
    SQLColumnExpression,
    Text,
    any_,
    delete,
    func,
    literal,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.entries import alone, append_stale, current_of
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.outbox import EVENT_FIELDS
from dayzero.adapters.store.rows import STATES_GOING_ON, adaptation_row, noun_of, utc
from dayzero.adapters.store.tables import AdaptationRow, CheckRow, LogRow, MeasurementRow, ModelRow, StackRow
from dayzero.adapters.store.tables_ageing import DemandRow, RerunRow
from dayzero.adapters.store.tables_telling import EntryRow, SubscriptionRow, WorkerRow
from dayzero.adapters.store.views import versions_view
from dayzero.adapters.store.visibility import seen_by, sight_of
from dayzero.domain.access import OPERATOR, Viewer
from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.domain.ageing import Ageing, Basis, Priority, Rerun, StandingEntry, Worth
from dayzero.domain.entry import Correctness, Freshness
from dayzero.domain.events import EventKind
from dayzero.domain.platforms import Stack
from dayzero.domain.verdict import Mode
from dayzero.domain.waivers import Waiver
from dayzero.errors import BadInputError
from dayzero.ports.running import Clock
from dayzero.stages.ageing.deciding import reason_of
from dayzero.stages.predicates.matching import matches
from dayzero.stages.predicates.text import parse
from dayzero.stages.predicates.tree import Predicate

DEMAND_DAYS = 28
"""How long a look-up counts as demand."""

_NOT_AGAIN = (*STATES_GOING_ON, AdaptationState.CANCELLED.value)

_STANDING = """
SELECT s.entry_id AS id, s.adaptation_id, s.model, s.platform, s.mode, s.method, s.stack_fingerprint, a.purpose,
       e.document -> 'basis' AS basis, e.document -> 'waivers' AS waivers
FROM standing s JOIN entries e ON e.id = s.entry_id JOIN adaptations a ON a.id = s.adaptation_id
WHERE s.freshness = 'current'
ORDER BY s.seq
"""


_WAITING = (
    RerunRow.id, RerunRow.entry_id, RerunRow.reasons, RerunRow.queued_at, RerunRow.adaptation_id, AdaptationRow.platform,
    AdaptationRow.mode, AdaptationRow.purpose, ModelRow.name.label("model"), EntryRow.correctness, EntryRow.devices,
)  # fmt: skip
"""Columns, not entities: thousands may wait."""


class SqlAgeingBook:
    """ports.ageing.AgeingBook on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def standing(self) -> Sequence[StandingEntry]:
        """Every entry of the list that counts as current, with what it rests on."""
        told = select(StackRow.fingerprint, StackRow.platform, StackRow.components)
        with transaction(self._engine) as session:
            known = {name: Stack(platform, components) for name, platform, components in session.execute(told)}
            rows = session.execute(text(_STANDING)).mappings().all()
        return tuple(_standing(row, known) for row in rows)

    def stacks(self, seen_within_s: float) -> Mapping[str, Sequence[Stack]]:
        """By platform what counts as installed; a worker's own word comes before any published package."""
        told = select(StackRow.platform, StackRow.fingerprint, StackRow.components).order_by(
            StackRow.platform, StackRow.told_seq.desc()
        )
        since = self._clock.now() - timedelta(seconds=seen_within_s)
        seen = select(WorkerRow.platform, WorkerRow.stack_fingerprint).where(WorkerRow.seen_at >= since).distinct()
        with transaction(self._engine) as session:
            served = {(platform, fingerprint) for platform, fingerprint in session.execute(seen)}
            by_platform: dict[str, list[tuple[Stack, bool]]] = {}
            for platform, fingerprint, components in session.execute(told):
                one = Stack(platform, components)
                by_platform.setdefault(platform, []).append((one, (platform, fingerprint) in served))
        return {platform: _installed(stacks) for platform, stacks in by_platform.items()}

    def mark(self, entry: StandingEntry, causes: Sequence[Ageing]) -> bool:
        """Append the stale version, write the event and queue the re-run; see the port."""
        now = self._clock.now()
        with transaction(self._engine) as session:
            row, _ = adaptation_row(session, entry.adaptation_id, lock=True)
            known = session.get_one(EntryRow, entry.entry_id)
            alone(session, known.key_digest)
            newest = current_of(session, known.key_digest)
            if newest is None or newest.id != known.id or newest.freshness == Freshness.STALE.value:
                return False
            stale = append_stale(session, row, known, reason_of(tuple(causes)), now)
            if row.state not in _NOT_AGAIN:
                reasons = [cause.why for cause in causes]
                session.execute(
                    insert(RerunRow)
                    .values(
                        id=uuid4().hex, adaptation_id=row.id, entry_id=stale.id, platform=row.platform, reasons=reasons,
                        queued_at=now,
                    )
                    .on_conflict_do_nothing()
                )  # fmt: skip
            return True

    def waiting(self, platform: str | None = None, viewer: Viewer = OPERATOR) -> Sequence[Rerun]:
        """Re-runs that wait and that the viewer sees, the oldest first, with what speaks for each and what it costs."""
        now = self._clock.now()
        query = (
            select(*_WAITING)
            .join(AdaptationRow, AdaptationRow.id == RerunRow.adaptation_id)
            .join(ModelRow, ModelRow.id == AdaptationRow.model_id)
            .join(EntryRow, EntryRow.id == RerunRow.entry_id)
            .where(RerunRow.started_at.is_(None), RerunRow.ended_at.is_(None))
            .order_by(RerunRow.seq)
        )
        if platform is not None:
            query = query.where(RerunRow.platform == platform)
        with transaction(self._engine) as session:
            sight = sight_of(session, viewer, now)
            found = session.execute(query.where(seen_by(sight, ModelRow.name, RerunRow.platform))).all()
            if not found:
                return ()
            heard = _heard(session, [row.entry_id for row in found])
            asked = _asked(session, (now - timedelta(days=DEMAND_DAYS)).date())
            took = _took(session, [row.adaptation_id for row in found])
        return tuple(
            _rerun(
                row,
                Worth(
                    subscribers=heard.get(row.entry_id, 0),
                    asked=asked.get((row.model, row.platform), 0),
                    waited_s=(now - utc(row.queued_at)).total_seconds(),
                    verified=row.correctness == Correctness.VERIFIED.value,
                    devices=row.devices,
                    took_s=took.get(row.adaptation_id),
                ),
            )
            for row in found
        )

    def under_way(self) -> Mapping[str, int]:
        """Re-runs that were started and have not ended, by platform."""
        query = (
            select(RerunRow.platform, func.count())
            .join(AdaptationRow, AdaptationRow.id == RerunRow.adaptation_id)
            .where(RerunRow.started_at.is_not(None), RerunRow.ended_at.is_(None), AdaptationRow.state.in_(STATES_GOING_ON))
            .group_by(RerunRow.platform)
        )
        with transaction(self._engine) as session:
            return {str(platform): int(count) for platform, count in session.execute(query)}

    def start(self, rerun: Rerun, priority: Priority) -> bool:
        """Request the adaptation again and keep the priority with its terms; see the port."""
        now = self._clock.now()
        with transaction(self._engine) as session:
            row, _ = adaptation_row(session, rerun.adaptation_id, lock=True)
            waits = session.get(RerunRow, rerun.id, with_for_update=True, populate_existing=True)
            if waits is None or waits.started_at is not None or waits.ended_at is not None:
                return False
            if row.state in _NOT_AGAIN:
                waits.ended_at = now
                return False
            waits.started_at, waits.score, waits.terms = now, priority.score, list(priority.terms)
            row.state, row.claimant, row.stage = AdaptationState.REQUESTED.value, None, None
            row.reason, row.finished_at, row.attempts_before = f"run again: {'; '.join(rerun.reasons)}", None, row.attempt
            for table in (CheckRow, MeasurementRow):
                session.execute(delete(table).where(table.adaptation_id == row.id))
            return True

    def asked(self, model: str, platform: str) -> None:
        """Count a look-up of the model on the platform."""
        statement = insert(DemandRow).values(
            model=short_name(model, "a model's name"), platform=short_name(platform, "a platform's slug"),
            day=self._clock.now().date(), lookups=1,
        )  # fmt: skip
        with transaction(self._engine) as session:
            session.execute(
                statement.on_conflict_do_update(
                    index_elements=["model", "platform", "day"], set_={"lookups": DemandRow.lookups + literal_column("1")}
                )
            )


def end_reruns(session: Session, adaptation_id: str, now: Any) -> None:
    """The adaptation has ended, however it did: nothing of it waits any more."""
    open_rows = update(RerunRow).where(RerunRow.adaptation_id == adaptation_id, RerunRow.ended_at.is_(None))
    session.execute(open_rows.values(ended_at=now))


def _standing(row: RowMapping, known: Mapping[str, Stack]) -> StandingEntry:
    basis = noun_of(Basis, row["basis"]) if row["basis"] else None
    told = known.get(row["stack_fingerprint"])
    if basis is None and told is not None:
        # An older version noted no basis; without a recipe the fingerprint of the entry is that of a stack that was told.
        basis = Basis(stack=told.components)
    waivers = tuple(noun_of(Waiver, one) for one in row["waivers"] or ())
    return StandingEntry(
        row["id"], row["adaptation_id"], row["model"], row["platform"], Mode(row["mode"]), Purpose(row["purpose"]),
        row["method"], basis, waivers,
    )  # fmt: skip


def _installed(stacks: Sequence[tuple[Stack, bool]]) -> tuple[Stack, ...]:
    """Of a platform's stacks, the newest first, each with whether a worker has it: those that count."""
    own = [(stack, served) for stack, served in stacks if stack.published is None]
    if own:
        return (own[0][0], *(stack for stack, served in own[1:] if served))
    newest = {stack.published: stack for stack, _ in reversed(stacks)}
    components = {name: version for stack in newest.values() for name, version in stack.components.items()}
    return (Stack(stacks[0][0].platform, components),)


def _listeners(session: Session) -> list[Predicate]:
    """The predicates of those who are told; one that no longer parses hears nothing."""
    found = []
    for written in session.execute(
        select(SubscriptionRow.predicate).where(SubscriptionRow.enabled, SubscriptionRow.confirmed_at.is_not(None))
    ).scalars():
        try:
            found.append(parse(written, EVENT_FIELDS))
        except BadInputError:
            continue
    return found


def _heard(session: Session, entry_ids: Sequence[str]) -> dict[str, int]:
    """By entry, how many would hear that it is stale, or that it is current again."""
    listeners = _listeners(session)
    if not listeners:
        return {}
    heard = {}
    for entry in session.execute(select(versions_view).where(_among(versions_view.c.entry_id, entry_ids))).mappings():
        stale = {**entry, "event": EventKind.ENTRY_STALE.value}
        again = {**entry, "event": EventKind.ENTRY_CHANGED.value, "freshness": Freshness.CURRENT.value}
        heard[str(entry["entry_id"])] = sum(matches(one, stale) or matches(one, again) for one in listeners)
    return heard


def _among(column: SQLColumnExpression[str], values: Sequence[str]) -> ColumnElement[bool]:
    """One parameter for all of them, however many wait."""
    return column == any_(literal(list(values), ARRAY(Text)))


def _asked(session: Session, since: Any) -> dict[tuple[str, str], int]:
    query = (
        select(DemandRow.model, DemandRow.platform, func.sum(DemandRow.lookups))
        .where(DemandRow.day >= since)
        .group_by(DemandRow.model, DemandRow.platform)
    )
    return {(model, platform): int(count) for model, platform, count in session.execute(query)}


def _took(session: Session, adaptation_ids: Sequence[str]) -> dict[str, float]:
    """Seconds from the first line of the last attempt to its end; nothing where a clock went back meanwhile."""
    query = (
        select(AdaptationRow.id, AdaptationRow.finished_at, func.min(LogRow.at))
        .join(LogRow, (LogRow.adaptation_id == AdaptationRow.id) & (LogRow.attempt == AdaptationRow.attempt))
        .where(_among(AdaptationRow.id, adaptation_ids), AdaptationRow.finished_at.is_not(None))
        .group_by(AdaptationRow.id, AdaptationRow.finished_at)
    )
    spans = {name: (utc(end) - utc(begin)).total_seconds() for name, end, begin in session.execute(query) if end}
    return {name: span for name, span in spans.items() if span >= 0}


def _rerun(row: Any, worth: Worth) -> Rerun:
    return Rerun(
        row.id, row.adaptation_id, row.entry_id, row.model, row.platform, Mode(row.mode), Purpose(row.purpose),
        tuple(row.reasons), utc(row.queued_at), worth,
    )  # fmt: skip
