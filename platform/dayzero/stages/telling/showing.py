"""Subscriptions as they are shown: never with what may be a credential."""

import re

from dayzero.domain.canonical import Json, plain
from dayzero.domain.subscriptions import Channel, Standing, Subscription


def shown_target(subscription: Subscription) -> str:
    """Where a subscription goes, without user, password and query; all but the scheme of a chat URL is left out."""
    if subscription.channel is Channel.APPRISE:
        return f"{subscription.target.partition('://')[0]}://…"
    return re.sub(r"^(https?://)[^/@]*@", r"\1", re.split(r"[?#]", subscription.target)[0], flags=re.IGNORECASE)


def shown_subscription(subscription: Subscription, standing: Standing | None = None) -> dict[str, Json]:
    """The subscription and how its deliveries stand, as documented JSON."""
    stands = standing or Standing()
    quiet = subscription.manner.quiet
    return {
        "id": subscription.id,
        "channel": subscription.channel.value,
        "target": shown_target(subscription),
        "filter": subscription.predicate,
        "enabled": subscription.enabled,
        "created_at": plain(subscription.created_at),
        "confirmed_at": plain(subscription.confirmed_at),
        "digest_every_s": subscription.manner.digest_every_s,
        "quiet": None if quiet is None else f"{quiet.begins}-{quiet.ends} {quiet.time_zone}",
        "token": subscription.viewer.token_id,
        "pending": stands.pending,
        "delivered": stands.delivered,
        "dead": stands.dead,
        "last_error": stands.last_error,
    }
