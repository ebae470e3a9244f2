"""Files from the page cache to the socket, without passing through Python."""

import os
import re
from pathlib import Path
from typing import Any

import h11
from fastapi.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

EXTENSION = "dayzero.sendfile"
_MESSAGE = "dayzero.http.response.file"
_ONE_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})$")


class SendfileProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol, which sends files by sendfile(2) where the application asks for it by EXTENSION."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        inner: Any = self.app

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return

            async def sending(message: Message) -> None:
                if message["type"] == _MESSAGE:
                    await self._send_file(message)
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
                await send(message)

            await inner({**scope, "extensions": {**scope.get("extensions", {}), EXTENSION: {}}}, receive, sending)

        self.app = app

    async def _send_file(self, message: Message) -> None:
        count: int = message["count"]
        if self.cycle.disconnected:
            return
        self.conn.send_with_data_passthrough(h11.Data(data=_Promised(count)))  # type: ignore[arg-type]  # h11's way for sendfile
        try:
            with Path(message["path"]).open("rb") as file:
                os.posix_fadvise(file.fileno(), message["offset"], count, os.POSIX_FADV_SEQUENTIAL)
                sent = await self.loop.sendfile(self.transport, file, message["offset"], count)
        except (OSError, RuntimeError):
            sent = 0
        if sent != count and not self.transport.is_closing():
            # The file became shorter, or the client went away: an honest end is a broken connection.
            self.transport.abort()


class _Promised:
    """So many bytes, which h11 counts and never sees."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count


class WeightsResponse(FileResponse):
    """A file or one range of it, by sendfile where the server can; anything else as FileResponse does it."""

    chunk_size = 1 << 20

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", ())}
        window = None
        if EXTENSION in scope.get("extensions", {}) and scope["method"] == "GET" and b"if-range" not in headers:
            window = self._window(headers.get(b"range"))
        if window is None:
            await super().__call__(scope, receive, send)
            return
        begin, end, size = window
        shown = dict(self.headers)
        if b"range" in headers:
            shown |= {"content-range": f"bytes {begin}-{end - 1}/{size}", "content-length": str(end - begin)}
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in shown.items()]
        await send({"type": "http.response.start", "status": 206 if b"range" in headers else 200, "headers": raw})
        await send({"type": _MESSAGE, "path": str(self.path), "offset": begin, "count": end - begin})

    def _window(self, asked: str | None) -> tuple[int, int, int] | None:
        """Begin, end and the file's size for no range or one that can be met; None for everything else."""
        assert self.stat_result is not None
        size = self.stat_result.st_size
        if asked is None:
            return (0, size, size) if size else None
        found = _ONE_RANGE.fullmatch(asked.strip())
        if found is None or not any(found.groups()):
            return None
        first, last = found.groups()
        begin = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        return (begin, end, size) if begin < end else None
