"""One connection to a server that nobody vouches for: every answer has a deadline and a largest size.

with Endpoint("http://127.0.0.1:8000", key=None) as endpoint:
    served = endpoint.models()
    asked = endpoint.complete(Wish("chat", model, prompt, 32))
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from dayzero.adapters.endpoints.reading import Broken, StreamReader, completion_of, model_names, object_of
from dayzero.domain.observed_endpoint import Asked, Completion, Problem, Served, Trouble
from dayzero.errors import BadInputError

CONNECT_S, SILENCE_S, DEADLINE_S = 5.0, 60.0, 180.0
"""Longest waits: for a connection, for the next byte, and for a whole answer."""
MOST_BYTES = 8 << 20
SAID_CHARACTERS = 160
"""How much of what a server says about its own error is passed on."""


class _TooLongError(Exception):
    """The answer passed its deadline or its largest size; the sentence says which."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One greedy request: `protocol` is chat or text; `alternatives` above 0 asks for log-probabilities."""

    protocol: str
    model: str
    prompt: str
    most_tokens: int
    stop: str | None = None
    alternatives: int = 0

    @property
    def path(self) -> str:
        """Where it goes, below the base address."""
        return "chat/completions" if self.protocol == "chat" else "completions"

    def body(self, *, stream: bool) -> dict[str, object]:
        """The request's JSON."""
        body: dict[str, object] = {"model": self.model, "temperature": 0, "max_tokens": self.most_tokens}
        if self.protocol == "chat":
            body["messages"] = [{"role": "user", "content": self.prompt}]
        else:
            body["prompt"] = self.prompt
        if self.stop is not None:
            body["stop"] = [self.stop]
        if self.alternatives and self.protocol == "chat":
            body |= {"logprobs": True, "top_logprobs": self.alternatives}
        elif self.alternatives:
            body["logprobs"] = self.alternatives
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body


