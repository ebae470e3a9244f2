"""How subscribers are reached."""

from typing import Protocol

from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Delivery, Subscription


class Notifier(Protocol):
    """Delivers one event to one subscriber."""

    def deliver(self, subscription: Subscription, event: Event, delivery: Delivery) -> None:
        """Deliver, or raise UnavailableError (try again) or BadInputError (never will succeed)."""
        ...
