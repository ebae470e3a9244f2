"""Gaps in the order in which bridging them pays: cost to bridge, share of the work, models that it unlocks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dayzero.domain.operators import Bridging, CoverageKind, CoverageReport, Gap, OperatorCoverage
from dayzero.stages.coverage.judge import Judge

COSTS: Mapping[Bridging, float] = {
    Bridging.DECOMPOSITION: 1.0,
    Bridging.COMPILE: 2.0,
    Bridging.KERNEL: 8.0,
    Bridging.UNKNOWN: 16.0,
}
"""Effort to bridge, relative to a decomposition that torch has. Our estimate: a decomposition and a compiled operator are
generated and verified by a machine, a kernel is written by a person, and what has no known way must be found first."""

LEAST_SHARE = 1e-6
"""The share of an operator that computes and moves nothing: the model still stops at it."""

_GENERATED = frozenset({
    "abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "clamp", "cos", "div", "eq", "exp", "floor_divide", "ge", "gelu",
    "gt", "le", "log", "logical_and", "logical_not", "lt", "masked_fill", "maximum", "mean", "minimum", "mul", "ne", "neg",
    "pow", "reciprocal", "relu", "rsqrt", "rsub", "sigmoid", "silu", "sin", "softplus", "sqrt", "sub", "sum", "tanh", "where",
    "_softmax", "_log_softmax", "_to_copy", "amax", "amin", "arange", "cat", "clone", "copy", "embedding", "erf", "expm1",
    "fill", "full", "full_like", "gather", "index", "index_put", "isnan", "log1p", "log2", "ones_like", "prod", "remainder",
    "scalar_tensor", "scatter", "scatter_add", "tril", "triu", "var_mean", "zeros_like", "index_select", "constant_pad_nd",
    "clamp_min", "clamp_max", "exp2", "any", "all", "argmax", "cumsum", "sign", "round", "floor", "ceil",
})  # fmt: skip
"""Base names of operators that torch.compile's Inductor generates itself (its lowering table, torch 2.13)."""


def gaps_of(rows: Iterable[OperatorCoverage], judge: Judge) -> tuple[Gap, ...]:
    """Missing operators, one gap an operator, ranked; a composite is none where the parts that it lacks are gaps already."""
    merged: dict[str, list[OperatorCoverage]] = {}
    missing = [row for row in rows if row.kind is CoverageKind.MISSING]
    explained = {row.part_of for row in missing if row.part_of is not None}
    for row in missing:
        if row.operator not in explained:
            merged.setdefault(row.operator, []).append(row)
    return ranked([_gap(operator, members, judge) for operator, members in merged.items()], {})


def with_models(report: CoverageReport, models: Mapping[str, int]) -> CoverageReport:
    """The report with its gaps ranked anew by how many other models lack each operator on that platform."""
    return replace(report, gaps=ranked(report.gaps, models))


def ranked(gaps: Iterable[Gap], others: Mapping[str, int]) -> tuple[Gap, ...]:
    """The gaps, the highest score first: share of FLOPs and bytes × models unlocked / cost to bridge."""
    scored = []
    for gap in gaps:
        models = 1 + others.get(gap.operator, 0)
        scored.append(replace(gap, models=models, score=gap.share * models / gap.cost))
    return tuple(sorted(scored, key=lambda gap: (-gap.score, -gap.calls, gap.operator)))


def _gap(operator: str, rows: list[OperatorCoverage], judge: Judge) -> Gap:
    flops, moved = sum(row.flops_share for row in rows), sum(row.bytes_share for row in rows)
    bridging, bridge = _bridge(operator, judge)
    modules = sorted({module for row in rows for module in row.modules})
    composites = sorted({row.part_of for row in rows if row.part_of is not None})
    inside = f"; a kernel for {', '.join(composites)} would do without it there" if composites else ""
    return Gap(
        operator, rows[0].why + inside, bridge, flops, sum(row.count for row in rows), tuple(modules), moved, bridging,
        COSTS[bridging], max((flops + moved) / 2, LEAST_SHARE),
    )  # fmt: skip


def _bridge(name: str, judge: Judge) -> tuple[Bridging, str | None]:
    """The way to bridge a gap that asks least: parts, code generation, or an operator of one's own; else None."""
    parts = judge.made_of.get(name)
    if parts:
        return Bridging.DECOMPOSITION, f"decomposition into {', '.join(parts)}, once those are covered"
    words = name.split(".")
    if words[0] == "aten" and words[1].rstrip("_") in {word.rstrip("_") for word in _GENERATED}:
        return Bridging.COMPILE, "torch.compile (Inductor generates it where it has a backend for the platform)"
    if words[0] == "aten":
        return Bridging.KERNEL, "custom operator (entry-point group dayzero.operators)"
    return Bridging.UNKNOWN, None
