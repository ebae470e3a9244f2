"""Subscriptions, and what was delivered to them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Channel(StrEnum):
    """How a subscriber is reached."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber: where to, over which channel, for events that match the predicate (empty: all).

    `secret` signs webhooks (Standard Webhooks, `whsec_…`); None for chat and mail.
    """

    id: str
    channel: Channel
    target: str
    predicate: str
    secret: str | None
    created_at: datetime
    enabled: bool = True


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one subscription. The message id is the event's and repeats with every try."""

    id: str
    event_id: str
    subscription_id: str
    state: DeliveryState
    tries: int
    next_try_at: datetime
    delivered_at: datetime | None = None
    last_error: str | None = None
