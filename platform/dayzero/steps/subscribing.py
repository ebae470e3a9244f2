"""Subscribing from outside: asked for with a token, and confirmed by whoever is reached."""

from dataclasses import dataclass

from dayzero.domain.access import AccessToken, Scope, Viewer
from dayzero.domain.subscriptions import Channel, Manner, Subscription
from dayzero.errors import BadInputError, DayzeroError, NotFoundError
from dayzero.ports.access import Access
from dayzero.ports.catalog import Subscribers
from dayzero.ports.telling import Links, Notifier
from dayzero.stages.telling.showing import shown_target

MOST_OF_ONE_TOKEN = 100


@dataclass(frozen=True, slots=True)
class Doors:
    """What subscribing needs."""

    subscribers: Subscribers
    notifier: Notifier
    access: Access
    links: Links


@dataclass(frozen=True, slots=True)
class Asked:
    """What a subscription is to be; `secret` signs a webhook."""

    channel: Channel
    target: str
    predicate: str
    manner: Manner
    secret: str | None


@dataclass(frozen=True, slots=True)
class Invited:
    """A new subscription, and why its confirmation did not get through (None: it did)."""

    subscription: Subscription
    problem: str | None


def ask(doors: Doors, token: AccessToken, asked: Asked) -> Invited:
    """Make it and send the link that confirms it. Until then nothing else goes there. BadInputError: it cannot work."""
    doors.notifier.check(asked.channel, asked.target)
    if len(owned(doors, token, own_only=True)) >= MOST_OF_ONE_TOKEN:
        raise BadInputError(f"this token has {MOST_OF_ONE_TOKEN} subscriptions.", remedy="Remove one that is not needed.")
    made = doors.subscribers.subscribe(
        asked.channel,
        asked.target,
        asked.predicate,
        asked.secret,
        viewer=Viewer(token.id),
        manner=asked.manner,
        confirmed=False,
    )
    doors.access.record(token.id, "subscription.add", made.id, shown_target(made))
    try:
        doors.notifier.invite(made, doors.links.confirm_url(made.id), doors.links.leave_url(made.id))
    except DayzeroError as error:
        return Invited(made, str(error))
    return Invited(made, None)


def owned(doors: Doors, token: AccessToken, *, own_only: bool = False) -> tuple[Subscription, ...]:
    """The subscriptions of a token; an administrator's are all."""
    everything = doors.subscribers.subscriptions()
    if token.scope is Scope.ADMIN and not own_only:
        return tuple(everything)
    return tuple(one for one in everything if one.viewer.token_id == token.id)


def one_of(doors: Doors, token: AccessToken, subscription_id: str) -> Subscription:
    """One of them. NotFoundError, for those of others as well."""
    for one in owned(doors, token):
        if one.id == subscription_id:
            return one
    raise NotFoundError(f"there is no subscription {subscription_id[:80]} of this token.")


def remove(doors: Doors, token: AccessToken, subscription_id: str) -> None:
    """Unsubscribe. NotFoundError."""
    found = one_of(doors, token, subscription_id)
    doors.subscribers.unsubscribe(found.id)
    doors.access.record(token.id, "subscription.remove", found.id, shown_target(found))


def replay(doors: Doors, token: AccessToken, subscription_id: str) -> int:
    """Try its dead letters again; how many. NotFoundError."""
    count = doors.subscribers.replay(one_of(doors, token, subscription_id).id)
    doors.access.record(token.id, "subscription.replay", subscription_id, f"{count} dead letters")
    return count


def confirm(doors: Doors, link_token: str) -> Subscription:
    """Whoever was reached confirms. BadInputError: not a good link; NotFoundError: it is gone."""
    made = doors.subscribers.confirm(doors.links.confirming(link_token))
    doors.access.record("subscriber", "subscription.confirm", made.id, shown_target(made))
    return made


def leave(doors: Doors, link_token: str) -> None:
    """Whoever was reached leaves; again changes nothing. BadInputError: not a good link."""
    subscription_id = doors.links.leaving(link_token)
    try:
        doors.subscribers.unsubscribe(subscription_id)
    except NotFoundError:
        return
    doors.access.record("subscriber", "subscription.leave", subscription_id)
