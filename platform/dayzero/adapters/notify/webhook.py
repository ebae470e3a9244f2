"""Webhooks, signed by the Standard Webhooks scheme (https://www.standardwebhooks.com)."""

import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial

import httpx
from anyio import fail_after
from anyio.from_thread import start_blocking_portal
from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError

from dayzero.domain.canonical import canonical_json
from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Delivery, Subscription
from dayzero.errors import BadInputError, UnavailableError

MAX_ANSWER_BYTES = 2048
"""How much of an answer is read: enough for an error message, whatever the subscriber sends."""

LONGEST_RETRY_AFTER_S = 86_400.0


def payload_of(event: Event) -> bytes:
    """The JSON that a subscriber gets: `type`, `timestamp` and `data`, as the scheme recommends, with the event's id."""
    return canonical_json(
        {
            "id": event.id,
            "type": event.kind.value,
            "timestamp": event.occurred_at,
            "data": {**event.fields, "subject": event.subject},
        }
    )


def check_webhook_target(target: str) -> httpx.URL:
    """The target as a URL; BadInputError when it is not one that can be posted to."""
    try:
        url = httpx.URL(target)
    except httpx.InvalidURL as error:
        raise BadInputError(f"{target[:200]!r} is no URL: {error}.", remedy="Write it as https://host/path.") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise BadInputError(f"{target[:200]!r} is no webhook address.", remedy="Write it as https://host/path.")
    return url


class WebhookNotifier:
    """Posts events. The message id is the event's on every try; the whole exchange is over within `timeout_s`."""

    def __init__(self, *, timeout_s: float = 10.0, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._timeout_s = timeout_s
        self._now = now

    def deliver(self, subscription: Subscription, event: Event, delivery: Delivery) -> None:
        """Post it; 2xx is taken, 410 is never again (BadInputError), all else is try again (UnavailableError)."""
        url = check_webhook_target(subscription.target)
        body = payload_of(event)
        headers = {"content-type": "application/json", "user-agent": "dayzero", **self._signed(subscription, event, body)}
        where = f"subscriber {subscription.id} at {url.host}"
        try:
            # A loop of its own thread: this may be called where a loop runs already.
            with start_blocking_portal() as portal:
                answer = portal.call(partial(self._post, url, body, headers))
        except TimeoutError as error:
            raise UnavailableError(f"{where} did not answer within {self._timeout_s:g} s.") from error
        except (httpx.HTTPError, OSError) as error:
            raise UnavailableError(f"{where} could not be reached: {type(error).__name__} {error}.") from error
        _judge(answer, where)

    def _signed(self, subscription: Subscription, event: Event, body: bytes) -> dict[str, str]:
        try:
            signer = Webhook(subscription.secret or "")
        except (binascii.Error, ValueError, RuntimeError, EmptyWebhookSecretError) as error:
            raise BadInputError(
                f"subscription {subscription.id} has no usable secret (whsec_ and base64), so nothing can be signed for it.",
                remedy="Remove it and subscribe again.",
            ) from error
        moment = self._now().astimezone(UTC).replace(microsecond=0)
        return {
            "webhook-id": event.id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": signer.sign(event.id, moment, body.decode()),
        }

    async def _post(self, url: httpx.URL, body: bytes, headers: dict[str, str]) -> tuple[httpx.Response, bytes]:
        # Redirects are not followed: a signed message goes to the address that was subscribed, and nowhere else.
        with fail_after(self._timeout_s):
            async with (
                httpx.AsyncClient(timeout=self._timeout_s, follow_redirects=False) as client,
                client.stream("POST", url, content=body, headers=headers) as response,
            ):
                return response, b"" if response.is_success else await _beginning(response)


async def _beginning(response: httpx.Response) -> bytes:
    read = b""
    async for chunk in response.aiter_raw(MAX_ANSWER_BYTES):
        read += chunk
        if len(read) >= MAX_ANSWER_BYTES:
            break
    return read[:MAX_ANSWER_BYTES]


def _judge(answer: tuple[httpx.Response, bytes], where: str) -> None:
    response, beginning = answer
    if response.is_success:
        return
    said = beginning.decode("utf-8", "replace").strip().splitlines()
    words = f": {said[0][:200]!a}" if said else ""
    if response.status_code == httpx.codes.GONE:
        raise BadInputError(f"{where} is gone (410){words}.", remedy="Subscribe again if it comes back.")
    if response.is_redirect:
        there = ascii(response.headers.get("location", "")[:200])
        raise UnavailableError(f"{where} redirects to {there}, which is not followed.", remedy="Subscribe that address.")
    raise UnavailableError(f"{where} answered {response.status_code}{words}.", retry_after_s=_retry_after_s(response))


def _retry_after_s(response: httpx.Response) -> float | None:
    """Seconds that Retry-After asks for (a number or a date), at most a day; None when it says nothing usable."""
    text = response.headers.get("retry-after", "")
    try:
        if text.isascii() and text.isdigit():
            return min(float(text), LONGEST_RETRY_AFTER_S)
        until = parsedate_to_datetime(text)
        seconds = (until - datetime.now(until.tzinfo)).total_seconds()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)
