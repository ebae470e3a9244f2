"""Which releases make room for another, the least recently used first."""

from collections import Counter
from collections.abc import Sequence

from dayzero.domain.stored import Keep, RoomPlan


def plan_room(keeps: Sequence[Keep], used_bytes: int, needed_bytes: int, limit_bytes: int) -> RoomPlan:
    """The releases that must go so that `needed_bytes` more fit under the limit; `used_bytes` is all that counts against it.

    Pinned releases stay. An object goes with the last release that refers to it. The least recently used go first; those that
    would free nothing beside the others stay. Where all of them are not enough, none goes, and the plan says what is lacking.
    """
    pinned = {name: size for keep in keeps if keep.pinned for name, size in keep.objects.items()}
    excess = used_bytes + needed_bytes - limit_bytes
    if excess <= 0:
        return RoomPlan((), 0, 0, sum(pinned.values()))
    candidates = sorted((keep for keep in keeps if not keep.pinned), key=lambda keep: (keep.used_at_s, keep.content_id))
    taken: list[Keep] = []
    freed = 0
    for keep in candidates:
        if freed >= excess:
            break
        taken.append(keep)
        freed = freed_by(keeps, taken)
    if freed < excess:
        return RoomPlan((), 0, excess - freed, sum(pinned.values()))
    for keep in reversed(taken[:-1]):
        without = [one for one in taken if one is not keep]
        if freed_by(keeps, without) >= excess:
            taken = without
    return RoomPlan(tuple(keep.content_id for keep in taken), freed_by(keeps, taken), 0, sum(pinned.values()))


def freed_by(keeps: Sequence[Keep], leaving: Sequence[Keep]) -> int:
    """Bytes of the objects that nobody refers to any more once these have left."""
    references = Counter(name for keep in keeps for name in keep.objects)
    sizes: dict[str, int] = {}
    for keep in leaving:
        references.subtract(keep.objects.keys())
        sizes.update(keep.objects)
    return sum(size for name, size in sizes.items() if references[name] <= 0)
