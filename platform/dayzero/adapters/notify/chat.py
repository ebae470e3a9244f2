"""Chat and mail, over Apprise (https://github.com/caronc/apprise): one URL a channel."""

import re
import warnings

import apprise

from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Delivery, Subscription
from dayzero.errors import BadInputError, UnavailableError

MAX_BODY_CHARACTERS = 4000
TIMEOUT_S = 20.0


def message_of(event: Event) -> tuple[str, str]:
    """Title and plain-text body, with control characters taken out."""
    lines = [f"{name}: {value}" for name, value in sorted(event.fields.items()) if value is not None]
    lines.append(f"event: {event.id} at {event.occurred_at.isoformat()}")
    return _plain(f"{event.kind.value}: {event.subject}"), "\n".join(_plain(line) for line in lines)[:MAX_BODY_CHARACTERS]


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)[:1000]


def service_of(target: str) -> str:
    """The channel's scheme: all of an Apprise URL that holds no credentials for sure."""
    match = re.match(r"[A-Za-z][A-Za-z0-9+.-]{0,30}(?=://)", target)
    return f"{match.group()}://…" if match else "this target"


def check_apprise_target(target: str) -> apprise.Apprise:
    """The channel behind the URL; BadInputError when Apprise does not know it. The URL is never shown: it holds secrets."""
    channel = apprise.Apprise()
    with warnings.catch_warnings():
        # Apprise loads its plugins here, and one of them still imports what Python 3.13 dropped.
        warnings.filterwarnings("ignore", "'imghdr' is deprecated", DeprecationWarning)
        known = channel.add(target)
    if not known:
        raise BadInputError(
            f"{service_of(target)} is no channel that Apprise can reach.",
            remedy="The URLs are listed at https://github.com/caronc/apprise/wiki.",
        )
    return channel


class AppriseNotifier:
    """Sends events to one chat or mail channel. The event's id stands in the text, so that a repeat can be told."""

    def deliver(self, subscription: Subscription, event: Event, delivery: Delivery) -> None:
        """Send it; UnavailableError when the channel does not take it."""
        channel = check_apprise_target(subscription.target)
        title, body = message_of(event)
        # Apprise says only yes or no (and logs why); whatever it lets through of its plugins is a no as well.
        try:
            taken = channel.notify(
                title=title, body=body, body_format=apprise.NotifyFormat.TEXT, interpret_escapes=False, timeout=TIMEOUT_S
            )
        except (OSError, ValueError, TypeError) as error:
            raise UnavailableError(f"{service_of(subscription.target)} failed: {type(error).__name__}.") from error
        if not taken:
            raise UnavailableError(f"{service_of(subscription.target)} did not take the message.")
