"""Webhooks and chat channels against a real HTTP receiver that verifies with the scheme's own library."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from dayzero.adapters.notify.chat import AppriseNotifier
from dayzero.adapters.notify.choose import ChosenNotifier, new_secret
from dayzero.adapters.notify.networks import Networks, parse_networks
from dayzero.adapters.notify.posting import MAX_ANSWER_BYTES, Poster
from dayzero.adapters.notify.webhook import WebhookNotifier
from dayzero.domain.events import Event, EventKind
from dayzero.domain.subscriptions import Channel, Subscription
from dayzero.errors import BadInputError, UnavailableError, UnreachableError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = new_secret()
EVENT = Event("3f0c", EventKind.ENTRY_CHANGED, "org/m", NOW, {"platform": "cpu", "correctness": "verified", "näme": "ü"})
LOOPBACK = parse_networks(["127.0.0.0/8"])


@dataclass
class Request:
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers with the statuses it was given, the last one again and again."""

    statuses: list[int]
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""
    requests: list[Request] = field(default_factory=list)
    url: str = ""


@contextmanager
def receiving(receiver: Receiver, port: int = 0) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(Request({name.lower(): value for name, value in self.headers.items()}, body))
            status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
            self.send_response(status)
            for name, value in receiver.answer_headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(receiver.answer)))
            self.end_headers()
            self.wfile.write(receiver.answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def notifier() -> Iterator[Callable[..., WebhookNotifier]]:
    posters: list[Poster] = []

    def make(networks: Networks = LOOPBACK, timeout_s: float = 10.0) -> WebhookNotifier:
        posters.append(Poster(networks))
        return WebhookNotifier(posters[-1], timeout_s=timeout_s)

    yield make
    for poster in posters:
        poster.close()


Notifiers = Callable[..., WebhookNotifier]


def subscription(url: str, secret: str | None = SECRET) -> Subscription:
    return Subscription("sub-1", Channel.WEBHOOK, url, "", secret, NOW)


def test_the_library_verifies_what_is_sent_and_refuses_what_was_changed(notifier: Notifiers) -> None:
    with receiving(Receiver([204])) as receiver:
        notifier().deliver(subscription(receiver.url), EVENT)
    (request,) = receiver.requests
    verified = Webhook(SECRET).verify(request.body, request.headers)
    assert verified["type"] == "dayzero.entry.changed"
    assert verified["data"]["näme"] == "ü"
    assert request.headers["webhook-id"] == EVENT.id
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body.replace(b"verified", b"failing"), request.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(request.body, request.headers)


def test_two_500_then_200_under_the_same_id(notifier: Notifiers) -> None:
    with receiving(Receiver([500, 500, 200], answer=b"boom\nsecond line")) as receiver:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="answered 500: 'boom'"):
                notifier().deliver(subscription(receiver.url), EVENT)
        notifier().deliver(subscription(receiver.url), EVENT)
    assert [request.headers["webhook-id"] for request in receiver.requests] == [EVENT.id] * 3
    for request in receiver.requests:
        assert Webhook(SECRET).verify(request.body, request.headers)["id"] == EVENT.id


def test_down_and_then_up(notifier: Notifiers) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with pytest.raises(UnavailableError, match="could not be reached"):
        notifier().deliver(subscription(f"http://127.0.0.1:{port}/hook"), EVENT)
    with receiving(Receiver([200]), port) as receiver:
        notifier().deliver(subscription(receiver.url), EVENT)
    assert receiver.requests[0].headers["webhook-id"] == EVENT.id


def test_one_that_never_answers_is_given_up(notifier: Notifiers) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"
        with pytest.raises(UnavailableError, match=r"did not answer within 0\.2 s|could not be reached"):
            notifier(timeout_s=0.2).deliver(subscription(url), EVENT)


def test_one_that_drips_its_headers_is_given_up_as_a_whole(notifier: Notifiers) -> None:
    stop = threading.Event()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 500 Slow\r\n")
                number = 0
                while not stop.wait(0.05):
                    number += 1
                    try:
                        connection.sendall(b"x-%d: y\r\n" % number)
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/hook"
        try:
            with pytest.raises(UnavailableError, match="did not answer within"):
                notifier(timeout_s=0.5).deliver(subscription(url), EVENT)
        finally:
            stop.set()
            thread.join()


def test_gone_is_for_good(notifier: Notifiers) -> None:
    with receiving(Receiver([410])) as receiver, pytest.raises(BadInputError, match="gone"):
        notifier().deliver(subscription(receiver.url), EVENT)


