"""Pictures of a plan: memory by rank, and where the ranks sit."""

from dayzero.domain.plan import NearestMiss, ParallelPlan, Placement
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.explaining.memory import LETTERS, RankGroup, alone, gigabytes, items_in, ordered, rank_groups
from dayzero.stages.explaining.picture_nodes import draw_placement
from dayzero.stages.explaining.refusals import nearest_words
from dayzero.stages.explaining.svg import LINE, MARGIN, SMALL, TEXT, WIDTH, Box, Drawing, wrapped
from dayzero.stages.planning.placement import by_node, placed, ranges

MOST_BARS = 24


def plan_picture(plan: ParallelPlan, profile: PlatformProfile, title: str) -> str:
    """Memory by rank above placement.

    Memory has a bar for each group of equal ranks (of many groups the fullest), stacked by item, against the limit. Placement
    has nodes as boxes, the domains between them around them, ranks coloured by stage, tensor-parallel groups outlined.
    """
    groups = rank_groups(plan.memory)
    places = placed(plan, profile)
    shown = groups if len(groups) <= MOST_BARS else tuple(sorted(groups, key=lambda one: -one.total_bytes))[:MOST_BARS]
    drawing = Drawing(title, f"{_memory_words(plan, groups)} {_placement_words(places)}")
    _draw_memory(drawing, shown, len(groups) - len(shown))
    drawing.y += MARGIN
    draw_placement(drawing, plan, profile, places)
    return drawing.text()


def nearest_picture(nearest: NearestMiss, title: str) -> str:
    """The fullest rank of the plan that came nearest to fitting, against the limit that it misses."""
    drawing = Drawing(f"{title}: no plan fits", f"No plan fits. {nearest_words(nearest)}.")
    _draw_memory(drawing, (alone(nearest.budget),), 0)
    for line in wrapped(nearest_words(nearest), LINE):
        drawing.write(MARGIN, line, kind="dim")
    return drawing.text()


def _memory_words(plan: ParallelPlan, groups: tuple[RankGroup, ...]) -> str:
    most = max(groups, key=lambda group: group.total_bytes)
    least = min(groups, key=lambda group: group.total_bytes)
    limit = "an unknown limit" if most.limit_bytes is None else gigabytes(most.limit_bytes)
    items = ", ".join(f"{name.replace('_', ' ')} {gigabytes(most.items_bytes[name])}" for name in ordered(most.items_bytes))
    return (
        f"Plan {plan.degrees} needs {gigabytes(most.total_bytes)} of {limit} on its fullest ranks ({most.named}): {items}; "
        f"{gigabytes(least.total_bytes)} on its emptiest ({least.named})."
    )


def _placement_words(places: tuple[Placement, ...]) -> str:
    nodes = by_node(places)
    first = ", ".join(f"node {node}: ranks {ranges(tuple(ranks))}" for node, ranks in list(nodes.items())[:8])
    more = f", and {len(nodes) - 8} more" if len(nodes) > 8 else ""
    return f"{len(places)} ranks on {len(nodes)} node{'' if len(nodes) == 1 else 's'}: {first}{more}."


def _draw_memory(drawing: Drawing, groups: tuple[RankGroup, ...], left_out: int) -> None:
    """Bars, their legend above them."""
    drawing.write(MARGIN, "Memory by rank", size=TEXT, weight="600")
    _legend(drawing, groups)
    most = max(max(group.total_bytes, group.limit_bytes or 0) for group in groups) or 1
    width = WIDTH - 2 * MARGIN
    for group in groups:
        named = group.named if len(group.named) <= 26 else f"{group.named[:24]}…"
        limit = "" if group.limit_bytes is None else f" of {gigabytes(group.limit_bytes)}"
        drawing.y += SMALL
        drawing.label(MARGIN, drawing.y, f"rank{'' if len(group.ranks) == 1 else 's'} {named}")
        drawing.label(WIDTH - MARGIN, drawing.y, f"{gigabytes(group.total_bytes)}{limit}", kind="dim", anchor="end")
        drawing.y += 7
        _bar(drawing, group, most, width)
        drawing.y += 34
    if left_out:
        drawing.write(MARGIN, f"{left_out} more groups of ranks need less", kind="dim")


def _bar(drawing: Drawing, group: RankGroup, most: int, width: float) -> None:
    height = 26.0
    drawing.box(Box(MARGIN, drawing.y, width, height), "track")
    x = float(MARGIN)
    for name in ordered(group.items_bytes):
        size = group.items_bytes[name]
        wide = size * width / most
        drawing.box(Box(x, drawing.y, wide, height), "", fill=_fill(name), said=f"{name.replace('_', ' ')}: {gigabytes(size)}")
        x += wide
    if group.limit_bytes is not None:
        drawing.line(MARGIN + group.limit_bytes * width / most, drawing.y - 4, drawing.y + height + 4, "limit")


def _legend(drawing: Drawing, groups: tuple[RankGroup, ...]) -> None:
    x = float(MARGIN)
    drawing.y += SMALL
    for name in items_in(groups):
        x = drawing.legend(x, name.replace("_", " "), _fill(name))
    if any(group.limit_bytes is not None for group in groups):
        if x + 90 > WIDTH - MARGIN:
            x, drawing.y = float(MARGIN), drawing.y + SMALL * 1.5
        drawing.line(x + 8, drawing.y - 17, drawing.y + 5, "limit")
        drawing.label(x + 24, drawing.y, "limit")
    drawing.y += SMALL * 0.8


def _fill(item: str) -> str:
    return f"--{item}" if item in LETTERS else "--reserve"
