"""A subscriber: a webhook receiver that believes a message only when its signature is right."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

MAX_BODY_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Message:
    """One message whose signature was right: its id, and the event's kind and subject."""

    id: str
    kind: str
    subject: str
    fields: dict[str, str]


@dataclass(slots=True)
class Mailbox:
    """What arrived at `url`: messages by arrival, and how many were refused."""

    url: str
    secret: str
    messages: list[Message] = field(default_factory=list)
    refused: int = 0

    def about(self, kind: str, subject: str) -> Message | None:
        """The first message of that kind about that subject."""
        return next((note for note in self.messages if note.kind == kind and note.subject == subject), None)

    def take(self, body: bytes, headers: dict[str, str]) -> bool:
        """Check the signature and keep the message; False when it is wrong."""
        try:
            Webhook(self.secret).verify(body, headers)
        except WebhookVerificationError:
            self.refused += 1
            return False
        event = json.loads(body)
        data = event.get("data", {})
        fields = {str(key): str(value) for key, value in data.items() if not isinstance(value, dict | list)}
        nested = data.get("fields")
        if isinstance(nested, dict):
            fields |= {str(key): str(value) for key, value in nested.items()}
        self.messages.append(Message(headers["webhook-id"], str(event.get("type")), str(data.get("subject")), fields))
        return True


@contextmanager
def receiving(secret: str) -> Iterator[Mailbox]:
    """A receiver on a free loopback port while the context lasts."""
    mailbox = Mailbox("", secret)

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length") or 0), MAX_BODY_BYTES)
            headers = {name.lower(): value for name, value in self.headers.items()}
            accepted = mailbox.take(self.rfile.read(length), headers)
            self.send_response(204 if accepted else 400)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    mailbox.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield mailbox
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