def test_a_redirect_is_not_followed(notifier: Notifiers) -> None:
    with receiving(Receiver([200])) as elsewhere:
        redirecting = Receiver([307], answer_headers={"location": elsewhere.url})
        with receiving(redirecting), pytest.raises(UnavailableError, match="redirects to"):
            notifier().deliver(subscription(redirecting.url), EVENT)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("7", 7.0), ("9999999999", 86_400.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", None), ("-3", None), ("٣", None)],
)
def test_retry_after_is_understood(notifier: Notifiers, header: str, wanted: float | None) -> None:
    headers = {"retry-after": header} if header.isascii() else {}
    with receiving(Receiver([429], headers)) as receiver, pytest.raises(UnavailableError) as refused:
        notifier().deliver(subscription(receiver.url), EVENT)
    assert refused.value.retry_after_s == wanted


def test_of_a_huge_hostile_answer_only_the_beginning_is_read(notifier: Notifiers) -> None:
    answer = b"\x1b[2J" + b"x" * 5_000_000
    with receiving(Receiver([500], answer=answer)) as receiver, pytest.raises(UnavailableError) as refused:
        notifier().deliver(subscription(receiver.url), EVENT)
    assert len(str(refused.value)) < MAX_ANSWER_BYTES
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("secret", [None, "", "whsec_", "whsec_a"])
def test_without_a_usable_secret_nothing_is_sent(notifier: Notifiers, secret: str | None) -> None:
    with receiving(Receiver([200])) as receiver, pytest.raises(BadInputError, match="no usable secret"):
        notifier().deliver(subscription(receiver.url, secret), EVENT)
    assert receiver.requests == []


def test_chat_reaches_a_real_apprise_endpoint_and_says_when_it_did_not() -> None:
    with receiving(Receiver([200, 500])) as receiver:
        target = receiver.url.replace("http://", "json://")
        chat = Subscription("sub-2", Channel.APPRISE, target, "", None, NOW)
        AppriseNotifier(LOOPBACK).deliver(chat, EVENT)
        with pytest.raises(UnavailableError, match="did not take"):
            AppriseNotifier(LOOPBACK).deliver(chat, EVENT)
    message = json.loads(receiver.requests[0].body)
    assert message["title"] == "dayzero.entry.changed: org/m"
    assert EVENT.id in message["message"]


def test_a_chat_channel_reaches_no_private_address() -> None:
    with receiving(Receiver([200])) as receiver:
        target = receiver.url.replace("http://", "json://")
        chat = Subscription("sub-2", Channel.APPRISE, target, "", None, NOW)
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1.*private"):
            AppriseNotifier(Networks()).deliver(chat, EVENT)
    assert receiver.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_a_webhook_reaches_no_private_address(notifier: Notifiers, host: str) -> None:
    with receiving(Receiver([200])) as receiver:
        url = receiver.url.replace("127.0.0.1", host)
        with pytest.raises(UnreachableError, match="private"):
            notifier(Networks()).deliver(subscription(url), EVENT)
        with pytest.raises(BadInputError, match="SUBSCRIBER_NETWORKS"):
            ChosenNotifier().check(Channel.WEBHOOK, url)
    assert receiver.requests == []


def test_what_was_checked_is_what_is_connected_to(notifier: Notifiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that means a public address first and this host a moment later is resolved once, and connected to as checked."""
    asked: list[str] = []

    async def rebinding(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(0, 0, 0, "", ("192.0.2.1" if len(asked) == 1 else "127.0.0.1", port))]

    with receiving(Receiver([200])) as receiver:
        monkeypatch.setattr("dayzero.adapters.notify.posting.getaddrinfo", rebinding)
        url = receiver.url.replace("127.0.0.1", "rebinding.example")
        test_net = parse_networks(["192.0.2.0/24"])
        with pytest.raises(UnreachableError):
            notifier(test_net, timeout_s=0.5).deliver(subscription(url), EVENT)
        with pytest.raises(UnreachableError, match="private"):
            notifier(test_net, timeout_s=0.5).deliver(subscription(url), EVENT)
    assert asked == ["rebinding.example"] * 2
    assert receiver.requests == []


def test_a_success_of_gigabytes_is_cut(notifier: Notifiers) -> None:
    with receiving(Receiver([200], answer=b"x" * 50_000_000)) as receiver:
        notifier().deliver(subscription(receiver.url), EVENT)


def test_both_secrets_sign_while_one_is_replaced(notifier: Notifiers) -> None:
    old, new = new_secret(), new_secret()
    with receiving(Receiver([200])) as receiver:
        notifier().deliver(subscription(receiver.url, f"{new} {old}"), EVENT)
    (request,) = receiver.requests
    for secret in (old, new):
        assert Webhook(secret).verify(request.body, request.headers)["id"] == EVENT.id


def test_a_digest_is_one_signed_message(notifier: Notifiers) -> None:
    with receiving(Receiver([200])) as receiver:
        notifier().deliver_digest(subscription(receiver.url), "digest-1", (EVENT, EVENT))
    (request,) = receiver.requests
    verified = Webhook(SECRET).verify(request.body, request.headers)
    assert request.headers["webhook-id"] == verified["id"] == "digest-1"
    assert [event["id"] for event in verified["data"]["events"]] == [EVENT.id] * 2
