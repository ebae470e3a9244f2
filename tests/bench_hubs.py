"""Hubs for comparisons: ours in a process of its own, and our API with nginx behind it."""

import json
import subprocess
import sys
from pathlib import Path

from starlette.types import Message, Receive, Scope, Send

from dayzero.adapters.hubs.serving import HubServer, serve_app


class OurHub:
    """`dayzero hub serve` in a process of its own, as nginx is."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "dayzero.cli.main", "hub", "serve", str(folder), "--port", "0", "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        lines = ""
        while "}" not in lines:
            lines += self._process.stdout.readline()
        self.url = str(json.loads(lines)["url"])

    def __enter__(self) -> "OurHub":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


class Mimic(HubServer):
    """Our API, whose files are redirected to nginx: what a hub with nginx behind it would be."""

    def __init__(self, files_url: str, folder: Path) -> None:
        inner = serve_app(folder)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def moved(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] < 300:
                    place = scope["path"].replace("/resolve/", " ").split(" ")
                    name = place[1].partition("/")[2]
                    headers = [(key, value) for key, value in message["headers"] if key != b"content-length"]
                    headers += [(b"location", f"{files_url}{place[0]}/{name}".encode()), (b"content-length", b"0")]
                    message = {**message, "status": 302, "headers": headers}
                elif message["type"] == "http.response.body":
                    message = {**message, "body": b""}
                await send(message)

            file = scope["type"] == "http" and "/resolve/" in scope["path"] and scope["path"].endswith(".safetensors")
            extensions = {} if file else scope.get("extensions", {})
            await inner({**scope, "extensions": extensions}, receive, moved if file else send)

        super().__init__(folder, app=app)
