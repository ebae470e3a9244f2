"""A plan's memory as people read it: ranks that need the same are one group, and a bar has a cell for each share."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.plan import MemoryBudget, ParallelPlan
from dayzero.stages.memory.host import HOST
from dayzero.stages.planning.placement import position_of, ranges

LETTERS = {
    "weights": "W",
    "redundant_experts": "X",
    "state": "S",
    "activations": "A",
    "logits": "L",
    "expert_buffers": "E",
    "communication_buffers": "C",
    "reserve": "R",
    "gradients": "G",
    "master_weights": "M",
    "moments": "O",
    "adapters": "P",
}
"""A letter for each item of memory: bars must be read without colour too. Other items take a digit."""


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks with equal budgets, in ascending order."""

    ranks: tuple[int, ...]
    items_bytes: Mapping[str, int]
    limit_bytes: int | None

    @property
    def total_bytes(self) -> int:
        """Bytes that each of them needs on its device."""
        return needed_bytes(self.items_bytes)

    @property
    def named(self) -> str:
        """The ranks as ranges."""
        return ranges(self.ranks)


def alone(budget: MemoryBudget) -> RankGroup:
    """A rank as a group of its own."""
    return RankGroup((budget.rank,), budget.items_bytes, budget.limit_bytes)


def rank_groups(budgets: tuple[MemoryBudget, ...]) -> tuple[RankGroup, ...]:
    """The ranks by what they need, in the order of their first rank; every rank is in exactly one group."""
    found: dict[object, list[MemoryBudget]] = {}
    for budget in budgets:
        found.setdefault((tuple(sorted(budget.items_bytes.items())), budget.limit_bytes), []).append(budget)
    return tuple(
        RankGroup(tuple(one.rank for one in same), same[0].items_bytes, same[0].limit_bytes) for same in found.values()
    )


def telling_groups(plan: ParallelPlan, most: int = 6) -> tuple[tuple[str, RankGroup], ...]:
    """The groups that tell a plan's memory, each with its label: the fullest rank of each stage where stages differ, and the
    emptiest of all; at most so many, the fullest first."""
    groups = rank_groups(plan.memory)
    fullest = max(groups, key=lambda group: group.total_bytes)
    emptiest = min(groups, key=lambda group: group.total_bytes)
    chosen = [("fullest", fullest)]
    by_stage: dict[int, RankGroup] = {}
    for group in groups:
        stage = position_of(group.ranks[0], plan.degrees).pp
        if stage not in by_stage or group.total_bytes > by_stage[stage].total_bytes:
            by_stage[stage] = group
    if len(by_stage) > 1:
        chosen += [(f"stage {stage}", group) for stage, group in sorted(by_stage.items()) if group is not fullest]
    chosen = chosen[: most - 1]
    if emptiest not in [group for _, group in chosen]:
        chosen.append(("emptiest", emptiest))
    return tuple(chosen)


def bar_cells(items_bytes: Mapping[str, int], limit_bytes: int | None, width: int) -> tuple[tuple[str, int], ...]:
    """How many of `width` cells each item takes, and how many are `free`.

    The whole bar is the limit, or what is needed where that is more or no limit is known. Cells are rounded so that they add up
    to the width; an item that needs anything keeps at least one cell while there are enough.
    """
    needed = needed_bytes(items_bytes)
    whole = max(needed, limit_bytes or needed, 1)
    parts = [(name, items_bytes[name]) for name in ordered(items_bytes)]
    if limit_bytes is not None and needed < limit_bytes:
        parts.append(("free", limit_bytes - needed))
    cells = [max(1, size * width // whole) for _, size in parts]
    while parts and sum(cells) != width:
        # What is furthest from its exact share gives or takes a cell.
        off = [count - size * width / whole for count, (_, size) in zip(cells, parts, strict=True)]
        if sum(cells) < width:
            cells[off.index(min(off))] += 1
        else:
            index = max((one for one in range(len(cells)) if cells[one] > 1), key=lambda one: off[one], default=None)
            if index is None:
                break
            cells[index] -= 1
    return tuple((name, count) for (name, _), count in zip(parts, cells, strict=True))


def letter_of(item: str, order: tuple[str, ...]) -> str:
    """The letter that stands for an item in a bar; what has none takes its number among the items."""
    return LETTERS.get(item) or str(order.index(item) % 10 if item in order else 9)


def ordered(items_bytes: Mapping[str, int]) -> tuple[str, ...]:
    """The items that need anything on the device, the known ones in the order of their letters."""
    order = list(LETTERS)
    names = [name for name, size in items_bytes.items() if size > 0 and not name.startswith(HOST)]
    return tuple(sorted(names, key=lambda name: (order.index(name) if name in LETTERS else len(order), name)))


def needed_bytes(items_bytes: Mapping[str, int]) -> int:
    """Bytes of the items on the device."""
    return sum(items_bytes[name] for name in ordered(items_bytes))


def items_in(groups: tuple[RankGroup, ...]) -> tuple[str, ...]:
    """The items of all groups, in the same order as in each bar."""
    return ordered({name: size for group in groups for name, size in group.items_bytes.items() if size})


def gigabytes(size: int | float) -> str:
    """Bytes as GB (10^9) of three figures at least; less than a tenth of one as MB or kB."""
    for unit, divisor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(size) >= divisor / 10:
            value = size / divisor
            return f"{value:,.2f} {unit}" if abs(value) < 10 else f"{value:,.1f} {unit}"
    return f"{int(size)} B"
