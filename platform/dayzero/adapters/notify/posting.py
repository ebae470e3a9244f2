"""Posting over HTTP to addresses that were checked after their names were resolved, and to no others."""

import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpcore
from anyio import fail_after, getaddrinfo
from anyio.from_thread import BlockingPortal, start_blocking_portal

from dayzero.adapters.notify.networks import Networks, RefusedAddressError

MAX_ANSWER_BYTES = 2048
"""How much of an answer is read: enough for an error message, whatever the subscriber sends."""

MAX_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers (names in lower case) and the beginning of the body."""

    status: int
    headers: Mapping[str, str]
    beginning: bytes


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the first permitted address of a host: what was checked is what is connected to, so that no name can
    mean another address a moment later."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection; RefusedAddressError when the host has no permitted address."""
        found = list(dict.fromkeys(str(one[4][0]) for one in await getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        permitted = [address for address in found if self._networks.permits(address)]
        if not permitted:
            raise RefusedAddressError(self._networks.refusal(host, found))
        for address in permitted[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(permitted[-1], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Never."""
        raise RefusedAddressError("no subscriber is behind a socket of this host")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


class Poster:
    """Posts from any thread; connections are kept open between posts. Redirects are not followed."""

    def __init__(self, networks: Networks) -> None:
        self._backend = CheckedBackend(networks)
        self._lock = threading.Lock()
        self._running: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None
        self._pool: httpcore.AsyncConnectionPool | None = None

    def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
        """Post it; TimeoutError when the whole exchange is not over by then, OSError or httpcore's errors when it fails."""
        return self._opened().call(partial(self._post, url, body, headers, timeout_s))

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            running, portal, pool = self._running, self._portal, self._pool
            self._running = self._portal = self._pool = None
        if portal is not None and pool is not None and running is not None:
            portal.call(pool.aclose)
            running.__exit__(None, None, None)

    def _opened(self) -> BlockingPortal:
        with self._lock:
            if self._portal is None:
                self._running = start_blocking_portal()
                self._portal = self._running.__enter__()
                self._pool = httpcore.AsyncConnectionPool(
                    max_connections=MAX_CONNECTIONS,
                    max_keepalive_connections=MAX_CONNECTIONS,
                    keepalive_expiry=15.0,
                    network_backend=self._backend,
                )
            return self._portal

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
        assert self._pool is not None, "opened before"
        waits = {"connect": timeout_s, "read": timeout_s, "write": timeout_s, "pool": timeout_s}
        sent = {"host": _host_of(url), "content-length": str(len(body)), **headers}
        with fail_after(timeout_s):
            async with self._pool.stream(
                "POST", url, headers=list(sent.items()), content=body, extensions={"timeout": waits}
            ) as response:
                said = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                return Answer(response.status, said, await _beginning(response))


async def _beginning(response: httpcore.Response) -> bytes:
    """The first bytes of the body; a short body is read to its end, so that its connection can be used again."""
    read = b""
    async for chunk in response.aiter_stream():
        read += chunk[: MAX_ANSWER_BYTES + 1 - len(read)]
        if len(read) > MAX_ANSWER_BYTES:
            break
    return read[:MAX_ANSWER_BYTES]


def _host_of(url: str) -> str:
    """The Host header."""
    parsed = httpcore.URL(url)
    host = parsed.host.decode("ascii")
    shown = f"[{host}]" if ":" in host else host
    default = {b"http": 80, b"https": 443}[parsed.scheme]
    return shown if parsed.port in (None, default) else f"{shown}:{parsed.port}"
