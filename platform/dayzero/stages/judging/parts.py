"""Verdicts on layers."""

from dayzero.domain.observations import CheckName, LayerErrors
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict
from dayzero.stages.judging.naming import first_named
from dayzero.stages.judging.sources import taken_from
from dayzero.stages.precision import limits as precision


def layers_check(observed: LayerErrors, rung: str, evidence: tuple[str, ...] = ()) -> tuple[Check, tuple[Culprit, ...]]:
    """Every layer given the reference's input; a layer that is right then and wrong with its own input has inherited it."""
    dtype = observed.native_dtype
    lines = [(layer, precision.layer_line(layer, dtype)) for layer in observed.layers]
    wrong = [(layer, line) for layer, line in lines if line.stands_out and not precision.too_few_tokens(layer)]
    guilty = {layer.index for layer, _line in wrong}
    inherited = [
        layer.index for layer in observed.layers if layer.index not in guilty and guilty and layer.index > min(guilty)
        and precision.inherits(layer, dtype)
    ]  # fmt: skip
    culprits = tuple(_layer_culprit(observed, layer.index, line) for layer, line in wrong)
    verdict, reason = _layers_verdict(observed, culprits, [line.why for _layer, line in wrong], inherited)
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
            "inherited": ", ".join(map(str, inherited)) or None,
            "native_dtype": dtype,
            "reference_dtype": observed.reference_dtype,
            "target_path": observed.target_path,
            "reference_path": observed.reference_path,
            **taken_from(observed.source, observed.baseline),
        },
    )
    return check, culprits


def _layers_verdict(
    observed: LayerErrors, culprits: tuple[Culprit, ...], whys: list[str], inherited: list[int]
) -> tuple[Verdict, str]:
    dtype = observed.native_dtype
    if not observed.layers:
        return Verdict.NOT_RUN, "no layer was run"
    if all(layer.identical for layer in observed.layers):
        return Verdict.NOT_RUN, "the target ran the reference's own path: equal bit for bit everywhere says nothing"
    doubtful = [layer.index for layer in observed.layers if precision.reference_doubtful(layer, dtype)]
    if doubtful:
        return Verdict.ERROR, f"the {dtype} reference itself is far from {observed.reference_dtype} at layer {doubtful[0]}"
    if culprits:
        named = first_named([_accused(culprit, why) for culprit, why in zip(culprits, whys, strict=True)])
        after = f"; layers {', '.join(map(str, inherited))} only inherit it" if inherited else ""
        return Verdict.FAIL, f"{named}{after}"
    few = [layer for layer in observed.layers if precision.too_few_tokens(layer)]
    if few:
        layer = few[0]
        return Verdict.ERROR, f"routing of {layer.tokens_excluded} of {layer.tokens} tokens is undecided at layer {layer.index}"
    return Verdict.PASS, f"all {len(observed.layers)} layers are as close to {observed.reference_dtype} as {dtype} itself is"


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


def _accused(culprit: Culprit, why: str) -> str:
    operator = (
        f" ({culprit.operator})" if culprit.operator else ", which only stands out compiled" if not culprit.operator else ""
    )
    return f"layer {culprit.layer_index} is wrong at {culprit.module}{operator}: {why}"
