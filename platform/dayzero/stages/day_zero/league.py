"""The league table of platforms, from the day-0 clocks of their models."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

TARGET_S = 24 * 3600.0
"""The target where nobody sets another: a day."""

Row = Mapping[str, object]


def league(clocks: Iterable[Row], target_s: float = TARGET_S) -> tuple[dict[str, object], ...]:
    """One row a platform with the columns LEAGUE_COLUMNS, the best first.

    Models whose weights were never seen live do not count. One that is not verified yet is waiting, and late once it has waited
    longer than the target. Platforms go by the share of their models that met the target, then by the median, then by name.
    """
    by_platform: dict[str, list[Row]] = {}
    for row in clocks:
        if row["weights_live_at"] is not None:
            by_platform.setdefault(str(row["platform"]), []).append(row)
    rows = [_line(platform, found, target_s) for platform, found in by_platform.items()]
    return tuple(sorted(rows, key=_order))


def _line(platform: str, clocks: Sequence[Row], target_s: float) -> dict[str, object]:
    took = sorted(seconds for row in clocks if (seconds := _number(row["time_to_verified_s"])) is not None)
    waited = [_number(row["waiting_s"]) or 0.0 for row in clocks if row["verified_at"] is None]
    steps = Counter(str(row["longest_step"]) for row in clocks if row["longest_step"] is not None)
    return {
        "platform": platform,
        "models": len(clocks),
        "verified": sum(row["verified_at"] is not None for row in clocks),
        "within_target": sum(seconds <= target_s for seconds in took),
        "waiting": len(waited),
        "late": sum(seconds > target_s for seconds in (*took, *waited)),
        "median_s": quantile(took, 0.5),
        "p90_s": quantile(took, 0.9),
        "most_time_in": min(steps, key=lambda name: (-steps[name], name)) if steps else None,
    }


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The quantile of sorted values, between neighbours by proportion (as percentile_cont of SQL); None of none."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _order(row: Row) -> tuple[float, float, str]:
    met, models = _number(row["within_target"]) or 0.0, _number(row["models"]) or 1.0
    median = _number(row["median_s"])
    return -met / models, math.inf if median is None else median, str(row["platform"])


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
