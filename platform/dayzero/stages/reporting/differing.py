"""What two reports differ in: verdicts, figures, layers, packages, measurements."""

from collections.abc import Mapping

from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.entry_report import (
    CheckChange,
    LayerFigures,
    LayerMove,
    MeasurementPair,
    PackageChange,
    Report,
    ReportDiff,
    Side,
)
from dayzero.domain.verdict import SEVERITY, Check, Measurement

MOVED = 1.5
"""Factor between two errors of a layer from which on it counts as moved."""


def diff_of(a: Report, b: Report) -> ReportDiff:
    """What changed from the first report to the second."""
    moves, compared = _layers(a, b)
    return ReportDiff(
        a=_side(a),
        b=_side(b),
        checks=_checks(a.entry, b.entry),
        layers=moves,
        layers_compared=compared,
        packages=_packages(a.stack, b.stack),
        measurements=_measurements(a.entry, b.entry),
        notes=_notes(a, b),
    )


def _side(report: Report) -> Side:
    entry, key = report.entry, report.entry.key
    return Side(
        name=f"{key.model} on {key.platform}",
        entry_id=report.entry_id,
        model=key.model,
        platform=key.platform,
        plan=str(key.plan),
        dtype=key.dtype,
        method=entry.method,
        stack_fingerprint=key.stack_fingerprint,
        columns={
            "lifecycle": entry.lifecycle.value,
            "correctness": entry.correctness.value,
            "performance": entry.performance.value,
            "freshness": entry.freshness.value,
        },
        recorded_at=report.recorded_at,
    )


def _checks(a: CompatibilityEntry, b: CompatibilityEntry) -> tuple[CheckChange, ...]:
    """Every check of either, those whose verdict changed first, the worst of them before the others."""
    before = {(one.layer, one.check, one.rung): one for one in a.checks}
    after = {(one.layer, one.check, one.rung): one for one in b.checks}
    rows = [_change(before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]

    def rank(row: CheckChange) -> tuple[bool, int]:
        return not row.changed, SEVERITY.index(row.after) if row.after and row.changed else 0

    return tuple(sorted(rows, key=rank))


def _change(before: Check | None, after: Check | None) -> CheckChange:
    one = after or before
    assert one is not None, "a key comes from one of the two sides"
    first, second = before.measured if before else None, after.measured if after else None
    return CheckChange(
        one.layer,
        one.check,
        one.rung,
        before.verdict if before else None,
        after.verdict if after else None,
        first,
        second,
        before.tolerance if before else None,
        after.tolerance if after else None,
        ratio(first, second),
        after.reason if after else "",
    )


def ratio(before: float | None, after: float | None) -> float | None:
    """The second over the first; None where one is not known or the first is zero."""
    return None if before is None or after is None or before == 0 else after / before


def _layers(a: Report, b: Report) -> tuple[tuple[LayerMove, ...], int]:
    """Layers that moved, and how many were compared."""
    before = {(series.check, layer.index): layer for series in a.layers for layer in series.layers}
    after = {(series.check, layer.index): layer for series in b.layers for layer in series.layers}
    both = [key for key in after if key in before]
    moves = [_move(check, before[check, index], after[check, index]) for check, index in both]
    return tuple(one for one in moves if one is not None), len(both)


def _move(check: str, before: LayerFigures, after: LayerFigures) -> LayerMove | None:
    found = ratio(before.own, after.own)
    # An error that is not finite on one side, or was none at all, has no ratio and yet moved.
    moved = before.own != after.own if found is None else found == 0 or not 1 / MOVED <= found <= MOVED
    if not moved and before.stands_out == after.stands_out:
        return None
    return LayerMove(
        check, after.index, after.module, before.own, after.own, before.native, after.native, found,
        before.stands_out, after.stands_out,
    )  # fmt: skip


def _packages(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[PackageChange, ...]:
    return tuple(PackageChange(name, a.get(name), b.get(name)) for name in sorted({*a, *b}) if a.get(name) != b.get(name))


def _measurements(a: CompatibilityEntry, b: CompatibilityEntry) -> tuple[MeasurementPair, ...]:
    before = {_conditions(one): one for one in a.measurements}
    after = {_conditions(one): one for one in b.measurements}
    return tuple(_pair(key, before.get(key), after.get(key)) for key in sorted({*before, *after}))


def _pair(key: tuple[str, str, str], first: Measurement | None, second: Measurement | None) -> MeasurementPair:
    name, unit, conditions = key
    both = ratio(first.value if first else None, second.value if second else None)
    return MeasurementPair(name, unit, conditions, first, second, both)


def _conditions(one: Measurement) -> tuple[str, str, str]:
    """What makes two measurements comparable: name, unit and conditions, figures that were themselves measured left out."""
    told = {name: value for name, value in one.conditions.items() if not name.endswith(("_95", "_bytes"))}
    return one.name, one.unit, ", ".join(f"{name} {value}" for name, value in sorted(told.items()))


def _notes(a: Report, b: Report) -> tuple[str, ...]:
    """What makes the two hard to compare."""
    first, second = a.entry.key, b.entry.key
    pairs = (
        ("models", first.model, second.model),
        ("contents", first.content_id[:12], second.content_id[:12]),
        ("platforms", first.platform, second.platform),
        ("plans", str(first.plan), str(second.plan)),
        ("dtypes", first.dtype, second.dtype),
        ("methods", a.entry.method, b.entry.method),
    )
    notes = [f"the {what} differ: {one} and {other}" for what, one, other in pairs if one != other]
    if first.stack_fingerprint != second.stack_fingerprint and not (a.stack and b.stack):
        notes.append("the stacks differ, and the packages of one of them are not recorded")
    for name, report in (("first", a), ("second", b)):
        if not report.layers:
            notes.append(f"the {name} has no layer-by-layer evidence")
    return tuple(notes)
