"""Which notifier reaches a subscriber."""

import base64
import secrets

from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Channel, Delivery, Subscription
from dayzero.ports.telling import Notifier


def choose(subscription: Subscription) -> Notifier:
    """The notifier of the subscription's channel."""
    if subscription.channel is Channel.WEBHOOK:
        from dayzero.adapters.notify.webhook import WebhookNotifier

        return WebhookNotifier()
    from dayzero.adapters.notify.chat import AppriseNotifier

    return AppriseNotifier()


def check_target(channel: Channel, target: str) -> None:
    """BadInputError when the channel cannot reach such a target, whoever is there."""
    if channel is Channel.WEBHOOK:
        from dayzero.adapters.notify.webhook import check_webhook_target

        check_webhook_target(target)
        return
    from dayzero.adapters.notify.chat import check_apprise_target

    check_apprise_target(target)


def new_secret() -> str:
    """A fresh webhook secret of 32 random bytes, as the Standard Webhooks scheme writes them."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


class ChosenNotifier:
    """Delivers over whichever channel the subscription names."""

    def deliver(self, subscription: Subscription, event: Event, delivery: Delivery) -> None:
        """Deliver, or raise UnavailableError (try again) or BadInputError (never will succeed)."""
        choose(subscription).deliver(subscription, event, delivery)
