"""How subscribers are reached, and how their secrets are kept."""

from collections.abc import Sequence
from typing import Protocol

from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Channel, Subscription


class Notifier(Protocol):
    """Delivers events to one subscriber.

    Raises UnreachableError (it cannot be reached, or asks to be left alone for now), UnavailableError (it did not take this
    message: try again) or BadInputError (it never will).
    """

    def check(self, channel: Channel, target: str) -> None:
        """BadInputError when no message may or can go there."""
        ...

    def deliver(self, subscription: Subscription, event: Event) -> None:
        """Deliver one event; its id is the message's."""
        ...

    def deliver_digest(self, subscription: Subscription, digest_id: str, events: Sequence[Event]) -> None:
        """Deliver several events as one message of that id."""
        ...


class Vault(Protocol):
    """Keeps short secrets: what it locks can be stored anywhere."""

    def lock(self, text: str) -> str:
        """The text, encrypted with the newest key."""
        ...

    def unlock(self, locked: str) -> str:
        """The text again; text that was never locked is given back as it is. DependencyError: no key fits."""
        ...
