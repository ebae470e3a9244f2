"""An OpenAI-compatible server of our own that answers from a script: as it should, or wrongly in one named way."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("The", " sea", " is", " wide", ",", " and", " ships", " cross", " it", ".")


@dataclass
class Answers:
    """How the server behaves. `tricks` are names of what it does wrong; `asked` counts completions."""

    model: str = "sea-model"
    words: tuple[str, ...] = WORDS
    chat: bool = True
    logprobs: bool = True
    usage: bool = True
    key: str | None = None
    tricks: frozenset[str] = frozenset()
    asked: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def reply(self, body: dict[str, Any]) -> tuple[list[str], str]:
        """Tokens and the reason for the end."""
        self.asked += 1
        self.bodies.append(body)
        most = int(body["max_tokens"])
        words = list(self.words)
        if "drifts" in self.tricks and self.asked % 2 == 0:
            words[2] = " was"
        reason = "stop"
        for stop in body.get("stop", []) if "ignores-stop" not in self.tricks else []:
            text = "".join(words)
            if stop in text:
                words = _tokens_of(text[: text.index(stop)], words)
        if len(words) > most and "ignores-limit" not in self.tricks:
            words, reason = words[:most], "length" if "says-stop" not in self.tricks else "stop"
        return words, reason

    def document(self, body: dict[str, Any], path: str) -> dict[str, Any]:
        """A whole answer."""
        words, reason = self.reply(body)
        text = "" if "empty" in self.tricks else "".join(words)
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
        choice |= {"message": {"role": "assistant", "content": text}} if path.endswith("chat/completions") else {"text": text}
        if self.logprobs and body.get("logprobs"):
            choice["logprobs"] = self._logprobs(words)
        found: dict[str, Any] = {"object": "completion", "model": self.model, "choices": [choice]}
        if self.usage:
            found["usage"] = self._usage(words)
        return found

    def _usage(self, words: list[str]) -> dict[str, int]:
        used = len(words) + (7 if "miscounts" in self.tricks else 0)
        return {"prompt_tokens": 9, "completion_tokens": used, "total_tokens": 9 + used}

    def _logprobs(self, words: list[str]) -> dict[str, Any]:
        top = -0.1 if "not-greedy" not in self.tricks else -3.0
        own = top if "positive-logprob" not in self.tricks else 0.2
        other = {"token": "?", "logprob": -2.6}
        rows = [{"token": word, "logprob": own} for word in words]
        return {"content": [{**row, "top_logprobs": [row, other]} for row in rows]}

    def events(self, body: dict[str, Any], path: str) -> Iterator[bytes]:
        """The same as a stream."""
        words, reason = self.reply(body)
        for at, word in enumerate(words):
            if "truncates" in self.tricks and at == 3:
                return
            choice = {"delta": {"content": word}} if path.endswith("chat/completions") else {"text": word}
            yield _event({"choices": [{"index": 0, "finish_reason": None, **choice}]})
        yield _event({"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": reason}]})
        if self.usage:
            yield _event({"choices": [], "usage": self._usage(words)})
        yield b"data: [DONE]\n\n"


def _tokens_of(text: str, words: list[str]) -> list[str]:
    kept: list[str] = []
    for word in words:
        if len("".join([*kept, word])) > len(text):
            rest = text[len("".join(kept)) :]
            return [*kept, rest] if rest else kept
        kept.append(word)
    return kept


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    answers: Answers

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        """The list of models."""
        if self._refused():
            return
        self._send(200, json.dumps({"object": "list", "data": [{"id": self.answers.model}]}).encode())

    def do_POST(self) -> None:
        """A completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        if self.path.endswith("chat/completions") and not self.answers.chat:
            self._send(404, b'{"detail": "Not Found"}')
            return
        if body.get("logprobs") and "refuses-logprobs" in self.answers.tricks:
            self._send(400, b'{"error": {"message": "logprobs are not supported"}}')
            return
        if self._hostile():
            return
        if not body.get("stream"):
            self._send(200, json.dumps(self.answers.document(body, self.path)).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in self.answers.events(body, self.path):
            self.wfile.write(event)
            self.wfile.flush()
        self.close_connection = True

    def _refused(self) -> bool:
        if self.answers.key is None or self.headers.get("Authorization") == f"Bearer {self.answers.key}":
            return False
        self._send(401, b'{"error": "no key"}')
        return True

    def _hostile(self) -> bool:
        tricks = self.answers.tricks
        if "hangs" in tricks:
            time.sleep(1.5)
            self.close_connection = True
        elif "fails" in tricks:
            self._send(500, b"<html>" + b"x" * 100_000)
        elif "page" in tricks:
            self._send(200, b"<html><body>Welcome</body></html>", "text/html")
        elif "other-json" in tricks:
            self._send(200, b'{"answer": 42}')
        elif "list" in tricks:
            self._send(200, b"[1, 2, 3]")
        elif "nested" in tricks:
            self._send(200, b"[" * 200_000)
        elif "huge" in tricks:
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
            self.close_connection = True
            try:
                while True:
                    self.wfile.write(b" " * (1 << 20))
            except OSError:
                return True
        elif "drips" in tricks:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.close_connection = True
            try:
                for _ in range(40):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.05)
            except OSError:
                return True
        elif "cuts" in tricks:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        elif "redirects" in tricks:
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            return False
        return True

    def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    """The address of a server with those answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"answers": answers}))
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
