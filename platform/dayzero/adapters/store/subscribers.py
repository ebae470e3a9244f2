"""Who wants to know what."""

from collections.abc import Sequence
from uuid import uuid4

from sqlalchemy import Engine, select

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.outbox import EVENT_FIELDS
from dayzero.adapters.store.rows import delivery_of, subscription_of
from dayzero.adapters.store.tables_telling import DeliveryRow, SubscriptionRow
from dayzero.domain.subscriptions import Channel, Delivery, Subscription
from dayzero.errors import NotFoundError
from dayzero.ports.running import Clock
from dayzero.stages.predicates.text import parse


class SqlSubscribers:
    """ports.catalog.Subscribers on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def subscribe(self, channel: Channel, target: str, predicate: str, secret: str | None) -> Subscription:
        """A new subscription; it gets events from now on. BadInputError for a filter that does not parse."""
        parse(predicate, EVENT_FIELDS)
        row = SubscriptionRow(
            id=str(uuid4()), channel=channel.value, target=short_name(target, "a subscriber's address"), predicate=predicate,
            secret=secret, created_at=self._clock.now(), enabled=True,
        )  # fmt: skip
        with transaction(self._engine) as session:
            session.add(row)
            session.flush()
            return subscription_of(row)

    def subscriptions(self) -> Sequence[Subscription]:
        """Every subscription, the oldest first."""
        with transaction(self._engine) as session:
            rows = session.execute(select(SubscriptionRow).order_by(SubscriptionRow.seq)).scalars()
            return tuple(subscription_of(row) for row in rows)

    def unsubscribe(self, subscription_id: str) -> None:
        """Remove it with its secret and what was still to be delivered. NotFoundError."""
        with transaction(self._engine) as session:
            row = session.get(SubscriptionRow, subscription_id)
            if row is None:
                raise _unknown(subscription_id)
            session.delete(row)

    def deliveries(self, subscription_id: str) -> Sequence[Delivery]:
        """What was delivered, or is about to be, the newest first. NotFoundError."""
        query = select(DeliveryRow).where(DeliveryRow.subscription_id == subscription_id).order_by(DeliveryRow.seq.desc())
        with transaction(self._engine) as session:
            if session.get(SubscriptionRow, subscription_id) is None:
                raise _unknown(subscription_id)
            return tuple(delivery_of(row) for row in session.execute(query).scalars())


def _unknown(subscription_id: str) -> NotFoundError:
    return NotFoundError(f"there is no subscription {subscription_id}.", remedy="See `dayzero subscribe ls`.")