def base_of(url: str) -> str:
    """The base address of a server's protocol: `/v1` where the address names no path. BadInputError for no http address."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise BadInputError(f"{url!r} is no address ({error}).", remedy="Write it as http://HOST:PORT/v1.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise BadInputError(f"{url!r} is no http address.", remedy="Write it as http://HOST:PORT/v1.")
    if parsed.query or parsed.fragment:
        raise BadInputError(f"{url!r} has a query.", remedy="Give the base address alone, such as http://HOST:PORT/v1.")
    path = parsed.path.rstrip("/") or "/v1"
    return str(parsed.copy_with(path=path))


class Endpoint:
    """A server at its base address. Redirects are not followed: they would carry the key elsewhere."""

    def __init__(
        self, url: str, key: str | None = None, *, deadline_s: float = DEADLINE_S, silence_s: float = SILENCE_S
    ) -> None:
        self.url = base_of(url)
        self._deadline_s = deadline_s
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        timeout = httpx.Timeout(silence_s, connect=CONNECT_S)
        self._client = httpx.Client(headers=headers, timeout=timeout, follow_redirects=False, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.close()

    def models(self) -> Served:
        """The names in its list of models."""
        try:
            with self._asking("GET", "models", None) as response:
                return Served(model_names(object_of(self._whole(response))))
        except (httpx.HTTPError, _TooLongError, Broken, _RefusedError) as error:
            return Served(problem=_problem(error, "the list of models"))

    def complete(self, wish: Wish) -> Asked:
        """A whole answer."""
        began = time.monotonic()
        try:
            with self._asking("POST", wish.path, wish.body(stream=False)) as response:
                document = object_of(self._whole(response))
            return Asked(completion_of(document, wish.protocol, time.monotonic() - began))
        except (httpx.HTTPError, _TooLongError, Broken, _RefusedError) as error:
            return Asked(problem=_problem(error, "a completion"))

    def stream(self, wish: Wish) -> Asked:
        """The same as a stream of events, timed as they come."""
        reader = StreamReader(wish.protocol)
        began = time.monotonic()
        try:
            with self._asking("POST", wish.path, wish.body(stream=True)) as response:
                kind = response.headers.get("content-type", "")
                if not kind.startswith("text/event-stream"):
                    raise Broken(f"it came as {kind[:60] or 'nothing that is named'}, not as a stream of events")
                for piece in self._pieces(response, began):
                    reader.take(piece, time.monotonic() - began)
                    if reader.done:
                        break
            return Asked(reader.completion(time.monotonic() - began))
        except (httpx.HTTPError, _TooLongError, Broken, _RefusedError) as error:
            if isinstance(error, httpx.RemoteProtocolError) and reader.chunks:
                return Asked(reader.completion(time.monotonic() - began))
            return Asked(problem=_problem(error, "a stream"))

    @contextmanager
    def _asking(self, method: str, path: str, body: dict[str, object] | None) -> Iterator[httpx.Response]:
        with self._client.stream(method, f"{self.url}/{path}", json=body) as response:
            if response.status_code != httpx.codes.OK:
                raise _RefusedError(response.status_code, self._said(response))
            yield response

    def _whole(self, response: httpx.Response) -> bytes:
        return b"".join(self._pieces(response, time.monotonic()))

    def _pieces(self, response: httpx.Response, began: float) -> Iterator[bytes]:
        taken = 0
        for piece in response.iter_raw():
            taken += len(piece)
            if taken > MOST_BYTES:
                raise _TooLongError(f"more than {MOST_BYTES:,} bytes came")
            if time.monotonic() - began > self._deadline_s:
                raise _TooLongError(f"it was not over after {self._deadline_s:g} s")
            yield piece

    def _said(self, response: httpx.Response) -> str:
        """The beginning of what a refusal says, as one line."""
        said = b""
        try:
            for piece in self._pieces(response, time.monotonic()):
                said += piece
                if len(said) >= 4 * SAID_CHARACTERS:
                    break
        except (httpx.HTTPError, _TooLongError):
            pass
        return " ".join(said.decode(errors="replace").split())[:SAID_CHARACTERS]


class _RefusedError(Exception):
    """A status other than 200."""

    def __init__(self, status: int, said: str) -> None:
        self.status, self.said = status, said
        super().__init__(f"{status}: {said}")


def _problem(error: Exception, what: str) -> Problem:
    """One sentence for whatever happened while asking for `what`."""
    match error:
        case _RefusedError():
            return _of_status(error, what)
        case Broken() | _TooLongError():
            return Problem(Trouble.BROKEN, f"{what} was asked for: {error}")
        case httpx.TimeoutException():
            if isinstance(error, httpx.ConnectTimeout):
                return Problem(Trouble.UNREACHABLE, f"no connection within {CONNECT_S:g} s")
            return Problem(Trouble.BROKEN, f"{what} was asked for and nothing more came: the server hangs")
        case httpx.ConnectError():
            return Problem(Trouble.UNREACHABLE, f"nothing answers there ({error})")
        case _:
            return Problem(Trouble.BROKEN, f"{what} was asked for and the connection broke ({error or type(error).__name__})")


def _of_status(error: _RefusedError, what: str) -> Problem:
    said = f" ({error.said})" if error.said else ""
    if error.status in (401, 403):
        return Problem(Trouble.REFUSED, f"{what} was refused with {error.status}{said}; give a key in DAYZERO_ENDPOINT_KEY")
    if error.status in (404, 405, 501):
        return Problem(Trouble.ABSENT, f"{what} is not offered: {error.status}{said}")
    if error.status == httpx.codes.TOO_MANY_REQUESTS:
        return Problem(Trouble.REFUSED, f"{what} was refused for too many requests{said}; try when the server is idle")
    if 300 <= error.status < 400:
        return Problem(Trouble.REFUSED, f"{what} was redirected with {error.status}; give the address that it leads to")
    if error.status < 500:
        return Problem(Trouble.REFUSED, f"{what} was refused with {error.status}{said}")
    return Problem(Trouble.BROKEN, f"{what} was asked for and the server failed with {error.status}{said}")


__all__ = ["Completion", "Endpoint", "Wish", "base_of"]
