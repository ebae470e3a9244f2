"""Coverage: which operators of an inventory a platform's manifest covers, how, and what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dayzero.domain.canonical import digest
from dayzero.domain.findings import Finding
from dayzero.domain.operators import (
    CoverageKind,
    CoverageReport,
    Gap,
    GraphUse,
    OperatorCoverage,
    OperatorInventory,
    OperatorManifest,
    OperatorSupport,
    SupportKind,
)
from dayzero.domain.verdict import Grade

_GRADES = (Grade.PREDICTED, Grade.DECLARED, Grade.MEASURED)
_GENERATED = frozenset({
    "abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "clamp", "cos", "div", "eq", "exp", "floor_divide", "ge", "gelu",
    "gt", "le", "log", "logical_and", "logical_not", "lt", "masked_fill", "maximum", "mean", "minimum", "mul", "ne", "neg",
    "pow", "reciprocal", "relu", "rsqrt", "rsub", "sigmoid", "silu", "sin", "softplus", "sqrt", "sub", "sum", "tanh", "where",
    "_softmax",
})  # fmt: skip
"""Base names of point-wise and reducing operators, which torch.compile's Inductor generates itself (its lowering table)."""


def with_exclusions(manifest: OperatorManifest, exclusions: Mapping[str, str]) -> OperatorManifest:
    """The manifest with further operators that are known not to work, each with its reason."""
    return replace(manifest, excluded={**manifest.excluded, **exclusions})


@dataclass(frozen=True, slots=True)
class _Answer:
    kind: CoverageKind
    grade: Grade
    why: str


class _Judge:
    """One manifest, indexed, with what a platform's plugins add."""

    def __init__(self, manifest: OperatorManifest, custom: Mapping[str, str]) -> None:
        self.manifest = manifest
        self.custom = custom
        self.offered = {support.name: support for support in manifest.operators}
        self.made_of = {rule.name: rule.into for rule in manifest.decompositions}

    def judge(self, name: str, dtypes: frozenset[str], use: GraphUse | None, above: frozenset[str] = frozenset()) -> _Answer:
        """How one operator is covered; `above` holds the operators that are being decomposed already."""
        if name in self.custom:
            return _Answer(CoverageKind.CUSTOM, Grade.DECLARED, f"custom operator: {self.custom[name]}")
        refusal = self._refusal(name, dtypes, use)
        support = self.offered.get(name)
        if refusal is not None or support is None:
            return self._decomposed(name, refusal or f"not in the manifest of {self._provider}", above)
        if support.kind is SupportKind.NATIVE:
            return _Answer(CoverageKind.NATIVE, support.grade, f"{self._provider} has a kernel for it")
        if support.kind is SupportKind.FALLBACK:
            return _Answer(CoverageKind.FALLBACK, support.grade, f"{self._provider} runs it on another device or slower path")
        return self._composite(support, above)

    @property
    def _provider(self) -> str:
        return f"{self.manifest.provider} {self.manifest.version}"

    def _refusal(self, name: str, dtypes: frozenset[str], use: GraphUse | None) -> str | None:
        if name in self.manifest.excluded:
            return f"excluded on {self.manifest.platform}: {self.manifest.excluded[name]}"
        support = self.offered.get(name)
        if support is None:
            return None
        unfit = sorted(dtypes - set(support.dtypes)) if support.dtypes else []
        if unfit:
            return f"{self._provider} does not offer it for {', '.join(unfit)} (it does for {', '.join(support.dtypes)})"
        if use is not None and support.phases and use.phase not in support.phases:
            return f"{self._provider} does not offer it in {use.phase.value}"
        return None

    def _composite(self, support: OperatorSupport, above: frozenset[str]) -> _Answer:
        """An operator that its provider makes of others: covered as they are, where they are known."""
        parts = self.made_of.get(support.name)
        if support.name in above:
            return _Answer(CoverageKind.MISSING, support.grade, f"{self._provider} makes it of itself, in a circle")
        if not parts:
            why = f"{self._provider} makes it of other operators, which it does not name"
            return _Answer(CoverageKind.DECOMPOSED, support.grade, why)
        return self._of_parts(support.name, parts, f"{self._provider} makes it of other operators", support.grade, above)

    def _decomposed(self, name: str, refusal: str, above: frozenset[str]) -> _Answer:
        parts = self.made_of.get(name)
        if not parts or name in above:
            return _Answer(CoverageKind.MISSING, Grade.DECLARED, refusal)
        return self._of_parts(name, parts, refusal, Grade.DECLARED, above)

    def _of_parts(self, name: str, parts: tuple[str, ...], reason: str, grade: Grade, above: frozenset[str]) -> _Answer:
        judged = {part: self.judge(part, frozenset(), None, above | {name}) for part in parts}
        lost = sorted(part for part, answer in judged.items() if answer.kind is CoverageKind.MISSING)
        if lost:
            why = f"{reason}; it can be made of {', '.join(parts)}, of which {', '.join(lost)} is missing too"
            return _Answer(CoverageKind.MISSING, grade, why)
        lowest = min((grade, *(answer.grade for answer in judged.values())), key=_GRADES.index)
        return _Answer(CoverageKind.DECOMPOSED, lowest, f"{reason}; made of {', '.join(parts)}")


