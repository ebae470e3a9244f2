"""Bars of a plan's memory, as a screen prints them."""

from dayzero.domain.plan import ParallelPlan
from dayzero.domain.reports import Bar, Block
from dayzero.stages.explaining.memory import RankGroup, gigabytes, items_in, letter_of, telling_groups
from dayzero.stages.memory.host import HOST


def memory_block(plan: ParallelPlan) -> Block:
    """Bars of the ranks that tell a plan's memory, and what the letters stand for on the fullest."""
    telling = telling_groups(plan)
    groups = tuple(group for _, group in telling)
    bars = tuple(Bar(label, group.items_bytes, group.limit_bytes, filled_words(group)) for label, group in telling)
    lines = tuple(f"in the host's memory, {words}" for words in host_words(plan))
    return Block("Memory by rank", bars=bars, legend=legend_of(groups), lines=lines)


def host_words(plan: ParallelPlan) -> tuple[str, ...]:
    """What the rank that needs most of its host takes there, item by item; () where no rank needs any."""
    most = max(plan.memory, key=lambda budget: budget.host_bytes)
    if not most.host_bytes:
        return ()
    held = {name.removeprefix(HOST).replace("_", " "): size for name, size in most.items_bytes.items() if name.startswith(HOST)}
    items = ", ".join(f"{name} {gigabytes(size)}" for name, size in held.items() if size)
    limit = "" if most.host_limit_bytes is None else f", of {gigabytes(most.host_limit_bytes)} for all ranks of a node"
    return (f"each rank: {items}{limit}",)


def legend_of(groups: tuple[RankGroup, ...]) -> tuple[tuple[str, str], ...]:
    """What each letter stands for, with the bytes of the first group, or the most of any where that one has none."""
    order = items_in(groups)
    most = {name: groups[0].items_bytes.get(name, 0) or max(one.items_bytes.get(name, 0) for one in groups) for name in order}
    return tuple((name, f"{letter_of(name, order)} {name.replace('_', ' ')} {gigabytes(most[name])}") for name in order)


def filled_words(group: RankGroup) -> str:
    """What a group of ranks needs of its limit, and which ranks they are."""
    named = group.named if len(group.named) <= 14 else f"{len(group.ranks)} ranks from {group.ranks[0]}"
    rank = f"rank{'' if len(group.ranks) == 1 else 's'} {named}" if "ranks" not in named else named
    if group.limit_bytes is None:
        return f"{gigabytes(group.total_bytes)}, limit not known; {rank}"
    share = group.total_bytes / group.limit_bytes if group.limit_bytes else float("inf")
    return f"{gigabytes(group.total_bytes)} of {gigabytes(group.limit_bytes)} ({share:.0%}); {rank}"
