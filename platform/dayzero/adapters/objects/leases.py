"""Pins that end by themselves: a server's clients never say that they are done."""

import math
import os
import threading
import time
from collections.abc import Callable

LEASE_S = 600.0
"""A download that pauses for longer than this may find its release evicted; it is told so, and can ask for another."""

_LOOK_EVERY_S = 5.0


class Leases:
    """Pins of contents that are let go some time after they were used last; `begin` makes a pin (a descriptor)."""

    def __init__(self, begin: Callable[[str], int], lease_s: float = LEASE_S) -> None:
        self._begin, self._lease_s = begin, lease_s
        self._pins: dict[str, tuple[int, float]] = {}
        self._changing = threading.Lock()
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    def renew(self, content_id: str) -> bool:
        """Pin the content from now on for a while; True when it was not pinned before."""
        until_s = time.monotonic() + self._lease_s
        with self._changing:
            if content_id in self._pins:
                self._pins[content_id] = (self._pins[content_id][0], until_s)
                return False
            self._pins[content_id] = (self._begin(content_id), until_s)
            if self._watch is None:
                self._watch = threading.Thread(target=self._end_those_over, name="dayzero-store-leases", daemon=True)
                self._watch.start()
            return True

    def close(self) -> None:
        """End all of them now."""
        self._closed.set()
        self._end(math.inf)

    def _end_those_over(self) -> None:
        while not self._closed.wait(min(_LOOK_EVERY_S, self._lease_s)):
            self._end(time.monotonic())

    def _end(self, now_s: float) -> None:
        with self._changing:
            for content_id, (pin, until_s) in list(self._pins.items()):
                if until_s <= now_s:
                    del self._pins[content_id]
                    os.close(pin)
