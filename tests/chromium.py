"""Chromium over its debugging protocol: open a page, let it settle, ask it things. Nothing but websockets is needed."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Tab:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.ask("Page.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=120))
            if message.get("id") == self._number:
                assert "error" not in message, message
                found: dict[str, Any] = message["result"]
                return found

    def open(self, url: str) -> None:
        """Go there and wait until it is loaded."""
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, awaited if it is a promise."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str, seconds: float = 60) -> None:
        """Wait until the condition holds in the page."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self.evaluate(f"Boolean({condition})"):
                return
            time.sleep(0.1)
        raise AssertionError(f"{condition} did not come to hold within {seconds} s")


@contextmanager
def browsing(folder: Path) -> Iterator[Tab]:
    """A fresh browser with one tab."""
    assert BROWSER is not None, "the caller skips where there is no browser"
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={folder}")
    with subprocess.Popen([BROWSER, *flags, "about:blank"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            port_file = folder / "DevToolsActivePort"
            ends = time.monotonic() + 60
            while not (port_file.is_file() and port_file.read_text().strip()) and time.monotonic() < ends:
                time.sleep(0.1)
            port = port_file.read_text().splitlines()[0]
            targets = httpx.get(f"http://127.0.0.1:{port}/json/list", trust_env=False).json()
            address = next(one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page")
            with connect(address, max_size=None, proxy=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
