"""Going through many things in order of a key that is dear to work out, when a bound of it is cheap."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Key = tuple[float, ...]


class BestFirst(Generic[Thing]):
    """Hands out things by key, the smallest first; a thing whose key is a bound gives way to those that `nearer` makes of it
    (none, one, or many; exact or bounded again) only once nothing else can come before it.

    The key of a bounded thing is never larger than that of any of them; `bounded` says which things are.
    """

    def __init__(
        self,
        things: Iterable[Thing],
        key: Callable[[Thing], Key],
        bounded: Callable[[Thing], bool],
        nearer: Callable[[Thing], Iterable[Thing]],
    ) -> None:
        self._key, self._bounded, self._nearer = key, bounded, nearer
        self._serial = count()
        self._waiting = [(key(thing), next(self._serial), thing) for thing in things]
        heapify(self._waiting)

    def __iter__(self) -> Iterator[Thing]:
        while self._waiting:
            thing = heappop(self._waiting)[2]
            if not self._bounded(thing):
                yield thing
                continue
            for found in self._nearer(thing):
                heappush(self._waiting, (self._key(found), next(self._serial), found))

    @property
    def waiting(self) -> list[Thing]:
        """What was not handed out yet, the smallest key first."""
        return [thing for _, _, thing in sorted(self._waiting, key=lambda entry: entry[:2])]
