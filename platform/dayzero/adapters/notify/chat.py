"""Chat and mail, over Apprise (https://github.com/caronc/apprise): one URL a channel."""

import re
import warnings
from collections.abc import Callable, Sequence

import apprise

from dayzero.adapters.notify.guarding import guarded
from dayzero.adapters.notify.networks import REMEDY, Networks
from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Subscription
from dayzero.errors import BadInputError, UnreachableError

MAX_BODY_CHARACTERS = 4000
TIMEOUT_S = 20.0


def message_of(event: Event) -> tuple[str, str]:
    """Title and plain-text body, with control characters taken out."""
    lines = [f"{name}: {value}" for name, value in sorted(event.fields.items()) if value is not None]
    lines.append(f"event: {event.id} at {event.occurred_at.isoformat()}")
    return _plain(f"{event.kind.value}: {event.subject}"), "\n".join(_plain(line) for line in lines)[:MAX_BODY_CHARACTERS]


def digest_message_of(digest_id: str, events: Sequence[Event]) -> tuple[str, str]:
    """Title and plain-text body of a digest: one line an event, cut where it is too long, and then saying so."""
    lines = [_plain(f"{event.occurred_at:%Y-%m-%d %H:%M} {event.kind.value}: {_gist(event)}") for event in events]
    last = f"digest: {digest_id}"
    shown, room = 0, MAX_BODY_CHARACTERS - len(last) - 40
    while shown < len(lines) and len(lines[shown]) + 1 <= room:
        room -= len(lines[shown]) + 1
        shown += 1
    left = [f"and {len(lines) - shown} more"] if shown < len(lines) else []
    return f"dayzero: {len(events)} events", "\n".join([*lines[:shown], *left, last])


def _gist(event: Event) -> str:
    fields = [event.fields.get(name) for name in ("platform", "correctness", "lifecycle", "stage")]
    return " ".join([event.subject, *(str(value) for value in fields if value is not None)])


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)[:1000]


def service_of(target: str) -> str:
    """The channel's scheme: all of an Apprise URL that holds no credentials for sure."""
    match = re.match(r"[A-Za-z][A-Za-z0-9+.-]{0,30}(?=://)", target)
    return f"{match.group()}://…" if match else "this target"


LOCAL_SCHEMES = frozenset(
    ("dbus", "kde", "qt", "glib", "gnome", "macosx", "windows", "syslog", "file", "exec", "script", "bluetooth")
)
"""Channels that do something on this host rather than tell somebody elsewhere."""


def check_apprise_target(target: str) -> apprise.Apprise:
    """The channel behind the URL; BadInputError when Apprise does not know it. The URL is never shown: it holds secrets."""
    channel = apprise.Apprise()
    with warnings.catch_warnings():
        # Apprise loads its plugins here, and one of them still imports what Python 3.13 dropped.
        warnings.filterwarnings("ignore", "'imghdr' is deprecated", DeprecationWarning)
        known = channel.add(target)
    if not known or target.partition("://")[0].lower() in LOCAL_SCHEMES:
        raise BadInputError(
            f"{service_of(target)} is no channel that Apprise can reach.",
            remedy="The URLs are listed at https://github.com/caronc/apprise/wiki.",
        )
    return channel


class AppriseNotifier:
    """Sends events to one chat or mail channel. The message's id stands in the text, so that a repeat can be told."""

    def __init__(self, networks: Networks, leave_url: Callable[[str], str] | None = None) -> None:
        self._networks = networks
        self._leave_url = leave_url

    def deliver(self, subscription: Subscription, event: Event) -> None:
        """Send it; UnavailableError when the channel does not take it."""
        self._send(subscription, *message_of(event))

    def deliver_digest(self, subscription: Subscription, digest_id: str, events: Sequence[Event]) -> None:
        """Send them as one message."""
        self._send(subscription, *digest_message_of(digest_id, events))

    def invite(self, subscription: Subscription, confirm_url: str, leave_url: str) -> None:
        """Send both links."""
        lines = ("Somebody asked dayzero to send events here.", f"To get them: {confirm_url}", f"Never: {leave_url}")
        self._send(subscription, "dayzero: confirm this subscription", "\n".join(lines), leaving=False)

    def _send(self, subscription: Subscription, title: str, body: str, *, leaving: bool = True) -> None:
        if leaving and self._leave_url is not None:
            body += f"\nunsubscribe: {self._leave_url(subscription.id)}"
        channel = check_apprise_target(subscription.target)
        service = service_of(subscription.target)
        # Apprise says only yes or no (and logs why); whatever it lets through of its plugins is a no as well.
        with guarded(self._networks) as guard:
            try:
                taken = channel.notify(
                    title=title, body=body, body_format=apprise.NotifyFormat.TEXT, interpret_escapes=False, timeout=TIMEOUT_S
                )
            except (OSError, ValueError, TypeError) as error:
                raise UnreachableError(f"{service} failed: {type(error).__name__}.") from error
        if guard.refused:
            raise UnreachableError(f"{self._networks.refusal(service, guard.refused)}.", remedy=REMEDY)
        if not taken:
            raise UnreachableError(f"{service} did not take the message.")
