"""Verdicts on layers."""

from dayzero.domain.observations import CheckName, LayerErrors, PartError, PathReach
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict
from dayzero.stages.judging.naming import first_named
from dayzero.stages.judging.sources import taken_from
from dayzero.stages.precision import limits as precision


def layers_check(observed: LayerErrors, rung: str, evidence: tuple[str, ...] = ()) -> tuple[Check, tuple[Culprit, ...]]:
    """Every layer given the reference's input; a layer that is right then and wrong with its own input has inherited it.

    What stands outside of the layers is judged beside them: layers got the reference's tables and masks where
    the target's differ.
    """
    dtype = observed.native_dtype
    lines = [(layer, precision.layer_line(layer, dtype)) for layer in observed.layers]
    wrong = [(layer, line) for layer, line in lines if line.stands_out and not precision.too_few_tokens(layer)]
    guilty = {layer.index for layer, _line in wrong}
    inherited = [
        layer.index for layer in observed.layers if layer.index not in guilty and guilty and layer.index > min(guilty)
        and precision.inherits(layer, dtype)
    ]  # fmt: skip
    outside = outside_wrong(observed.parts, dtype)
    layer_culprits = tuple(_layer_culprit(observed, layer.index, line) for layer, line in wrong)
    accused = [
        *(accused_part(part, line) for part, line in outside),
        *(_accused(observed, culprit, line.why) for culprit, (_layer, line) in zip(layer_culprits, wrong, strict=True)),
    ]
    culprits = (*(part_culprit(part, line) for part, line in outside), *layer_culprits)
    verdict, reason = _layers_verdict(observed, accused, inherited)
    worst = max(
        (line for _layer, line in (wrong or lines)), default=None, key=lambda line: (line.measured or 0.0) / line.tolerance
    )
    errors = [layer.target.rms_relative for layer in observed.layers if layer.target.rms_relative is not None]
    check = Check(
        CheckLayer.PRECISION,
        CheckName.LAYERS_THREE_WAY.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=worst.measured if worst else None,
        tolerance=worst.tolerance if worst else None,
        unit="relative error of a layer's update",
        n=len(observed.layers),
        evidence=evidence,
        numbers={
            "tokens": observed.tokens,
            "tokens_excluded": sum(layer.tokens_excluded for layer in observed.layers),
            "largest_error": max(errors, default=None),
            "largest_value": max((layer.largest for layer in observed.layers if layer.largest is not None), default=None),
            "inherited": ", ".join(map(str, inherited)) or None,
            "parts_outside": len(observed.parts),
            "paths_not_reached": not_reached(observed.paths) or None,
            "native_dtype": dtype,
            "reference_dtype": observed.reference_dtype,
            "target_path": observed.target_path,
            "reference_path": observed.reference_path,
            **taken_from(observed.source, observed.baseline),
        },
    )
    return check, _overflow_culprits(observed) or culprits


def _layers_verdict(observed: LayerErrors, accused: list[str], inherited: list[int]) -> tuple[Verdict, str]:
    dtype = observed.native_dtype
    if not observed.layers:
        return Verdict.NOT_RUN, "no layer was run"
    overflowing = _overflow_culprits(observed)
    if overflowing:
        first = overflowing[0]
        return Verdict.FAIL, (
            f"layer {first.layer_index} overflows {dtype}: {first.error:.6g} is beyond {first.tolerance:.6g}, "
            "and nothing after it is a number; run this model in bfloat16"
        )
    if not accused and all(layer.identical for layer in observed.layers):
        return Verdict.NOT_RUN, "the target ran the reference's own path: equal bit for bit everywhere says nothing"
    doubtful = [layer.index for layer in observed.layers if precision.reference_doubtful(layer, dtype)]
    if doubtful:
        return Verdict.ERROR, f"the {dtype} reference itself is far from {observed.reference_dtype} at layer {doubtful[0]}"
    if accused:
        after = f"; layers {', '.join(map(str, inherited))} only inherit it" if inherited else ""
        return Verdict.FAIL, f"{first_named(accused)}{after}"
    few = [layer for layer in observed.layers if precision.too_few_tokens(layer)]
    if few:
        layer = few[0]
        return Verdict.ERROR, f"routing of {layer.tokens_excluded} of {layer.tokens} tokens is undecided at layer {layer.index}"
    passed = f"all {len(observed.layers)} layers are as close to {observed.reference_dtype} as {dtype} itself is"
    unseen = not_reached(observed.paths)
    return Verdict.PASS, passed + (f"; {observed.tokens} tokens do not reach what is {unseen}" if unseen else "")


def _overflow_culprits(observed: LayerErrors) -> tuple[Culprit, ...]:
    """The first layer whose output is beyond what the native dtype can hold, whoever computes it."""
    dtype = observed.native_dtype
    return tuple(
        Culprit(layer.index, layer.module, None, layer.largest or 0.0, precision.LARGEST[dtype])
        for layer in observed.layers
        if precision.overflows(layer, dtype)
    )[:1]


def outside_wrong(parts: tuple[PartError, ...], dtype: str) -> list[tuple[PartError, precision.Line]]:
    """Parts outside of the layers that stand out, with why."""
    lines = [(part, precision.part_line(part, dtype)) for part in parts]
    return [(part, line) for part, line in lines if line.stands_out]


def part_culprit(part: PartError, line: precision.Line) -> Culprit:
    """A part outside of the layers as a culprit: it has no layer."""
    return Culprit(None, part.module, None, _number(line.measured), line.tolerance)


def accused_part(part: PartError, line: precision.Line) -> str:
    """The sentence that names it, with the mistake that would explain it."""
    likely = f" (as if {part.suspected})" if part.suspected else ""
    return f"{part.part.value} of {part.module}: {line.why}{likely}"


def not_reached(paths: tuple[PathReach, ...]) -> str:
    """Paths that the prompt was too short for."""
    return ", ".join(f"{path.path} (from {path.needs_tokens} tokens)" for path in paths if not path.reached)


def _layer_culprit(observed: LayerErrors, index: int, line: precision.Line) -> Culprit:
    inner = precision.guilty_module(observed.suspects, index, observed.native_dtype)
    layer = next(layer for layer in observed.layers if layer.index == index)
    if inner is None:
        return Culprit(index, layer.module, None, _number(line.measured), line.tolerance)
    found = precision.module_line(inner, observed.native_dtype)
    return Culprit(index, inner.module, inner.operator, _number(found.measured), found.tolerance)


def _number(measured: float | None) -> float:
    """An error that is not a number counts as complete: 1.0, the whole of the value."""
    return 1.0 if measured is None else measured


def _accused(observed: LayerErrors, culprit: Culprit, why: str) -> str:
    inner = precision.guilty_module(observed.suspects, culprit.layer_index or 0, observed.native_dtype)
    where = f" ({culprit.operator})" if culprit.operator else ""
    if inner is None:
        how = "compiled" if observed.target_path.startswith("compiled") else "as a whole"
        where = f", which only stands out {how}"
    elif inner.suspected:
        where += f", as with {inner.suspected}"
    return f"layer {culprit.layer_index} is wrong at {culprit.module}{where}: {why}"
