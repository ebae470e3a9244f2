"""Webhooks, signed by the Standard Webhooks scheme (https://www.standardwebhooks.com)."""

import binascii
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpcore
import httpx
from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError

from dayzero.adapters.notify.networks import REMEDY, Networks
from dayzero.adapters.notify.posting import Answer, Poster
from dayzero.domain.canonical import canonical_json, plain
from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Subscription
from dayzero.errors import BadInputError, UnavailableError, UnreachableError

LONGEST_RETRY_AFTER_S = 86_400.0
DIGEST_TYPE = "dayzero.digest"
CONFIRM_TYPE = "dayzero.subscription.confirm"
_LEAVE_ALONE = frozenset((429, 502, 503, 504))
"""Answers that are about the subscriber as a whole, not about one message."""


def payload_of(event: Event) -> bytes:
    """The JSON that a subscriber gets: `type`, `timestamp` and `data`, as the scheme recommends, with the event's id."""
    return canonical_json(_told(event))


def digest_payload_of(digest_id: str, events: Sequence[Event]) -> bytes:
    """The JSON of a digest: its events as they would be told one by one, in order."""
    return canonical_json(
        {
            "id": digest_id,
            "type": DIGEST_TYPE,
            "timestamp": events[-1].occurred_at,
            "data": {"events": [plain(_told(event)) for event in events]},
        }
    )


def _told(event: Event) -> dict[str, object]:
    return {
        "id": event.id,
        "type": event.kind.value,
        "timestamp": event.occurred_at,
        "data": {**event.fields, "subject": event.subject},
    }


def check_webhook_target(target: str, networks: Networks | None = None) -> httpx.URL:
    """The target as a URL; BadInputError when it is not one that can be posted to, or is at none of the permitted addresses."""
    try:
        url = httpx.URL(target)
    except httpx.InvalidURL as error:
        raise BadInputError(f"{target[:200]!r} is no URL: {error}.", remedy="Write it as https://host/path.") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise BadInputError(f"{target[:200]!r} is no webhook address.", remedy="Write it as https://host/path.")
    if networks is not None:
        _check_addresses(url, networks)
    return url


def _check_addresses(url: httpx.URL, networks: Networks) -> None:
    """A name that cannot be resolved now may be later: every connection is checked again."""
    try:
        found = [str(one[4][0]) for one in socket.getaddrinfo(url.host, url.port or 443, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return
    if not any(networks.permits(address) for address in found):
        raise BadInputError(f"{networks.refusal(url.host, found)}.", remedy=REMEDY)


class WebhookNotifier:
    """Posts events. The message id is the event's on every try; the whole exchange is over within `timeout_s`."""

    def __init__(
        self, poster: Poster, *, timeout_s: float = 10.0, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._poster = poster
        self._timeout_s = timeout_s
        self._now = now

    def deliver(self, subscription: Subscription, event: Event) -> None:
        """Post it; 2xx is taken, 410 is never again (BadInputError), all else is try again (UnavailableError)."""
        self._post(subscription, event.id, payload_of(event))

    def deliver_digest(self, subscription: Subscription, digest_id: str, events: Sequence[Event]) -> None:
        """Post them as one message of type `dayzero.digest`."""
        self._post(subscription, digest_id, digest_payload_of(digest_id, events))

    def invite(self, subscription: Subscription, confirm_url: str, leave_url: str) -> None:
        """Post a message of type `dayzero.subscription.confirm` with both links; a POST to the first one confirms."""
        told = {
            "id": f"confirm-{subscription.id}",
            "type": CONFIRM_TYPE,
            "timestamp": subscription.created_at,
            "data": {"subscription": subscription.id, "confirm_url": confirm_url, "unsubscribe_url": leave_url},
        }
        self._post(subscription, f"confirm-{subscription.id}", canonical_json(told))

    def _post(self, subscription: Subscription, message_id: str, body: bytes) -> None:
        url = check_webhook_target(subscription.target)
        headers = {
            "content-type": "application/json",
            "user-agent": "dayzero",
            "accept": "*/*",
            **_authorization(url),
            **self._signed(subscription, message_id, body),
        }
        where = f"subscriber {subscription.id} at {url.host}"
        plain_url = str(url.copy_with(username=None, password=None, fragment=None))
        try:
            answer = self._poster.post(plain_url, body, headers, self._timeout_s)
        except TimeoutError as error:
            raise UnreachableError(f"{where} did not answer within {self._timeout_s:g} s.") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise UnreachableError(f"{where} could not be reached: {type(error).__name__} {error}.") from error
        _judge(answer, where)

    def _signed(self, subscription: Subscription, message_id: str, body: bytes) -> dict[str, str]:
        try:
            # While a secret is replaced, both sign: a receiver that knows either is content.
            signers = [Webhook(secret) for secret in (subscription.secret or "").split(" ")]
        except (binascii.Error, ValueError, RuntimeError, EmptyWebhookSecretError) as error:
            raise BadInputError(
                f"subscription {subscription.id} has no usable secret (whsec_ and base64), so nothing can be signed for it.",
                remedy="Remove it and subscribe again.",
            ) from error
        moment = self._now().astimezone(UTC).replace(microsecond=0)
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": " ".join(signer.sign(message_id, moment, body.decode()) for signer in signers),
        }


def _authorization(url: httpx.URL) -> dict[str, str]:
    """User and password of the address, as a header."""
    if not url.userinfo:
        return {}
    request = next(httpx.BasicAuth(url.username, url.password).auth_flow(httpx.Request("POST", "http://any")))
    return {"authorization": request.headers["authorization"]}


def _judge(answer: Answer, where: str) -> None:
    if 200 <= answer.status < 300:
        return
    said = answer.beginning.decode("utf-8", "replace").strip().splitlines()
    words = f": {said[0][:200]!a}" if said else ""
    if answer.status == httpx.codes.GONE:
        raise BadInputError(f"{where} is gone (410){words}.", remedy="Subscribe again if it comes back.")
    if 300 <= answer.status < 400:
        # A signed message goes to the address that was subscribed, and nowhere else.
        there = ascii(answer.headers.get("location", "")[:200])
        raise UnavailableError(f"{where} redirects to {there}, which is not followed.", remedy="Subscribe that address.")
    kind = UnreachableError if answer.status in _LEAVE_ALONE else UnavailableError
    retry_after_s = _retry_after_s(answer.headers.get("retry-after", ""))
    raise kind(f"{where} answered {answer.status}{words}.", retry_after_s=retry_after_s)


def _retry_after_s(text: str) -> float | None:
    """Seconds that Retry-After asks for (a number or a date), at most a day; None when it says nothing usable."""
    try:
        if text.isascii() and text.isdigit():
            return min(float(text), LONGEST_RETRY_AFTER_S)
        until = parsedate_to_datetime(text)
        seconds = (until - datetime.now(until.tzinfo)).total_seconds()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)
