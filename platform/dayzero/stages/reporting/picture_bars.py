"""Latency and throughput as bars: figures of one unit share a scale."""

from collections.abc import Sequence

from dayzero.domain.verdict import Measurement
from dayzero.stages.explaining.svg import MARGIN, SMALL, TEXT, WIDTH, Box, Drawing, wrapped

BAR = 24.0
MOST_BARS = 24

LOADING = "load"
TIMES = frozenset({"s", "s a text", "s a token"})
RATES = frozenset({"tokens/s", "texts/s", "requests/s"})


def performance_picture(measurements: Sequence[Measurement], *, name: str = "") -> str | None:
    """Bars of what was timed, the shorter the better above, the longer the better below; None where nothing was."""
    groups = [(title, fill, _of(measurements, units)) for title, fill, units in
              (("Latency", "--time", TIMES), ("Throughput", "--rate", RATES))]  # fmt: skip
    if not any(found for _, _, found in groups):
        return None
    said = "; ".join(f"{_label(one)} {_figure(one.value)} {one.unit}" for _, _, found in groups for one in found)
    drawing = Drawing("Latency and throughput", said, name=name, bare=True)
    for title, fill, found in groups:
        if found:
            better = "shorter is better" if title == "Latency" else "longer is better"
            drawing.write(MARGIN, f"{title}, {better}", size=TEXT, weight="600")
            for unit in dict.fromkeys(one.unit for one in found):
                same = [one for one in found if one.unit == unit]
                most = max(one.value for one in same) or 1.0
                for one in same:
                    _bar(drawing, one, most, fill)
    return drawing.text()


def _of(measurements: Sequence[Measurement], units: frozenset[str]) -> list[Measurement]:
    """Those of the units; loading takes so much longer than all else that beside it nothing could be read."""
    return [one for one in measurements if one.unit in units and one.value >= 0 and one.name != LOADING][:MOST_BARS]


def _bar(drawing: Drawing, one: Measurement, most: float, fill: str) -> None:
    width = WIDTH - 2 * MARGIN
    lines = wrapped(_label(one), 34)
    drawing.y += SMALL
    drawing.label(MARGIN, drawing.y, lines[0] if lines else "")
    drawing.label(WIDTH - MARGIN, drawing.y, f"{_figure(one.value)} {one.unit}"[:26], anchor="end")
    drawing.y += 7
    drawing.box(Box(MARGIN, drawing.y, width, BAR), "track")
    conditions = ", ".join(f"{name} {value}" for name, value in sorted(one.conditions.items()))
    said = f"{_label(one)}: {_figure(one.value)} {one.unit}, {one.samples} samples; {conditions}"
    drawing.box(Box(MARGIN, drawing.y, width * one.value / most, BAR), "", fill=fill, said=said[:400])
    drawing.y += BAR + 10


def _label(one: Measurement) -> str:
    """The figure's name, with the condition that tells it from others of the name."""
    told = [str(one.conditions[name]) for name in ("task", "run", "plan") if name in one.conditions]
    return f"{one.name.replace('_', ' ')}{' (' + ', '.join(told) + ')' if told else ''}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
