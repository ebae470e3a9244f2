"""The fewest devices that will do: a number of devices is enough or not, and more never become too few."""

from collections.abc import Callable, Iterable, Iterator

from dayzero.domain.plan import Rejection
from dayzero.domain.planning import Choices, Degrees
from dayzero.stages.planning.ranks import RankMemory
from dayzero.stages.planning.search import Search
from dayzero.stages.planning.space import candidates, space_of

Structural = Callable[[Iterable[Degrees | Rejection], int], Iterator[Degrees | Rejection]]


def fewest_devices(fresh: Callable[[], Search], structural: Structural, devices: int, choices: tuple[Choices, ...]) -> int:
    """The smallest number of devices on which a plan fits and meets its targets; all of them where none does.

    It starts from the weights (each byte lies on some rank), doubles until a plan is found, and halves the rest: a plan for n
    devices is one for n + 1 too, so that where all are too few nothing is halved. `fresh` makes a search whose refusals nobody
    reads.
    """
    search = fresh()
    low = max(0, least_devices(search.memory) - 1)
    if low + 1 >= devices:
        return devices

    def enough(count: int) -> bool:
        search = fresh()
        space = space_of(search.memory.spec, search.profile, search.workload, count)
        return bool(search.run(structural(candidates(space), count), choices, 1, first_only=True).fitting)

    high = low + 1
    while not enough(high):
        if high == devices:
            return devices
        low, high = high, min(devices, high * 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def least_devices(memory: RankMemory) -> int:
    """Devices below which not even the weights have room; 1 where memory or weights are not known."""
    limit = memory.limit_bytes
    if limit is None or memory.table is None or memory.profile.torch_device == "cpu":
        return 1
    whole = sum(held.common_bytes + sum(held.experts_bytes) for held in memory.weights(Degrees()))
    return max(1, -(-whole // max(1, limit)))
