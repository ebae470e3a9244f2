"""The hub's server: in the foreground for the command, in a thread for tests and the demo."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn

from dayzero.adapters.hubs.serving.app import serve_app
from dayzero.adapters.hubs.serving.sendfile import SendfileProtocol
from dayzero.errors import BadInputError, DependencyError

_CLOSE_WITHIN_S = 2
_START_WITHIN_S = 30.0


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens (port 0: a free one). DependencyError: the port is taken. BadInputError: no such address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay (TCP_NODELAY) only where the socket says that it is TCP's: else a small range takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except socket.gaierror as error:
        listening.close()
        raise BadInputError(f"the hub cannot listen on {host!r}: no such address.", remedy="Name one with --host.") from error
    except (OSError, OverflowError) as error:
        listening.close()
        raise DependencyError(
            f"the hub cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}.",
            remedy="Stop what listens there, or name another port with --port.",
        ) from error
    return listening


def url_of(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_forever(app: Any, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    with suppress(KeyboardInterrupt):
        _server(app).run(sockets=[listening])


def _server(app: Any) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=SendfileProtocol,
        loop="asyncio",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_CLOSE_WITHIN_S,
        ws="none",
        lifespan="off",
    )
    return uvicorn.Server(config)


class HubServer:
    """A hub over a folder, running in a thread while the context is open; `url` is its endpoint. `app` serves in its place."""

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", port: int = 0, state: Path | None = None, app: Any = None
    ) -> None:
        self._listening = listen(host, port)
        try:
            self._server = _server(app if app is not None else serve_app(folder, state))
        except BaseException:
            self._listening.close()
            raise
        self.url = url_of(self._listening)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listening]}, name="dayzero-hub", daemon=True
        )

    def __enter__(self) -> "HubServer":
        self._thread.start()
        waiting = threading.Event()
        for _ in range(int(_START_WITHIN_S / 0.01)):
            if self._server.started:
                return self
            if not self._thread.is_alive():
                break
            waiting.wait(0.01)
        self._stop()
        raise DependencyError(f"the hub at {self.url} did not start.", remedy="Look at its log.")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(_START_WITHIN_S)
        self._listening.close()