def cover(
    inventory: OperatorInventory, manifest: OperatorManifest, *, custom: Mapping[str, str] | None = None
) -> CoverageReport:
    """How the manifest covers the inventory. `custom` maps operators that plugins bring for the platform to what they are.

    An operator that is missing or excluded counts as decomposed only when a declared decomposition leads, however deep, to
    parts that are all covered. Every other one is a gap. Kernel-level names are judged only where the manifest has kernels.
    """
    judge = _Judge(manifest, custom or {})
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[GraphUse, _Answer]]] = {}
    for use in inventory.graph:
        groups.setdefault((use.name, use.dtypes), []).append((use, judge.judge(use.name, frozenset(use.dtypes), use)))
    total = sum(use.flops or 0 for use in inventory.graph)
    rows = [_row(name, dtypes, members, total) for (name, dtypes), members in sorted(groups.items())]
    rows.extend(_kernel_rows(inventory, judge))
    answers = [answer for members in groups.values() for _, answer in members]
    covered = sum(answer.kind is not CoverageKind.MISSING for answer in answers) / len(answers) if answers else None
    findings = () if answers else (Finding("coverage.unknown", "graph", "nothing was traced: graph coverage is unknown"),)
    grade = min((row.grade for row in rows), key=_GRADES.index, default=Grade.PREDICTED)
    return CoverageReport(manifest.platform, digest(manifest), grade, tuple(rows), _gaps(rows, judge), covered, findings)


def _row(name: str, dtypes: tuple[str, ...], members: list[tuple[GraphUse, _Answer]], total: int) -> OperatorCoverage:
    """One operator in one combination of dtypes; where its uses differ, the worst counts."""
    answer = max((answer for _, answer in members), key=lambda answer: answer.kind is CoverageKind.MISSING)
    modules = sorted({module for use, _ in members for module in use.modules})
    flops = sum(use.flops or 0 for use, _ in members)
    calls = sum(use.count for use, _ in members)
    return OperatorCoverage(
        name, dtypes, answer.kind, answer.grade, answer.why, calls, tuple(modules), flops / total if total else 0.0
    )


def _kernel_rows(inventory: OperatorInventory, judge: _Judge) -> list[OperatorCoverage]:
    manifest = judge.manifest
    spoken = set(judge.offered) | set(manifest.excluded) | set(judge.custom)
    families = {name.split(".", 1)[0] for name in judge.offered if not name.startswith("aten.")}
    layers: dict[str, int] = {}
    for kernel in inventory.kernels:
        layers[kernel.name] = layers.get(kernel.name, 0) + kernel.layers
    rows = []
    for name, count in sorted(layers.items()):
        if name in spoken or name.split(".", 1)[0] in families:
            answer = judge.judge(name, frozenset(), None)
            rows.append(OperatorCoverage(name, (), answer.kind, answer.grade, answer.why, count, (), 0.0))
    return rows


def _gaps(rows: list[OperatorCoverage], judge: _Judge) -> tuple[Gap, ...]:
    """Missing operators, the largest share of FLOPs first, then the most calls; one gap an operator."""
    merged: dict[str, Gap] = {}
    for row in rows:
        if row.kind is not CoverageKind.MISSING:
            continue
        known = merged.get(row.operator)
        share, calls, modules = row.flops_share, row.count, set(row.modules)
        if known is not None:
            share, calls, modules = share + known.flops_share, calls + known.calls, modules | set(known.modules)
        merged[row.operator] = Gap(row.operator, row.why, _bridge(row.operator, judge), share, calls, tuple(sorted(modules)))
    return tuple(sorted(merged.values(), key=lambda gap: (-gap.flops_share, -gap.calls, gap.operator)))


def _bridge(name: str, judge: _Judge) -> str | None:
    """The way to bridge a gap that asks least: parts, code generation, or an operator of one's own; else None."""
    parts = judge.made_of.get(name)
    if parts:
        return f"decomposition into {', '.join(parts)}, once those are covered"
    words = name.split(".")
    if words[0] == "aten" and words[1] in _GENERATED:
        return "torch.compile (Inductor generates it where it has a backend for the platform)"
    if words[0] == "aten":
        return "custom operator (entry-point group dayzero.operators)"
    return None
