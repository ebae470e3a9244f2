"""How subscribers are reached, and how their secrets are kept."""

from collections.abc import Sequence
from typing import Protocol

from dayzero.domain.access import Viewer
from dayzero.domain.events import Event, Told
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

    def invite(self, subscription: Subscription, confirm_url: str, leave_url: str) -> None:
        """Ask whoever is reached there to confirm."""
        ...


class Links(Protocol):
    """Links that only this control plane can have made. What reads them raises BadInputError for a forged or stale one."""

    def confirm_url(self, subscription_id: str) -> str:
        """Where a subscription is confirmed."""
        ...

    def leave_url(self, subscription_id: str) -> str:
        """Where it is left."""
        ...

    def confirming(self, token: str) -> str:
        """The subscription that a link confirms."""
        ...

    def leaving(self, token: str) -> str:
        """The subscription that a link leaves."""
        ...


class EventFeed(Protocol):
    """Events as feeds read them."""

    def newest(self, predicate: str, viewer: Viewer, limit: int) -> Sequence[Event]:
        """The newest events that match, the newest first, of the last few thousand. BadInputError for a wrong filter."""
        ...

    def after(self, position: int, predicate: str, viewer: Viewer, limit: int) -> Told:
        """What matches of the events after a position, in order, and the position up to which was looked."""
        ...

    def position_of(self, event_id: str) -> int | None:
        """The position of an event; None when there is no such event."""
        ...

    def last(self) -> int:
        """The position of the newest event; 0 when there is none."""
        ...


class Vault(Protocol):
    """Keeps short secrets: what it locks can be stored anywhere."""

    def lock(self, text: str) -> str:
        """The text, encrypted with the newest key."""
        ...

    def unlock(self, locked: str) -> str:
        """The text again; text that was never locked is given back as it is. DependencyError: no key fits."""
        ...
