"""Which notifier reaches a subscriber."""

import base64
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dayzero.adapters.notify.networks import Networks
from dayzero.adapters.notify.posting import Poster
from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Channel, Subscription

if TYPE_CHECKING:
    from dayzero.adapters.notify.chat import AppriseNotifier
    from dayzero.adapters.notify.webhook import WebhookNotifier


def new_secret() -> str:
    """A fresh webhook secret of 32 random bytes, as the Standard Webhooks scheme writes them."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


class ChosenNotifier:
    """ports.telling.Notifier over whichever channel the subscription names, to permitted addresses alone."""

    def __init__(
        self, networks: Networks | None = None, *, timeout_s: float = 10.0, leave_url: Callable[[str], str] | None = None
    ) -> None:
        self._networks = networks or Networks()
        self._poster = Poster(self._networks)
        self._timeout_s = timeout_s
        self._leave_url = leave_url

    def check(self, channel: Channel, target: str) -> None:
        """BadInputError when the channel cannot reach such a target, or must not."""
        if channel is Channel.WEBHOOK:
            from dayzero.adapters.notify.webhook import check_webhook_target

            check_webhook_target(target, self._networks)
            return
        from dayzero.adapters.notify.chat import check_apprise_target

        check_apprise_target(target)

    def deliver(self, subscription: Subscription, event: Event) -> None:
        """Deliver one event over the subscription's channel."""
        self._of(subscription).deliver(subscription, event)

    def deliver_digest(self, subscription: Subscription, digest_id: str, events: Sequence[Event]) -> None:
        """Deliver several events as one message over the subscription's channel."""
        self._of(subscription).deliver_digest(subscription, digest_id, events)

    def invite(self, subscription: Subscription, confirm_url: str, leave_url: str) -> None:
        """Ask whoever is reached over the subscription's channel to confirm."""
        self._of(subscription).invite(subscription, confirm_url, leave_url)

    def close(self) -> None:
        """Close open connections."""
        self._poster.close()

    def _of(self, subscription: Subscription) -> "WebhookNotifier | AppriseNotifier":
        if subscription.channel is Channel.WEBHOOK:
            from dayzero.adapters.notify.webhook import WebhookNotifier

            return WebhookNotifier(self._poster, timeout_s=self._timeout_s)
        from dayzero.adapters.notify.chat import AppriseNotifier

        return AppriseNotifier(self._networks, self._leave_url)
