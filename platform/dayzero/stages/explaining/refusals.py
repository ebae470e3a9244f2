"""Why plans were refused: families with their nearest, and what came nearest when nothing fits."""

from collections.abc import Iterator, Mapping

from dayzero.domain.plan import NearestMiss, PlanReport, RejectedFamily
from dayzero.domain.reports import Bar, Block, Cell
from dayzero.stages.explaining.bars import filled_words, legend_of
from dayzero.stages.explaining.memory import alone, gigabytes
from dayzero.stages.explaining.words import seconds
from dayzero.stages.memory.host import HOST

FAMILIES = 8
"""How many families one screen shows; the JSON has them all."""


def families_of(report: PlanReport) -> tuple[RejectedFamily, ...]:
    """The families of the report; where none are counted, those of the rejections that it keeps."""
    if report.families:
        return tuple(sorted(report.families, key=lambda family: -family.count))
    kept: dict[str, list[int]] = {}
    for index, rejection in enumerate(report.rejected):
        kept.setdefault(rejection.family, []).append(index)
    found = []
    for family, indices in kept.items():
        same = [report.rejected[index] for index in indices]
        nearest = min(same, key=lambda no: (_short(no.numbers.get("short_bytes")), -no.degrees.world))
        found.append(RejectedFamily(family, len(same), nearest))
    return tuple(sorted(found, key=lambda family: -family.count))


def _short(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("inf")


def families_block(report: PlanReport) -> Block:
    families = families_of(report)
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {
            "refused": family.count,
            "because of": family.family,
            "nearest": str(family.nearest.degrees),
            "with": reason_words(family),
        }
        for family in families[:FAMILIES]
    )
    left = sum(family.count for family in families[FAMILIES:])
    lines = (f"{left:,} more in {len(families) - FAMILIES} families: --json has them",) if left else ()
    return Block("Why not the others", rows=rows, lines=lines)


def reason_words(family: RejectedFamily) -> str:
    """The nearest one's reason; bytes that are short in units that people read."""
    nearest = family.nearest
    short = nearest.numbers.get("short_bytes")
    if not isinstance(short, int | float):
        return nearest.reason.removeprefix(f"{nearest.degrees}: ")
    limit = nearest.numbers.get("limit_bytes")
    items = {
        name.removesuffix("_bytes"): size
        for name, size in nearest.numbers.items()
        if isinstance(size, int | float)
        and name.endswith("_bytes")
        and name not in ("short_bytes", "limit_bytes", "needed_bytes")
        and not name.startswith(HOST)
    }
    largest = max(items, key=lambda name: items[name], default=None)
    most = "" if largest is None else f", {gigabytes(items[largest])} of it {largest.replace('_', ' ')}"
    of = f" of {gigabytes(limit)}" if isinstance(limit, int | float) else ""
    needed = f"needs {gigabytes(limit + short)}{of}{most}: " if isinstance(limit, int | float) else ""
    return f"{needed}short by {gigabytes(short)}"


def nearest_words(nearest: NearestMiss) -> str:
    """What the nearest miss is short of: bytes, or time where its memory is enough."""
    item = nearest.item.replace("_", " ")
    if nearest.short_bytes:
        return (
            f"{nearest.degrees} comes nearest: short by {gigabytes(nearest.short_bytes)} a device, the largest item is {item}"
        )
    return f"{nearest.degrees} comes nearest: its memory is enough, and its {item} misses what was asked"


def nearest_blocks(nearest: NearestMiss) -> Iterator[Block]:
    budget = nearest.budget
    group = alone(budget)
    said = nearest_words(nearest)
    yield Block(
        "What came nearest",
        bars=(Bar(f"rank {budget.rank}", budget.items_bytes, budget.limit_bytes, filled_words(group)),),
        legend=legend_of((group,)),
        lines=(said,),
    )
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {
            "remedy": remedy.action,
            "gains a device": None if remedy.gain_bytes is None else gigabytes(remedy.gain_bytes),
            "gains": None if remedy.gain_s is None else seconds(remedy.gain_s),
            "enough alone": "yes" if remedy.enough else "no",
        }
        for remedy in nearest.remedies
    )
    yield Block("What would help", rows=rows)
