"""Memory by rank as a picture: what was predicted above what was measured, stacked by item."""

from collections.abc import Mapping

from dayzero.domain.entry_report import MemorySeries, RankFigures
from dayzero.stages.explaining.memory import LETTERS, gigabytes, ordered
from dayzero.stages.explaining.svg import LINE, MARGIN, SMALL, WIDTH, Box, Drawing, wrapped

BAR = 24.0
MOST_BARS = 16


def memory_picture(series: MemorySeries, *, name: str = "") -> str:
    """A bar for each rank and each of prediction and measurement, on one scale; of many ranks the fullest."""
    drawing = Drawing(f"Memory by rank ({series.rung})", _words(series), name=name, bare=True)
    for line in wrapped(series.what, LINE):
        drawing.write(MARGIN, line, kind="dim")
    shown = _shown(series.ranks)
    _legend(drawing, shown)
    most = max((_most(one, limited=_limit_counts(shown)) for one in shown), default=1) or 1
    for rank in shown:
        _rank(drawing, rank, most)
    if len(shown) < len(series.ranks):
        drawing.write(MARGIN, f"{len(series.ranks) - len(shown)} more ranks hold no more", kind="dim")
    return drawing.text()


def _shown(ranks: tuple[RankFigures, ...]) -> tuple[RankFigures, ...]:
    if len(ranks) <= MOST_BARS:
        return ranks
    fullest = sorted(ranks, key=lambda one: -_most(one, limited=False))[:MOST_BARS]
    return tuple(sorted(fullest, key=lambda one: one.rank))


def _most(rank: RankFigures, *, limited: bool) -> int:
    limit = rank.limit_bytes or 0 if limited else 0
    return max(sum(rank.predicted_bytes.values()), sum(rank.measured_bytes.values()), limit)


def _limit_counts(ranks: tuple[RankFigures, ...]) -> bool:
    """Whether bars can still be read on a scale that holds the limit: a host's memory makes those of small models vanish."""
    needed = max((_most(one, limited=False) for one in ranks), default=0)
    return all((one.limit_bytes or 0) <= 8 * needed for one in ranks)


def _words(series: MemorySeries) -> str:
    said = [f"Plan {series.rung}, {series.what}."]
    for rank in series.ranks[:8]:
        for what, items in (("predicted", rank.predicted_bytes), ("measured", rank.measured_bytes)):
            if items:
                parts = ", ".join(f"{name.replace('_', ' ')} {gigabytes(items[name])}" for name in ordered(items))
                said.append(f"Rank {rank.rank} {what}: {parts}.")
    return " ".join(said)


def _legend(drawing: Drawing, ranks: tuple[RankFigures, ...]) -> None:
    items = ordered({name: 1 for rank in ranks for bars in (rank.predicted_bytes, rank.measured_bytes) for name in bars})
    x = float(MARGIN)
    drawing.y += SMALL
    for name in items:
        x = drawing.legend(x, name.replace("_", " "), _fill(name))
    drawing.y += SMALL * 0.8


def _rank(drawing: Drawing, rank: RankFigures, most: int) -> None:
    limit = "" if rank.limit_bytes is None else f"limit {gigabytes(rank.limit_bytes)}"
    drawing.y += SMALL
    drawing.label(MARGIN, drawing.y, f"rank {rank.rank}", weight="600")
    drawing.label(WIDTH - MARGIN, drawing.y, limit, kind="dim", anchor="end")
    drawing.y += 8
    if rank.predicted_bytes:
        _bar(drawing, "predicted", rank.predicted_bytes, rank.limit_bytes, most)
    if rank.measured_bytes:
        _bar(drawing, "measured", rank.measured_bytes, rank.limit_bytes, most)
    drawing.y += 8


def _bar(drawing: Drawing, what: str, items: Mapping[str, int], limit: int | None, most: int) -> None:
    left, width = MARGIN + 116.0, WIDTH - 2 * MARGIN - 116.0 - 106.0
    drawing.label(MARGIN, drawing.y + BAR - 6, what, kind="dim")
    drawing.box(Box(left, drawing.y, width, BAR), "track")
    x = left
    for name in ordered(items):
        wide = items[name] * width / most
        drawing.box(Box(x, drawing.y, wide, BAR), "", fill=_fill(name), said=f"{name.replace('_', ' ')} {what}: "
                    f"{gigabytes(items[name])}")  # fmt: skip
        x += wide
    if limit is not None and limit <= most:
        drawing.line(left + limit * width / most, drawing.y - 3, drawing.y + BAR + 3, "limit")
    drawing.label(WIDTH - MARGIN, drawing.y + BAR - 6, gigabytes(sum(items.values())), anchor="end")
    drawing.y += BAR + 8


def _fill(item: str) -> str:
    return f"--{item}" if item in LETTERS else "--reserve"
