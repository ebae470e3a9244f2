"""Events on their way out: to the orchestrator, and fanned out into deliveries."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Engine, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.lanes import settle, take_lane
from dayzero.adapters.store.rows import event_of
from dayzero.adapters.store.tables_telling import DeliveryRow, EventRow, SubscriptionRow
from dayzero.adapters.store.visibility import sight_of
from dayzero.domain.access import ANYONE
from dayzero.domain.columns import EVENT_COLUMNS
from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Absence, DeliveryState, Lane, Outcome
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock
from dayzero.ports.telling import Vault
from dayzero.stages.predicates.matching import matches
from dayzero.stages.predicates.text import parse
from dayzero.stages.predicates.tree import Predicate, fields_from

EVENT_FIELDS = fields_from(EVENT_COLUMNS)
"""What a subscription's filter may name."""

EVENTS_CHANNEL = "dayzero_events"
"""The channel on which PostgreSQL notifies of fanned-out events, by the id of the newest that anybody may see."""

_FAN_OUT_LOCK = 0x64617930


class SqlOutbox:
    """ports.catalog.Outbox on PostgreSQL. Several dispatchers may run at once: rows are taken with SKIP LOCKED.

    An event that was taken to be emitted and is not reported within `emit_lease_s` (its dispatcher died) shows again.
    """

    def __init__(self, engine: Engine, clock: Clock, vault: Vault, emit_lease_s: float = 15.0) -> None:
        self._engine = engine
        self._clock = clock
        self._vault = vault
        self._emit_lease = timedelta(seconds=emit_lease_s)

    def unemitted(self, limit: int) -> Sequence[Event]:
        """Events that the orchestrator has not been told of, the oldest first, hidden from other dispatchers for a while."""
        now = self._clock.now()
        query = (
            select(EventRow)
            .where(EventRow.emitted_at.is_(None), EventRow.hidden_until.is_(None) | (EventRow.hidden_until <= now))
            .order_by(EventRow.seq)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        with transaction(self._engine) as session:
            rows = session.execute(query).scalars().all()
            for row in rows:
                row.hidden_until = now + self._emit_lease
            return tuple(event_of(row) for row in rows)

    def emitted(self, event_id: str) -> None:
        """The orchestrator was told. NotFoundError."""
        with transaction(self._engine) as session:
            row = session.get(EventRow, event_id)
            if row is None:
                raise NotFoundError(f"there is no event {event_id}.")
            row.emitted_at = row.emitted_at or self._clock.now()

    def fan_out(self, limit: int) -> int:
        """Make a delivery for each event × matching subscription that was there before it; the number of events handled."""
        unfanned = select(EventRow).where(EventRow.fanned_out_at.is_(None)).order_by(EventRow.seq).limit(limit)
        enabled = select(SubscriptionRow).where(SubscriptionRow.enabled).with_for_update(read=True, key_share=True)
        with transaction(self._engine) as session:
            # One fan-out at a time: positions rise in the order in which they are seen.
            session.execute(select(func.pg_advisory_xact_lock(_FAN_OUT_LOCK)))
            events = session.execute(unfanned.with_for_update()).scalars().all()
            if not events:
                return 0
            judged = [(row, _predicate(row.predicate)) for row in session.execute(enabled).scalars().all()]
            position = session.execute(select(func.max(EventRow.position))).scalar_one() or 0
            made: list[dict[str, Any]] = []
            for event in events:
                position += 1
                event.position, event.fanned_out_at = position, self._clock.now()
                for row, rule in judged:
                    state = _judged(event, row, rule)
                    if state is not None:
                        made.append(self._delivery(event, row) | state)
            session.flush()
            if made:
                session.execute(insert(DeliveryRow).on_conflict_do_nothing(), made)
            self._notify(session, events)
            return len(events)

    def _notify(self, session: Session, events: Sequence[EventRow]) -> None:
        """Tell whoever listens of the newest event that anybody may see; of a batch without one, nothing."""
        sight = sight_of(session, ANYONE, self._clock.now())
        shown = [event.id for event in events if sight.sees(event.subject, event.fields.get("platform"))]
        if shown:
            session.execute(select(func.pg_notify(EVENTS_CHANNEL, shown[-1])))

    def _delivery(self, event: EventRow, row: SubscriptionRow) -> dict[str, Any]:
        return {
            "id": str(uuid4()),
            "event_id": event.id,
            "subscription_id": row.id,
            "position": event.position,
            "subject": event.subject,
            "tries": 0,
            "absences_before": row.absences,
            "next_try_at": self._clock.now(),
        }

    def take_lane(self, limit: int, lease_s: float) -> Lane | None:
        """What one subscriber is to be told now, leased for lease_s seconds; the one that waited longest first."""
        with transaction(self._engine) as session:
            return take_lane(session, self._vault, self._clock.now(), limit, lease_s)

    def settle(self, lane: Lane, outcomes: Sequence[Outcome], absence: Absence | None) -> int:
        """Note what became of a lane's deliveries and give the lane back; how many of its deliveries died."""
        with transaction(self._engine) as session:
            return settle(session, lane, outcomes, absence, self._clock.now())


def _predicate(text: str) -> Predicate | BadInputError:
    try:
        return parse(text, EVENT_FIELDS)
    except BadInputError as error:
        return error


def _judged(event: EventRow, row: SubscriptionRow, predicate: Predicate | BadInputError) -> dict[str, Any] | None:
    """State and error of the new delivery; None for none."""
    if event.occurred_at < row.created_at:
        return None
    if isinstance(predicate, BadInputError):
        # A filter that no longer parses (made by another version) must not swallow events in silence.
        return {"state": DeliveryState.DEAD.value, "last_error": f"the subscription's filter is not usable: {predicate}"}
    return {"state": DeliveryState.PENDING.value, "last_error": None} if matches(predicate, event.fields) else None
