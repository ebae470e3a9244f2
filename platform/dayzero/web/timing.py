"""What goes around every request: how long the server took, and 304 for what the reader has already."""

import hashlib
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Observer = Callable[[str, float], None]
"""Told of each answer: the path's pattern (or the path) and the seconds in the server."""

_PLAIN = ("/v1/ledger", "/static/", "/runs/events", "/v1/events")
"""Paths whose answers are not held back to be hashed: streams, large artifacts, files that name their content."""


class Around:
    """ASGI middleware: a `Server-Timing` header on every answer, an `ETag` on answers to GET, 304 where it matches."""

    def __init__(self, app: ASGIApp, observe: Observer | None = None) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        try:
            await self._app(scope, receive, answer.take)
        finally:
            if self._observe is not None:
                self._observe(scope["path"], answer.took_s())


class _Answer:
    """One answer on its way out; it is held until it is whole where it gets an ETag."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._begun = time.perf_counter()
        self._ended: float | None = None
        self._send = send
        self._known = Headers(scope=scope).get("if-none-match", "")
        self._tagged = scope["method"] in ("GET", "HEAD") and not scope["path"].startswith(_PLAIN)
        self._start: Message | None = None
        self._body: list[bytes] = []

    def took_s(self) -> float:
        """Seconds until the answer was ready."""
        return (self._ended or time.perf_counter()) - self._begun

    async def take(self, message: Message) -> None:
        """Pass a message of the answer on, or keep it until all of it is there."""
        if message["type"] == "http.response.start":
            self._tagged = self._tagged and message["status"] == 200
            if self._tagged:
                self._start = message
                return
            self._time(message)
            await self._send(message)
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._body.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._finish(self._start, b"".join(self._body))

    async def _finish(self, start: Message, body: bytes) -> None:
        headers = MutableHeaders(raw=start["headers"])
        tag = headers.get("etag") or f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        headers["etag"] = tag
        headers.setdefault("cache-control", "private, no-cache")
        headers.add_vary_header("Authorization")
        headers.add_vary_header("Cookie")
        if _matches(tag, self._known):
            start, body = {**start, "status": 304}, b""
            del headers["content-length"]
            start["headers"] = headers.raw
        self._time(start)
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _time(self, message: Message) -> None:
        self._ended = time.perf_counter()
        headers = MutableHeaders(raw=message["headers"])
        headers["server-timing"] = f"app;dur={(self._ended - self._begun) * 1000:.1f}"
        message["headers"] = headers.raw


def _matches(tag: str, known: str) -> bool:
    bare = tag.removeprefix("W/")
    return known.strip() == "*" or any(one.strip().removeprefix("W/") == bare for one in known.split(","))
