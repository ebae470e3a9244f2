"""The fewest modules that must keep their precision: a greedy search, checked by measuring. Pure: whoever asks measures.

The order comes from each module's error alone, the worst first (ties by name, so the same figures give the same answer). The
shortest prefix of that order that meets the limit is found by doubling, for few modules are sensitive, and halving; then each
promoted module, the least first, is left out where the limit holds without it, until none can be. What remains is minimal, not
proven the smallest of all sets: errors of modules can cancel or compound, and there are 2^n sets. Where errors add up it is the
smallest, which the test of this module shows against all subsets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """The modules that were promoted, the worst first; None when even all of them do not meet the limit."""

    promoted: tuple[str, ...] | None
    measured: int


def worst_first(alone: Mapping[str, float | None]) -> tuple[str, ...]:
    """Modules by what they do alone; one whose error is no number comes first."""
    return tuple(sorted(alone, key=lambda name: (-(float("inf") if alone[name] is None else alone[name] or 0.0), name)))


def fewest(order: Sequence[str], meets: Callable[[frozenset[str]], bool]) -> Found:
    """Search along the order; `meets` measures a set of promoted modules, and is asked once for each."""
    asked: dict[frozenset[str], bool] = {}

    def holds(names: Sequence[str]) -> bool:
        key = frozenset(names)
        if key not in asked:
            asked[key] = meets(key)
        return asked[key]

    if not holds(order):
        return Found(None, len(asked))
    if holds(()):
        return Found((), len(asked))
    low, high = 0, 1
    while high < len(order) and not holds(order[:high]):
        low, high = high, min(2 * high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(order[:middle]) else (middle, high)
    kept = list(order[:high])
    going = True
    while going:
        going = False
        for name in reversed(tuple(kept)):
            without = [one for one in kept if one != name]
            if holds(without):
                kept, going = without, True
    return Found(tuple(kept), len(asked))
