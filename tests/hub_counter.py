"""Our own hub with a counter: which requests came, and how many body bytes went out."""

from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dayzero.adapters.hubs.serving import HubServer, serve_app
from dayzero.adapters.hubs.serving.sendfile import EXTENSION


@dataclass
class Asked:
    """One request, and the body bytes that were sent for it."""

    method: str
    path: str
    query: str
    byte_range: str | None
    authorization: str | None
    status: int = 0
    sent_bytes: int = 0


class Counting:
    """ASGI middleware that counts."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.asked: list[Asked] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        one = Asked(
            scope["method"], scope["path"], scope["query_string"].decode(), headers.get("range"), headers.get("authorization")
        )
        self.asked.append(one)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                one.status = message["status"]
            elif message["type"] == "http.response.body":
                one.sent_bytes += len(message.get("body", b""))
            await send(message)

        # Bytes that the kernel sends pass nobody here, so the hub is told to send them itself.
        extensions = {name: value for name, value in scope.get("extensions", {}).items() if name != EXTENSION}
        await self.app({**scope, "extensions": extensions}, receive, counted)


class CountingHub(HubServer):
    """A hub over a folder that counts; `wrap` puts middleware between the counter and the hub."""

    def __init__(self, folder: Path, *, state: Path | None = None, app: ASGIApp | None = None) -> None:
        self.counter = Counting(app if app is not None else serve_app(folder, state))
        super().__init__(folder, app=self.counter)

    @property
    def asked(self) -> list[Asked]:
        """Requests so far."""
        return self.counter.asked

    def sent_bytes(self, path_part: str) -> int:
        """Body bytes sent for paths that contain a text."""
        return sum(one.sent_bytes for one in self.asked if path_part in one.path)
