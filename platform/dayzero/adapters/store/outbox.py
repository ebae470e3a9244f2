"""Events on their way out, and their deliveries."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import Engine, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.rows import delivery_of, event_of, subscription_of
from dayzero.adapters.store.tables_telling import DeliveryRow, EventRow, SubscriptionRow
from dayzero.domain.columns import EVENT_COLUMNS
from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Delivery, DeliveryState, Subscription
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock
from dayzero.stages.predicates.matching import matches
from dayzero.stages.predicates.text import parse
from dayzero.stages.predicates.tree import Predicate, fields_from

EVENT_FIELDS = fields_from(EVENT_COLUMNS)
"""What a subscription's filter may name."""

MAX_ERROR_CHARACTERS = 2000


class SqlOutbox:
    """ports.catalog.Outbox on PostgreSQL. Several dispatchers may run at once: rows are taken with SKIP LOCKED.

    An event that was taken to be emitted and is not reported within `emit_lease_s` (its dispatcher died) shows again.
    """

    def __init__(self, engine: Engine, clock: Clock, emit_lease_s: float = 15.0) -> None:
        self._engine = engine
        self._clock = clock
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
        query = (
            select(EventRow)
            .where(EventRow.fanned_out_at.is_(None))
            .order_by(EventRow.seq)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        with transaction(self._engine) as session:
            events = session.execute(query).scalars().all()
            if not events:
                return 0
            enabled = select(SubscriptionRow).where(SubscriptionRow.enabled).with_for_update(read=True, key_share=True)
            judged = [(row, _predicate(row.predicate)) for row in session.execute(enabled).scalars().all()]
            for event in events:
                for subscription, predicate in judged:
                    self._deliver(session, event, subscription, predicate)
                event.fanned_out_at = self._clock.now()
            return len(events)

    def _deliver(
        self, session: Session, event: EventRow, subscription: SubscriptionRow, predicate: Predicate | BadInputError
    ) -> None:
        if event.occurred_at < subscription.created_at:
            return
        broken = isinstance(predicate, BadInputError)
        if not isinstance(predicate, BadInputError) and not matches(predicate, event.fields):
            return
        # A filter that no longer parses (made by another version) must not swallow events in silence.
        session.execute(
            insert(DeliveryRow)
            .values(
                id=str(uuid4()), event_id=event.id, subscription_id=subscription.id, tries=0, next_try_at=self._clock.now(),
                state=(DeliveryState.DEAD if broken else DeliveryState.PENDING).value,
                last_error=f"the subscription's filter is not usable: {predicate}" if broken else None,
            )
            .on_conflict_do_nothing()
        )  # fmt: skip

    def claim_due(self, limit: int, lease_s: float) -> Sequence[tuple[Delivery, Event, Subscription]]:
        """Deliveries to try now, the oldest first, hidden from others for lease_s seconds; `tries` counts this one."""
        now = self._clock.now()
        query = (
            select(DeliveryRow, EventRow, SubscriptionRow)
            .join(EventRow, EventRow.id == DeliveryRow.event_id)
            .join(SubscriptionRow, SubscriptionRow.id == DeliveryRow.subscription_id)
            .where(DeliveryRow.state == DeliveryState.PENDING.value, DeliveryRow.next_try_at <= now, SubscriptionRow.enabled)
            .order_by(EventRow.seq)
            .limit(limit)
            .with_for_update(of=DeliveryRow, skip_locked=True)
        )
        with transaction(self._engine) as session:
            claimed = []
            for delivery, event, subscription in session.execute(query).all():
                delivery.tries += 1
                delivery.next_try_at = now + timedelta(seconds=lease_s)
                claimed.append((delivery_of(delivery), event_of(event), subscription_of(subscription)))
            return tuple(claimed)

    def delivered(self, delivery_id: str) -> None:
        """The subscriber took it. NotFoundError."""
        with transaction(self._engine) as session:
            row = _delivery(session, delivery_id)
            row.state, row.last_error = DeliveryState.DELIVERED.value, None
            row.delivered_at = row.delivered_at or self._clock.now()

    def undelivered(self, delivery_id: str, error: str, retry_in_s: float | None) -> None:
        """It failed: try again in that many seconds, or (None) never. What was delivered stays delivered. NotFoundError."""
        with transaction(self._engine) as session:
            row = _delivery(session, delivery_id)
            if row.state == DeliveryState.DELIVERED.value:
                return
            row.last_error = error[:MAX_ERROR_CHARACTERS]
            if retry_in_s is None:
                row.state = DeliveryState.DEAD.value
            else:
                row.next_try_at = self._clock.now() + timedelta(seconds=retry_in_s)


def _predicate(text: str) -> Predicate | BadInputError:
    try:
        return parse(text, EVENT_FIELDS)
    except BadInputError as error:
        return error


def _delivery(session: Session, delivery_id: str) -> DeliveryRow:
    query = select(DeliveryRow).where(DeliveryRow.id == delivery_id).with_for_update()
    row = session.execute(query).scalar_one_or_none()
    if row is None:
        raise NotFoundError(f"there is no delivery {delivery_id} (its subscription may have been removed).")
    return row
