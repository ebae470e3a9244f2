"""Who wants to know what."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from uuid import uuid4

from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.outbox import EVENT_FIELDS
from dayzero.adapters.store.rows import delivery_of, event_of, subscription_of
from dayzero.adapters.store.tables_telling import DeliveryRow, EventRow, SubscriptionRow
from dayzero.domain.access import ANYONE, Viewer
from dayzero.domain.events import Event
from dayzero.domain.subscriptions import (
    AT_ONCE,
    Channel,
    Delivery,
    DeliveryState,
    Manner,
    Standing,
    Subscription,
)
from dayzero.errors import NotFoundError
from dayzero.ports.running import Clock
from dayzero.ports.telling import Vault
from dayzero.stages.predicates.text import parse


class SqlSubscribers:
    """ports.catalog.Subscribers on PostgreSQL; addresses and secrets are stored as the vault locks them."""

    def __init__(self, engine: Engine, clock: Clock, vault: Vault) -> None:
        self._engine = engine
        self._clock = clock
        self._vault = vault

    def subscribe(
        self,
        channel: Channel,
        target: str,
        predicate: str,
        secret: str | None,
        *,
        viewer: Viewer = ANYONE,
        manner: Manner = AT_ONCE,
        confirmed: bool = True,
    ) -> Subscription:
        """A new subscription; it gets events from now on. BadInputError for a filter that does not parse."""
        parse(predicate, EVENT_FIELDS)
        now = self._clock.now()
        row = SubscriptionRow(
            id=str(uuid4()), channel=channel.value, target=self._vault.lock(short_name(target, "a subscriber's address")),
            predicate=predicate, secret=None if secret is None else self._vault.lock(secret), created_at=now, enabled=True,
            confirmed_at=now if confirmed else None, token_id=viewer.token_id, digest_every_s=manner.digest_every_s,
            quiet=None if manner.quiet is None else asdict(manner.quiet), absences=0, absences_in_row=0,
        )  # fmt: skip
        with transaction(self._engine) as session:
            session.add(row)
            session.flush()
            return subscription_of(row, self._vault)

    def subscriptions(self) -> Sequence[Subscription]:
        """Every subscription, the oldest first."""
        with transaction(self._engine) as session:
            rows = session.execute(select(SubscriptionRow).order_by(SubscriptionRow.seq)).scalars()
            return tuple(subscription_of(row, self._vault) for row in rows)

    def subscription(self, subscription_id: str) -> Subscription:
        """One of them. NotFoundError."""
        with transaction(self._engine) as session:
            return subscription_of(_row(session, subscription_id), self._vault)

    def confirm(self, subscription_id: str) -> Subscription:
        """It was confirmed by whoever is reached there; again changes nothing. NotFoundError."""
        with transaction(self._engine) as session:
            row = _row(session, subscription_id)
            row.confirmed_at = row.confirmed_at or self._clock.now()
            session.flush()
            return subscription_of(row, self._vault)

    def unsubscribe(self, subscription_id: str) -> None:
        """Remove it with its secret and what was still to be delivered. NotFoundError."""
        with transaction(self._engine) as session:
            session.delete(_row(session, subscription_id))

    def deliveries(self, subscription_id: str) -> Sequence[Delivery]:
        """What was delivered, or is about to be, the newest first. NotFoundError."""
        query = select(DeliveryRow).where(DeliveryRow.subscription_id == subscription_id).order_by(DeliveryRow.seq.desc())
        with transaction(self._engine) as session:
            absences = _row(session, subscription_id).absences
            return tuple(delivery_of(row, absences) for row in session.execute(query).scalars())

    def standings(self) -> Mapping[str, Standing]:
        """How the deliveries of each subscription stand."""
        counts = select(
            DeliveryRow.subscription_id, DeliveryRow.state, func.count(), func.max(DeliveryRow.last_error)
        ).group_by(DeliveryRow.subscription_id, DeliveryRow.state)
        found: dict[str, dict[str, object]] = {}
        with transaction(self._engine) as session:
            for row in session.execute(select(SubscriptionRow.id, SubscriptionRow.last_error)).all():
                found[row[0]] = {"last_error": row[1]}
            for subscription_id, state, count, error in session.execute(counts).all():
                standing = found[subscription_id]
                standing[state] = count
                standing["last_error"] = error or standing["last_error"]
        return {subscription_id: Standing(**values) for subscription_id, values in found.items()}  # type: ignore[arg-type]

    def dead_letters(self, subscription_id: str | None, limit: int) -> Sequence[tuple[Delivery, Event]]:
        """What was given up (of every subscription: None), in order."""
        query = (
            select(DeliveryRow, EventRow)
            .join(EventRow, EventRow.id == DeliveryRow.event_id)
            .where(DeliveryRow.state == DeliveryState.DEAD.value)
            .order_by(DeliveryRow.position, DeliveryRow.seq)
            .limit(limit)
        )
        if subscription_id is not None:
            query = query.where(DeliveryRow.subscription_id == subscription_id)
        with transaction(self._engine) as session:
            return tuple((delivery_of(delivery), event_of(event)) for delivery, event in session.execute(query).all())

    def replay(self, subscription_id: str | None, delivery_id: str | None = None) -> int:
        """Try dead letters again as if they had never been tried: all, those of one subscription, or one; how many."""
        absences = select(SubscriptionRow.absences).where(SubscriptionRow.id == DeliveryRow.subscription_id).scalar_subquery()
        statement = update(DeliveryRow).where(DeliveryRow.state == DeliveryState.DEAD.value)
        if subscription_id is not None:
            statement = statement.where(DeliveryRow.subscription_id == subscription_id)
        if delivery_id is not None:
            statement = statement.where(DeliveryRow.id == delivery_id)
        again = statement.values(
            state=DeliveryState.PENDING.value, tries=0, absences_before=absences, next_try_at=self._clock.now()
        )
        with transaction(self._engine) as session:
            if subscription_id is not None:
                # Whoever asks for a replay knows that the subscriber is back.
                _row(session, subscription_id).rests_until = None
            return len(session.execute(again.returning(DeliveryRow.id)).all())

    def new_secret(self, subscription_id: str, secret: str, *, keep_old: bool) -> Subscription:
        """Sign with this secret from now on, and (keep_old) with the newest one before it as well. NotFoundError."""
        with transaction(self._engine) as session:
            row = _row(session, subscription_id)
            before = [] if row.secret is None else self._vault.unlock(row.secret).split()
            row.secret = self._vault.lock(" ".join([secret, *before[:1]] if keep_old else [secret]))
            session.flush()
            return subscription_of(row, self._vault)

    def lock_again(self) -> int:
        """Lock every address and secret with the newest key; how many subscriptions."""
        with transaction(self._engine) as session:
            rows = session.execute(select(SubscriptionRow).with_for_update(key_share=True)).scalars().all()
            for row in rows:
                row.target = self._vault.lock(self._vault.unlock(row.target))
                row.secret = None if row.secret is None else self._vault.lock(self._vault.unlock(row.secret))
            return len(rows)


def _row(session: Session, subscription_id: str) -> SubscriptionRow:
    row = session.get(SubscriptionRow, subscription_id)
    if row is None:
        raise NotFoundError(f"there is no subscription {subscription_id[:80]}.", remedy="See `dayzero subscribe ls`.")
    return row
