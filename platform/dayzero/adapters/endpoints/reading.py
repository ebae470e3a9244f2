"""What a server sends becomes our nouns at once; whatever does not fit is said in one sentence."""

import json
import math
from collections.abc import Mapping

from dayzero.domain.observed_endpoint import Completion, TokenProbability, Usage

MOST_MODELS = 10_000
MOST_NAME = 300
MOST_EVENT_BYTES = 1 << 20


class Broken(Exception):
    """An answer that is none; the text says what is wrong with it."""


Document = Mapping[str, object]


def object_of(data: bytes) -> Document:
    """The JSON object in the bytes."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        start = data[:40].decode(errors="replace").strip()
        looks = "a web page" if start[:1] == "<" else f"{start!r}" if start else "nothing"
        raise Broken(f"{looks} came, and not JSON") from error
    if not isinstance(found, dict):
        raise Broken(f"JSON came, but {type(found).__name__} and no object")
    return found


def model_names(document: Document) -> tuple[str, ...]:
    """The ids in a list of models."""
    rows = document.get("data")
    if not isinstance(rows, list):
        raise Broken("JSON came, but its `data` is no list")
    names = [row.get("id") for row in rows[:MOST_MODELS] if isinstance(row, dict)]
    return tuple(name[:MOST_NAME] for name in names if isinstance(name, str))


def completion_of(document: Document, protocol: str, wall_s: float) -> Completion:
    """A whole answer of the protocol (chat or text)."""
    choice = _choice(document)
    text = _text(choice.get("message"), "content") if protocol == "chat" else _text(choice, "text")
    if text is None:
        raise Broken("JSON came, but its first choice holds no text")
    reason = choice.get("finish_reason")
    return Completion(
        text,
        reason if isinstance(reason, str) else None,
        usage_of(document),
        wall_s,
        logprobs_of(choice.get("logprobs")),
    )


def _choice(document: Document) -> Document:
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        error = document.get("error")
        said = f": {str(error)[:160]}" if error else ""
        raise Broken(f"JSON came, but without `choices`{said}")
    return choices[0]


def _text(holder: object, name: str) -> str | None:
    found = holder.get(name) if isinstance(holder, dict) else None
    return found if isinstance(found, str) else None


def usage_of(document: Document) -> Usage | None:
    """The token counts; None where there are none."""
    stated = document.get("usage")
    if not isinstance(stated, dict):
        return None
    return Usage(*(_count(stated.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48 else None


def logprobs_of(stated: object) -> tuple[TokenProbability, ...] | None:
    """Log-probabilities in the form of either protocol; None where there are none. Broken: they are no numbers."""
    if not isinstance(stated, dict):
        return None
    content = stated.get("content")
    if isinstance(content, list):
        return tuple(_of_chat(row) for row in content)
    tokens, logprobs = stated.get("tokens"), stated.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(logprobs, list):
        return None
    if len(tokens) != len(logprobs):
        raise Broken(f"{len(tokens)} tokens came with {len(logprobs)} log-probabilities")
    tops = stated.get("top_logprobs")
    rows = tops if isinstance(tops, list) and len(tops) == len(tokens) else [None] * len(tokens)
    return tuple(
        TokenProbability(str(token), _number(value), tuple((str(name), _number(one)) for name, one in (top or {}).items()))
        for token, value, top in zip(tokens, logprobs, rows, strict=True)
        if top is None or isinstance(top, dict)
    )


def _of_chat(row: object) -> TokenProbability:
    if not isinstance(row, dict):
        raise Broken("a log-probability is no object")
    tops = row.get("top_logprobs")
    named = [one for one in tops if isinstance(one, dict)] if isinstance(tops, list) else []
    top = tuple((str(one.get("token")), _number(one.get("logprob"))) for one in named)
    return TokenProbability(str(row.get("token")), _number(row.get("logprob")), top)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Broken(f"a log-probability is {str(value)[:40]!r} and no number")
    found = float(value) if abs(value) < 1e300 else math.inf
    if math.isnan(found):
        raise Broken("a log-probability is NaN")
    return found


class StreamReader:
    """Server-sent events into one completion; `done` when the stream said that it is over."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._rest = b""
        self._texts: list[str] = []
        self._times: list[float] = []
        self._usage: Usage | None = None
        self._reason: str | None = None
        self.done = False
        self.chunks = 0

    def take(self, piece: bytes, at_s: float) -> None:
        """More bytes, `at_s` seconds after the request. Broken: an event is no JSON object, or never ends."""
        *lines, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._rest) > MOST_EVENT_BYTES:
            raise Broken(f"an event of the stream is longer than {MOST_EVENT_BYTES:,} bytes")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line.removeprefix(b"data:").strip(), at_s)

    def _event(self, data: bytes, at_s: float) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        document = object_of(data)
        if document.get("error"):
            raise Broken(f"the stream says: {str(document['error'])[:160]}")
        self._usage = usage_of(document) or self._usage
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        if choice is None:
            return
        reason = choice.get("finish_reason")
        self._reason = reason if isinstance(reason, str) else self._reason
        text = _text(choice.get("delta"), "content") if self._protocol == "chat" else _text(choice, "text")
        if text:
            self.chunks += 1
            self._texts.append(text)
            self._times.append(at_s)

    def completion(self, wall_s: float) -> Completion:
        """What has come; `ended` only when the stream said so, or gave a reason for its end."""
        gaps = tuple(later - earlier for earlier, later in zip(self._times, self._times[1:], strict=False))
        return Completion(
            "".join(self._texts),
            self._reason,
            self._usage,
            wall_s,
            None,
            self.chunks,
            self._times[0] if self._times else None,
            gaps,
            self.done or self._reason is not None,
        )
