"""A guard around libraries that connect by themselves: in a guarded context no socket reaches an address that is not permitted.

Python tells audit hooks of every connect, after names are resolved and on every redirect, and a hook may refuse it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from dayzero.adapters.notify.networks import Networks, RefusedAddressError


@dataclass(slots=True)
class Guard:
    """The networks of one context, and the addresses that were refused in it."""

    networks: Networks
    refused: list[str] = field(default_factory=list)


_guard: ContextVar[Guard | None] = ContextVar("dayzero-guard", default=None)
_lock = threading.Lock()
_installed = False
_CONNECTING = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg"))


@contextmanager
def guarded(networks: Networks) -> Iterator[Guard]:
    """In the block, and in threads that inherit its context, only permitted addresses are connected to."""
    _install()
    guard = Guard(networks)
    token = _guard.set(guard)
    try:
        yield guard
    finally:
        _guard.reset(token)


def _install() -> None:
    global _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_judge)  # a hook stays for the life of the process; without a guard it does nothing
            _installed = True


def _judge(event: str, arguments: tuple[object, ...]) -> None:
    if event not in _CONNECTING:
        return
    guard = _guard.get()
    if guard is None:
        return
    address = arguments[1] if len(arguments) > 1 else None
    host = str(address[0]) if isinstance(address, tuple) and address else str(address)
    # A connected datagram socket names no address again; connecting it was judged before.
    if address is None or guard.networks.permits(host):
        return
    guard.refused.append(host)
    raise RefusedAddressError(guard.networks.refusal("the channel", [host]))
