"""Subscriptions, and what was delivered to them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dayzero.domain.access import ANYONE, Viewer
from dayzero.domain.events import Event


class Channel(StrEnum):
    """How a subscriber is reached."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of a day in which a subscriber is left alone: `HH:MM` to `HH:MM` (past midnight, too) in an IANA time zone."""

    begins: str
    ends: str
    time_zone: str


@dataclass(frozen=True, slots=True)
class Manner:
    """How a subscriber is told: each event at once, or a digest every so many seconds; never in its quiet hours."""

    digest_every_s: int | None = None
    quiet: Quiet | None = None


AT_ONCE = Manner()


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber: where to, over which channel, for events that match the predicate (empty: all).

    `secret` signs webhooks (Standard Webhooks, `whsec_…`; two with a space between while one is replaced); None: chat and mail.
    It is told what `viewer` may see, and nothing before it was confirmed.
    """

    id: str
    channel: Channel
    target: str
    predicate: str
    secret: str | None
    created_at: datetime
    enabled: bool = True
    confirmed_at: datetime | None = None
    viewer: Viewer = ANYONE
    manner: Manner = AT_ONCE


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one subscription. The message id is the event's and repeats with every try.

    `tries` counts how often it failed, the subscriber's absences since it was made among them.
    """

    id: str
    event_id: str
    subscription_id: str
    state: DeliveryState
    tries: int
    next_try_at: datetime
    delivered_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """What one subscriber is to be told now, in order, leased to one holder; others serve other lanes meanwhile.

    `absences` is how often in a row it could not be reached. With a `digest_id` all of it goes into one message of that id.
    """

    subscription: Subscription
    holder: str
    absences: int
    due: tuple[tuple[Delivery, Event], ...]
    digest_id: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one delivery: taken (no error), to be tried again in so many seconds, or (None) never."""

    delivery_id: str
    error: str | None = None
    retry_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class Absence:
    """The subscriber could not be reached at all: its lane rests, and what has failed `max_tries` times dies."""

    error: str
    rest_s: float
    max_tries: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How many deliveries of a subscription are pending, delivered and dead, and what went wrong last."""

    pending: int = 0
    delivered: int = 0
    dead: int = 0
    last_error: str | None = None
