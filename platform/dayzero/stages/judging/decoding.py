"""Verdict on cached decoding: the layers behind a prompt, and the tables and masks that they get there."""

from dayzero.domain.observations import CheckName
from dayzero.domain.observed_decoding import DecodeErrors, DecodeLayerError
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict
from dayzero.stages.judging.naming import first_named
from dayzero.stages.judging.parts import accused_part, not_reached, outside_wrong, part_culprit
from dayzero.stages.precision import limits as precision


def decoding_check(observed: DecodeErrors, rung: str, evidence: tuple[str, ...] = ()) -> tuple[Check, tuple[Culprit, ...]]:
    """Every layer at positions above zero with a cache, no further off than the native dtype's own cached decoding."""
    dtype = observed.native_dtype
    lines = [(layer, precision.decode_line(layer, dtype)) for layer in observed.layers]
    wrong = [(layer, line) for layer, line in lines if line.stands_out and not precision.too_few_tokens(layer)]
    outside = outside_wrong(observed.parts, dtype)
    layer_culprits = tuple(_culprit(observed, layer, line) for layer, line in wrong)
    accused = [
        *(accused_part(part, line) for part, line in outside),
        *(
            f"layer {layer.index} decodes wrongly at {culprit.module}: {line.why}"
            for culprit, (layer, line) in zip(layer_culprits, wrong, strict=True)
        ),
    ]
    verdict, reason = _verdict(observed, accused)
    worst = max((line for _, line in wrong or lines), default=None, key=lambda line: (line.measured or 0.0) / line.tolerance)
    check = Check(
        CheckLayer.PRECISION,
        CheckName.DECODING_THREE_WAY.value,
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
            "prompt_tokens": observed.prompt_tokens,
            "chunk_tokens": observed.chunk_tokens,
            "steps": observed.steps,
            "chunk_not_judged": observed.chunk_not_judged,
            "tokens_excluded": sum(layer.tokens_excluded for layer in observed.layers),
            "paths_not_reached": not_reached(observed.paths) or None,
            "native_dtype": dtype,
            "reference_dtype": observed.reference_dtype,
            "target_path": observed.target_path,
            "reference_path": observed.reference_path,
        },
    )
    return check, (*(part_culprit(part, line) for part, line in outside), *layer_culprits)


def _verdict(observed: DecodeErrors, accused: list[str]) -> tuple[Verdict, str]:
    dtype = observed.native_dtype
    if not observed.layers:
        return Verdict.NOT_RUN, observed.not_run_because or "no layer was run"
    if not accused and all(layer.identical for layer in observed.layers):
        return Verdict.NOT_RUN, "the target ran the reference's own path: equal bit for bit everywhere says nothing"
    doubtful = [layer.index for layer in observed.layers if precision.decoding_doubtful(layer, dtype)]
    if doubtful:
        return Verdict.ERROR, f"cached decoding in {dtype} is itself far from {observed.reference_dtype} at layer {doubtful[0]}"
    if accused:
        return Verdict.FAIL, first_named(accused)
    few = [layer for layer in observed.layers if precision.too_few_tokens(layer)]
    if few:
        layer = few[0]
        return Verdict.ERROR, f"routing of {layer.tokens_excluded} of {layer.tokens} tokens is undecided at layer {layer.index}"
    behind = observed.chunk_tokens + observed.steps
    passed = (
        f"all {len(observed.layers)} layers decode {behind} tokens behind {observed.prompt_tokens} as closely as {dtype} itself"
    )
    if observed.chunk_not_judged is None:
        return Verdict.PASS, passed
    return Verdict.PASS, f"{passed}, one by one; several at once behind a cache are not judged: {observed.chunk_not_judged}"


def _culprit(observed: DecodeErrors, layer: DecodeLayerError, line: precision.Line) -> Culprit:
    inner = precision.guilty_module(observed.suspects, layer.index, observed.native_dtype)
    measured = 1.0 if line.measured is None else line.measured
    if inner is None:
        return Culprit(layer.index, layer.module, None, measured, line.tolerance)
    found = precision.module_line(inner, observed.native_dtype)
    return Culprit(
        layer.index, inner.module, inner.operator, 1.0 if found.measured is None else found.measured, found.tolerance
    )
