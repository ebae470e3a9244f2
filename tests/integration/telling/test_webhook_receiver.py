"""Webhooks and chat channels against a real HTTP receiver that verifies with the scheme's own library."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from dayzero.adapters.notify.chat import AppriseNotifier
from dayzero.adapters.notify.choose import ChosenNotifier, new_secret
from dayzero.adapters.notify.webhook import MAX_ANSWER_BYTES, WebhookNotifier
from dayzero.domain.events import Event, EventKind
from dayzero.domain.subscriptions import Channel, Delivery, DeliveryState, Subscription
from dayzero.errors import BadInputError, UnavailableError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = new_secret()
EVENT = Event("3f0c", EventKind.ENTRY_CHANGED, "org/m", NOW, {"platform": "cpu", "correctness": "verified", "näme": "ü"})
DELIVERY = Delivery("d-1", EVENT.id, "sub-1", DeliveryState.PENDING, 0, NOW)


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


def subscription(url: str, secret: str | None = SECRET) -> Subscription:
    return Subscription("sub-1", Channel.WEBHOOK, url, "", secret, NOW)


def test_the_library_verifies_what_is_sent_and_refuses_what_was_changed() -> None:
    with receiving(Receiver([204])) as receiver:
        ChosenNotifier().deliver(subscription(receiver.url), EVENT, DELIVERY)
    (request,) = receiver.requests
    verified = Webhook(SECRET).verify(request.body, request.headers)
    assert verified["type"] == "dayzero.entry.changed"
    assert verified["data"]["näme"] == "ü"
    assert request.headers["webhook-id"] == EVENT.id
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body.replace(b"verified", b"failing"), request.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(request.body, request.headers)


def test_two_500_then_200_under_the_same_id() -> None:
    with receiving(Receiver([500, 500, 200], answer=b"boom\nsecond line")) as receiver:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="answered 500: 'boom'"):
                WebhookNotifier().deliver(subscription(receiver.url), EVENT, DELIVERY)
        WebhookNotifier().deliver(subscription(receiver.url), EVENT, DELIVERY)
    assert [request.headers["webhook-id"] for request in receiver.requests] == [EVENT.id] * 3
    for request in receiver.requests:
        assert Webhook(SECRET).verify(request.body, request.headers)["id"] == EVENT.id


def test_down_and_then_up() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with pytest.raises(UnavailableError, match="could not be reached"):
        WebhookNotifier().deliver(subscription(f"http://127.0.0.1:{port}/hook"), EVENT, DELIVERY)
    with receiving(Receiver([200]), port) as receiver:
        WebhookNotifier().deliver(subscription(receiver.url), EVENT, DELIVERY)
    assert receiver.requests[0].headers["webhook-id"] == EVENT.id


def test_one_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"
        with pytest.raises(UnavailableError, match=r"did not answer within 0\.2 s|could not be reached"):
            WebhookNotifier(timeout_s=0.2).deliver(subscription(url), EVENT, DELIVERY)


def test_one_that_drips_its_headers_is_given_up_as_a_whole() -> None:
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
                WebhookNotifier(timeout_s=0.5).deliver(subscription(url), EVENT, DELIVERY)
        finally:
            stop.set()
            thread.join()


def test_gone_is_for_good() -> None:
    with receiving(Receiver([410])) as receiver, pytest.raises(BadInputError, match="gone"):
        WebhookNotifier().deliver(subscription(receiver.url), EVENT, DELIVERY)


def test_a_redirect_is_not_followed() -> None:
    with receiving(Receiver([200])) as elsewhere:
        redirecting = Receiver([307], answer_headers={"location": elsewhere.url})
        with receiving(redirecting), pytest.raises(UnavailableError, match="redirects to"):
            WebhookNotifier().deliver(subscription(redirecting.url), EVENT, DELIVERY)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("7", 7.0), ("9999999999", 86_400.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", None), ("-3", None), ("٣", None)],
)
def test_retry_after_is_understood(header: str, wanted: float | None) -> None:
    headers = {"retry-after": header} if header.isascii() else {}
    with receiving(Receiver([429], headers)) as receiver, pytest.raises(UnavailableError) as refused:
        WebhookNotifier().deliver(subscription(receiver.url), EVENT, DELIVERY)
    assert refused.value.retry_after_s == wanted


def test_of_a_huge_hostile_answer_only_the_beginning_is_read() -> None:
    answer = b"\x1b[2J" + b"x" * 5_000_000
    with receiving(Receiver([500], answer=answer)) as receiver, pytest.raises(UnavailableError) as refused:
        WebhookNotifier().deliver(subscription(receiver.url), EVENT, DELIVERY)
    assert len(str(refused.value)) < MAX_ANSWER_BYTES
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("secret", [None, "", "whsec_", "whsec_a"])
def test_without_a_usable_secret_nothing_is_sent(secret: str | None) -> None:
    with receiving(Receiver([200])) as receiver, pytest.raises(BadInputError, match="no usable secret"):
        WebhookNotifier().deliver(subscription(receiver.url, secret), EVENT, DELIVERY)
    assert receiver.requests == []


def test_chat_reaches_a_real_apprise_endpoint_and_says_when_it_did_not() -> None:
    with receiving(Receiver([200, 500])) as receiver:
        target = receiver.url.replace("http://", "json://")
        chat = Subscription("sub-2", Channel.APPRISE, target, "", None, NOW)
        AppriseNotifier().deliver(chat, EVENT, DELIVERY)
        with pytest.raises(UnavailableError, match="did not take"):
            AppriseNotifier().deliver(chat, EVENT, DELIVERY)
    message = json.loads(receiver.requests[0].body)
    assert message["title"] == "dayzero.entry.changed: org/m"
    assert EVENT.id in message["message"]
