"""What is dear to make, kept for whoever asks again."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from dayzero.ports.running import Clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Values by key. One that is older than `for_s` is made anew by one reader while the others get the old one, and wait where
    there is none: however many ask at once, it is made once. Of the keys the `most` that were asked for last are kept.
    """

    def __init__(self, clock: Clock, for_s: float, most: int) -> None:
        self._clock = clock
        self._for_s = for_s
        self._most = most
        self._slots: OrderedDict[Key, _Slot[Value]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of the key, made if need be; what `make` raises is raised, and keeps nothing."""
        slot = self._slot(key)
        made = slot.made
        if made is not None and not self._is_old(made):
            return made[1]
        if not slot.making.acquire(blocking=made is None):
            assert made is not None
            return made[1]
        try:
            again = slot.made
            if again is None or self._is_old(again):
                slot.made = again = (self._clock.monotonic_s(), make())
            return again[1]
        finally:
            slot.making.release()

    def _is_old(self, made: tuple[float, Value]) -> bool:
        return self._clock.monotonic_s() - made[0] > self._for_s

    def _slot(self, key: Key) -> "_Slot[Value]":
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            if len(self._slots) > self._most:
                self._slots.popitem(last=False)
            return slot


class _Slot(Generic[Value]):
    def __init__(self) -> None:
        self.making = Lock()
        self.made: tuple[float, Value] | None = None
        """When it was made, and the value."""
