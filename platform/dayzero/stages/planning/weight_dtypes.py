"""Weights in another dtype than the checkpoint's: the structure that a conversion would leave, and which of several plans best.

A conversion quantizes linear layers and leaves embeddings, head, routers and norms alone. Scales are counted as a checkpoint of
that scheme stores them: a float32 for each 128 × 128 block (fp8; DeepSeek-V3's format), sixteen bits for each 128 inputs of a
row (int4; compressed-tensors, pack-quantized).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dayzero.domain.architecture import ModelSpec, Quantization, QuantizationGroup
from dayzero.domain.findings import Finding
from dayzero.domain.plan import ParallelPlan, PlanReport
from dayzero.domain.planning import Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError
from dayzero.stages.planning.choices import why_not

_HEAD = ("lm_head",)
_WHOLE = ("bfloat16", "float16")
_CONVERTED = {
    "fp8": Quantization("fp8", 8, (128, 128), _HEAD, (QuantizationGroup("fp8_block", 8, None, 32),), source="asked for"),
    "int4": Quantization(
        "compressed-tensors", 4, None, _HEAD, (QuantizationGroup("int4_group", 4, 128, 16),), source="asked for"
    ),
}
WEIGHT_DTYPES = (*_WHOLE, *_CONVERTED)
_SCHEMES = {"fp8": "fp8_block", "int4": "int4_group"}
_HOW = {
    "bfloat16": "convert them first: dayzero convert MODEL --to bfloat16",
    "fp8": "convert them first: dayzero convert MODEL --to fp8-block",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A model with weights in one dtype (None: the checkpoint's own); `index` is None where no headers of such are known."""

    dtype: str | None
    spec: ModelSpec
    index: CheckpointIndex | None


def stored_as(spec: ModelSpec, index: CheckpointIndex | None, dtype: str | None) -> Stored:
    """The model with weights in that dtype, or as it is where they are in it already or None is asked for.

    BadInputError: no dtype that weights are planned in.
    """
    if dtype is None or dtype == dtype_of(spec):
        return Stored(None, spec, index)
    if dtype in _WHOLE:
        return Stored(dtype, replace(spec, quantization=None, native_dtype=dtype), None)
    if dtype not in _CONVERTED:
        raise BadInputError(f"weights are not planned in {dtype}.", remedy=f"Take one of {', '.join(WEIGHT_DTYPES)}.")
    return Stored(dtype, replace(spec, quantization=_CONVERTED[dtype]), None)


def dtype_of(spec: ModelSpec) -> str | None:
    """The name of the checkpoint's own dtype: of its quantized layers where it has some."""
    if spec.quantization is None:
        return spec.native_dtype
    schemes = {group.scheme for group in spec.quantization.groups}
    return next((name for name, scheme in _SCHEMES.items() if schemes == {scheme}), None)


def choices_of(
    spec: ModelSpec, index: CheckpointIndex | None, profile: PlatformProfile, workload: Workload
) -> tuple[tuple[Stored, ...], tuple[Finding, ...]]:
    """The model in each dtype that the workload allows and the platform takes, and what the platform does not take.

    BadInputError: a dtype that weights are not planned in, or none that the platform takes.
    """
    asked = [stored_as(spec, index, dtype) for dtype in dict.fromkeys(workload.weight_dtypes)] or [Stored(None, spec, index)]
    findings = tuple(
        Finding("plan.weight_dtype", one.dtype, why) for one in asked if one.dtype and (why := _untaken(one, profile))
    )
    taken = tuple(one for one in asked if one.dtype is None or _untaken(one, profile) is None)
    if not taken:
        raise BadInputError("; ".join(finding.message for finding in findings) + ".", remedy="Allow another --weight-dtype.")
    return taken, findings


def _untaken(one: Stored, profile: PlatformProfile) -> str | None:
    why = why_not(one.dtype, profile) if one.dtype == "fp8" else None
    return None if why is None else f"{profile.slug} takes no fp8 weights: {why}"


def chosen(reports: Sequence[tuple[Stored, PlanReport]], workload: Workload) -> PlanReport:
    """The report whose plan is best by the workload's objective (of equal ones the first; where nothing fits, the nearest), its
    plan marked with the dtype and what it takes to get there, with a finding for every other dtype."""
    best, report = _best(reports, workload)
    others = tuple(_other(one, other) for one, other in reports if one is not best)
    plan = report.plan
    if plan is not None and best.dtype is not None:
        warnings = (*plan.warnings, conversion(best.dtype))
        plan = replace(plan, choices=replace(plan.choices, weight_dtype=best.dtype), warnings=warnings)
    return replace(report, plan=plan, findings=(*report.findings, *others))


def _best(reports: Sequence[tuple[Stored, PlanReport]], workload: Workload) -> tuple[Stored, PlanReport]:
    planned = [(one, report) for one, report in reports if report.plan is not None]
    if planned:
        return min(planned, key=lambda pair: _order(pair[1].plan, workload))
    return min(reports, key=lambda pair: _distance(pair[1]))


def conversion(dtype: str) -> str:
    """What a plan with weights in another dtype than the checkpoint's asks for first."""
    how = _HOW.get(dtype, "a quantization tool makes them")
    return f"the checkpoint's weights are not {dtype}; {how}"


def _order(plan: ParallelPlan | None, workload: Workload) -> tuple[float, ...]:
    assert plan is not None
    rate, ttft, tpot = plan.estimates.throughput_tokens_per_s, plan.estimates.ttft_s, plan.estimates.tpot_s
    speed = -rate.mid if rate is not None else 0.0
    if workload.objective is Objective.LATENCY and ttft is not None and tpot is not None:
        speed = ttft.mid + tpot.mid * workload.generated_tokens
    if workload.objective is Objective.FEWEST_DEVICES:
        return plan.degrees.world, speed
    if workload.objective in (Objective.WIDEST, Objective.LONGEST_CONTEXT):
        return max(budget.total_bytes for budget in plan.memory), speed
    return speed, plan.degrees.world


def _distance(report: PlanReport) -> float:
    return float("inf") if report.nearest is None else report.nearest.short_bytes


def _other(one: Stored, report: PlanReport) -> Finding:
    name = one.dtype or dtype_of(one.spec) or "the checkpoint's dtype"
    return Finding("plan.other_weight_dtype", name, f"weights in {name}: {'; '.join(_said(report))}")


def _said(report: PlanReport) -> Iterator[str]:
    if report.plan is None:
        yield "nothing fits" if report.nearest is None else f"nothing fits, short by {report.nearest.short_bytes:,} bytes"
        return
    estimates = report.plan.estimates
    yield f"{report.plan.degrees} on {report.plan.degrees.world} devices"
    if estimates.throughput_tokens_per_s is not None:
        yield f"{estimates.throughput_tokens_per_s.mid:,.0f} tokens/s"
    if estimates.tpot_s is not None:
        yield f"{1e3 * estimates.tpot_s.mid:.1f} ms a token"
