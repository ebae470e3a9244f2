"""Layer by layer as a picture: own error, what was inherited, the native dtype's own, and the tolerance, on a log scale."""

import math
from collections.abc import Callable, Iterable

from dayzero.domain.entry_report import LayerFigures, LayerSeries
from dayzero.stages.explaining.svg import LINE, MARGIN, SMALL, WIDTH, Drawing, wrapped

LEFT, TOP_ROOM, HEIGHT = 92.0, 14.0, 300.0
"""Units left of the plot, above it, and of its height."""

FLOOR = 1e-18
"""An error of zero has no place on a log scale; nothing of 64 bits lies below this."""

Scale = Callable[[float], float]


def layers_picture(series: LayerSeries, *, name: str = "") -> str:
    """The plot, its legend above it; a layer that stands out is red, a culprit is named, and each dot says its figures."""
    drawing = Drawing(_title(series), _words(series), name=name, bare=True)
    _legend(drawing, series)
    values = [value for layer in series.layers for value in _values(layer)]
    low, high = _decades(values)
    top = drawing.y + TOP_ROOM
    bottom = top + HEIGHT

    def height(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return bottom - min(max(share, 0.0), 1.0) * HEIGHT

    _grid(drawing, low, high, height)
    places = _places(len(series.layers))
    _lines(drawing, series, places, height)
    _dots(drawing, series, places, height, top)
    _axis(drawing, series, places, bottom)
    drawing.y = bottom + SMALL * 2.9
    _below(drawing, series)
    return drawing.text()


def _title(series: LayerSeries) -> str:
    what = "Cached decoding, layer by layer" if series.check.startswith("decoding") else "Layer by layer"
    return f"{what} ({series.rung})"


def _words(series: LayerSeries) -> str:
    wrong = [str(layer.index) for layer in series.layers if layer.stands_out]
    own = [layer.own for layer in series.layers if layer.own is not None]
    said = f"{len(series.layers)} layers in {series.native_dtype} against {series.reference_dtype}, {series.tokens:,} tokens."
    said += f" Own errors from {min(own):.2g} to {max(own):.2g}." if own else ""
    return said + (f" Layers {', '.join(wrong[:20])} stand out." if wrong else " None stands out.")


def _values(layer: LayerFigures) -> Iterable[float]:
    return (one for one in (layer.own, layer.native, layer.inherited, layer.tolerance) if one is not None and one > FLOOR)


def _decades(values: list[float]) -> tuple[int, int]:
    """The decades that hold all values, three of them at least."""
    low = math.floor(math.log10(min(values, default=1e-6)))
    high = math.ceil(math.log10(max(values, default=1.0)))
    return (low, high) if high - low >= 3 else (high - 3, high)


def _places(count: int) -> list[float]:
    """Where the layers stand from left to right."""
    width = WIDTH - MARGIN - LEFT - 16
    return [LEFT + 8 + width * (index + 0.5) / max(count, 1) for index in range(count)]


def _grid(drawing: Drawing, low: int, high: int, height: Scale) -> None:
    step = max(1, math.ceil((high - low) / 7))
    for decade in range(low, high + 1, step):
        y = height(10.0**decade)
        drawing.path([(LEFT, y), (WIDTH - MARGIN, y)], "grid")
        drawing.label(LEFT - 8, y + 7, "1" if decade == 0 else f"1e{decade}", kind="dim", anchor="end")


def _lines(drawing: Drawing, series: LayerSeries, places: list[float], height: Scale) -> None:
    """Tolerance, native and inherited as lines; a gap where a layer has none."""
    figures: tuple[tuple[str, list[float | None]], ...] = (
        ("tolerance", [layer.tolerance for layer in series.layers]),
        ("native", [layer.native for layer in series.layers]),
        ("inherited", [layer.inherited for layer in series.layers]),
    )
    half = (places[1] - places[0]) / 2 if len(places) > 1 else 60.0
    for kind, values in figures:
        for run in _runs(places, values):
            points = [(x, height(value)) for x, value in run]
            if len(points) == 1:  # a single point shows no line: it gets the width of its layer
                (x, y) = points[0]
                points = [(x - half, y), (x + half, y)]
            drawing.path(points, kind)


def _runs(places: list[float], values: list[float | None]) -> list[list[tuple[float, float]]]:
    found: list[list[tuple[float, float]]] = [[]]
    for x, value in zip(places, values, strict=True):
        if value is None:
            found.append([])
        else:
            found[-1].append((x, value))
    return [run for run in found if run]


def _dots(drawing: Drawing, series: LayerSeries, places: list[float], height: Scale, top: float) -> None:
    radius = max(3.0, min(8.0, 260.0 / max(len(places), 1)))
    for layer, x in zip(series.layers, places, strict=True):
        y = top if layer.own is None else height(layer.own)
        accused = layer.index in series.accused
        kind = "culprit" if layer.stands_out else "same" if layer.identical else "own"
        if accused:
            drawing.dot(x, y, radius + 5, "culprit", _said(layer, accused))
            anchor = "end" if x > WIDTH / 2 else "start"
            drawing.label(x + (-radius - 12 if anchor == "end" else radius + 12), y + 7, f"layer {layer.index}", kind="word",
                          anchor=anchor, weight="600")  # fmt: skip
        else:
            drawing.dot(x, y, radius, kind, _said(layer, accused))


def _said(layer: LayerFigures, accused: bool) -> str:
    def figure(value: float | None) -> str:
        return "not finite" if value is None else f"{value:.3g}"

    parts = [
        f"layer {layer.index}, {layer.module[:80]}{': culprit' if accused else ''}",
        f"own {figure(layer.own)}, native {figure(layer.native)}, tolerance {layer.tolerance:.3g}",
        f"on its own input {'not measured' if layer.inherited is None else figure(layer.inherited)}",
    ]
    if layer.stands_out:
        parts.append(layer.why)
    elif layer.inherits:
        parts.append("inherits an error from before")
    if layer.identical:
        parts.append("equal to the native reference bit for bit")
    if layer.tokens_excluded:
        parts.append(f"{layer.tokens_excluded} of {layer.tokens} tokens left out: routing undecided")
    return "; ".join(parts)


def _axis(drawing: Drawing, series: LayerSeries, places: list[float], bottom: float) -> None:
    every = max(1, math.ceil(len(places) / 10))
    for number, (layer, x) in enumerate(zip(series.layers, places, strict=True)):
        if number % every == 0:
            drawing.label(x, bottom + SMALL + 4, str(layer.index), kind="dim", anchor="middle")
    drawing.label((LEFT + WIDTH - MARGIN) / 2, bottom + SMALL * 2.2 + 2, "layer", kind="dim", anchor="middle")


def _legend(drawing: Drawing, series: LayerSeries) -> None:
    entries = [("own error", "--own"), (f"{series.native_dtype}'s own", "--native"), ("tolerance", "--tolerance")]
    if any(layer.inherited is not None for layer in series.layers):
        entries.append(("with what it inherits", "--inherited"))
    if any(layer.stands_out for layer in series.layers):
        entries.append(("stands out", "--culprit"))
    x = float(MARGIN)
    drawing.y += SMALL
    for said, fill in entries:
        x = drawing.legend(x, said, fill)
    drawing.y += SMALL * 0.6


def _below(drawing: Drawing, series: LayerSeries) -> None:
    said = f"Relative error against {series.reference_dtype}, {series.tokens:,} tokens; target: {series.target_path[:160]}"
    same = sum(layer.identical for layer in series.layers)
    if same:
        said += f"; {same} of {len(series.layers)} layers equal the native reference bit for bit"
    for line in wrapped(said, LINE):
        drawing.write(MARGIN, line, kind="dim")
