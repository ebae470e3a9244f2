"""Lanes: what one subscriber is told, in order, by one dispatcher at a time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, and_, exists, or_, select, update
from sqlalchemy.orm import Session, aliased

from dayzero.adapters.store.rows import delivery_of, event_of, subscription_of, utc
from dayzero.adapters.store.tables_telling import DeliveryRow, EventRow, SubscriptionRow
from dayzero.adapters.store.visibility import seen_by, sight_of
from dayzero.domain.access import Viewer
from dayzero.domain.subscriptions import Absence, DeliveryState, Lane, Outcome
from dayzero.errors import DayzeroError
from dayzero.ports.telling import Vault
from dayzero.stages.telling.quiet import quiet_until

MAX_ERROR_CHARACTERS = 2000
LONGEST_REST = timedelta(days=2)
"""No rest, lease or wait is longer; one that seems to be was made by a clock that has jumped back since, and is over."""

HIDDEN_AGAIN = timedelta(minutes=1)
LANES_LOOKED_AT = 50
_PENDING = DeliveryState.PENDING.value


def take_lane(session: Session, vault: Vault, now: datetime, limit: int, lease_s: float) -> Lane | None:
    """Lease the lane that waited longest among those with something to tell; None where there is none."""
    for _ in range(LANES_LOOKED_AT):
        row = session.execute(_next_lane(now)).scalar_one_or_none()
        if row is None:
            return None
        row.served_at = now
        lane = _lane(session, vault, row, now, limit)
        if lane is not None:
            row.lane_holder, row.lane_until = lane.holder, now + timedelta(seconds=lease_s)
            return lane
        session.flush()
    return None


def settle(session: Session, lane: Lane, outcomes: Sequence[Outcome], absence: Absence | None, now: datetime) -> int:
    """Write the outcomes; of a lane that another holds by now only what was taken."""
    taken = [one.delivery_id for one in outcomes if one.error is None]
    if taken:
        session.execute(
            update(DeliveryRow)
            .where(DeliveryRow.id.in_(taken), DeliveryRow.state != DeliveryState.DELIVERED.value)
            .values(state=DeliveryState.DELIVERED.value, delivered_at=now, last_error=None)
        )
    query = select(SubscriptionRow).where(SubscriptionRow.id == lane.subscription.id).with_for_update(key_share=True)
    row = session.execute(query).scalar_one_or_none()
    if row is None or row.lane_holder != lane.holder:
        return 0
    row.lane_holder = row.lane_until = None
    if lane.digest_id is not None and taken:
        row.digest_sent_at = now
    died = _note_failures(session, outcomes, now, counted_as_absence=absence is not None)
    if absence is None:
        if outcomes:
            row.absences_in_row = 0
        return died
    return died + _note_absence(session, row, absence, now)


def _note_failures(session: Session, outcomes: Sequence[Outcome], now: datetime, *, counted_as_absence: bool) -> int:
    died = 0
    for one in outcomes:
        if one.error is None:
            continue
        values: dict[str, object] = {"last_error": one.error[:MAX_ERROR_CHARACTERS]}
        if one.retry_in_s is None:
            values["state"], died = DeliveryState.DEAD.value, died + 1
        else:
            values["next_try_at"] = now + timedelta(seconds=one.retry_in_s)
        if not counted_as_absence:
            values["tries"] = DeliveryRow.tries + 1
        session.execute(
            update(DeliveryRow).where(DeliveryRow.id == one.delivery_id, DeliveryRow.state == _PENDING).values(values)
        )
    return died


def _note_absence(session: Session, row: SubscriptionRow, absence: Absence, now: datetime) -> int:
    """One more absence of the subscriber; what has failed too often by now dies."""
    row.absences, row.absences_in_row = row.absences + 1, row.absences_in_row + 1
    row.rests_until, row.last_error = now + timedelta(seconds=absence.rest_s), absence.error[:MAX_ERROR_CHARACTERS]
    failed = DeliveryRow.tries + row.absences - DeliveryRow.absences_before
    dead = (
        update(DeliveryRow)
        .where(DeliveryRow.subscription_id == row.id, DeliveryRow.state == _PENDING, failed >= absence.max_tries)
        .values(state=DeliveryState.DEAD.value, last_error=absence.error[:MAX_ERROR_CHARACTERS])
        .returning(DeliveryRow.id)
    )
    return len(session.execute(dead).all())


def _over(moment: SQLColumnExpression[Any], now: datetime) -> ColumnElement[bool]:
    """Whether a moment has passed, or lies so far ahead that only a clock that jumped can have meant it."""
    return or_(moment.is_(None), moment <= now, moment > now + LONGEST_REST)


def _tellable(subscription_id: str | SQLColumnExpression[str], now: datetime) -> ColumnElement[bool]:
    """Deliveries that are due and follow on none of their subject that waits."""
    earlier = aliased(DeliveryRow)
    waits = exists().where(
        earlier.subscription_id == DeliveryRow.subscription_id,
        earlier.subject == DeliveryRow.subject,
        earlier.state == _PENDING,
        earlier.position < DeliveryRow.position,
        ~_over(earlier.next_try_at, now),
    )
    return and_(
        DeliveryRow.subscription_id == subscription_id,
        DeliveryRow.state == _PENDING,
        _over(DeliveryRow.next_try_at, now),
        ~waits,
    )


def _next_lane(now: datetime) -> Select[SubscriptionRow]:
    return (
        select(SubscriptionRow)
        .where(
            SubscriptionRow.enabled,
            SubscriptionRow.confirmed_at.is_not(None),
            _over(SubscriptionRow.lane_until, now),
            _over(SubscriptionRow.rests_until, now),
            exists().where(_tellable(SubscriptionRow.id, now)),
        )
        .order_by(SubscriptionRow.served_at.nulls_first(), SubscriptionRow.seq)
        .limit(1)
        .with_for_update(key_share=True, skip_locked=True)
    )


def _lane(session: Session, vault: Vault, row: SubscriptionRow, now: datetime, limit: int) -> Lane | None:
    """The lane of a subscription, or None, with a rest, where it is not to be told anything now."""
    try:
        subscription = subscription_of(row, vault)
    except DayzeroError as error:
        row.rests_until, row.last_error = now + timedelta(minutes=5), str(error)[:MAX_ERROR_CHARACTERS]
        return None
    quiet = subscription.manner.quiet
    ends = quiet_until(quiet, now) if quiet is not None else None
    every_s = subscription.manner.digest_every_s
    if ends is None and every_s is not None and row.digest_sent_at is not None:
        due_at = utc(row.digest_sent_at) + timedelta(seconds=every_s)
        ends = due_at if now < due_at <= now + timedelta(seconds=every_s) else None
    if ends is not None:
        row.rests_until = min(ends, now + LONGEST_REST)
        return None
    rows = _due(session, subscription.viewer, row, now, limit)
    if not rows:
        return None
    digest_id = None if every_s is None else _digest_of(rows)
    if digest_id is not None:
        rows = [(delivery, event) for delivery, event in rows if delivery.digest_id == digest_id]
    due = tuple((delivery_of(delivery, row.absences), event_of(event)) for delivery, event in rows)
    return Lane(subscription, uuid4().hex, row.absences_in_row, due, digest_id)


def _due(
    session: Session, viewer: Viewer, row: SubscriptionRow, now: datetime, limit: int
) -> list[tuple[DeliveryRow, EventRow]]:
    """Due deliveries in the order of their events; what the viewer may not see is looked at again later."""
    query = (
        select(DeliveryRow, EventRow)
        .join(EventRow, EventRow.id == DeliveryRow.event_id)
        .where(_tellable(row.id, now))
        .order_by(DeliveryRow.position)
        .limit(limit)
    )
    sight = sight_of(session, viewer, now)
    visible = seen_by(sight, EventRow.subject, EventRow.fields["platform"].astext)
    found = [(delivery, event) for delivery, event in session.execute(query.where(visible)).all()]
    if not found:
        for delivery, _ in session.execute(query).all():
            delivery.next_try_at = now + HIDDEN_AGAIN
    return found


def _digest_of(rows: list[tuple[DeliveryRow, EventRow]]) -> str:
    """The id of the digest that these go into: one that was begun before, or a new one that holds them all."""
    for delivery, _ in rows:
        if delivery.digest_id is not None:
            return delivery.digest_id
    digest_id = str(uuid4())
    for delivery, _ in rows:
        delivery.digest_id = digest_id
    return digest_id
