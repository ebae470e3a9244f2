"""The operator inventory of a model: kernels from its specification, graph operators from its trace, and what disagrees."""

from collections import Counter
from collections.abc import Iterable, Mapping

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.operators import OperatorInventory, Trace
from dayzero.stages.inventory.kernels import kernels_of
from dayzero.stages.inventory.taxonomy import Taxonomy
from dayzero.stages.inventory.witnesses import disagreements


def inventory_of(spec: ModelSpec, trace: Trace | None, taxonomy: Taxonomy) -> OperatorInventory:
    """Everything that the model needs, on both levels.

    Kernel names come from the taxonomy alone: a name that the specification uses and the taxonomy does not hold becomes a
    finding. Without a trace the graph level is empty and a finding says so.
    """
    findings: list[Finding] = []
    kernels = kernels_of(spec, taxonomy, findings)
    method = None if spec.quantization is None else spec.quantization.method
    if trace is None:
        findings.append(Finding("inventory.not_traced", "graph", "nothing was traced: the graph level is unknown"))
        return OperatorInventory(spec.architecture, kernels, (), None, tuple(findings), quantization=method)
    findings.extend(trace.findings)
    if spec.layers:
        findings.extend(disagreements(kernels, trace, taxonomy))
        findings.extend(_parameters_differ(spec, trace))
    return OperatorInventory(
        spec.architecture, kernels, trace.uses, trace.library, tuple(findings), trace.symbols, trace.collectives,
        trace.compiled, trace.tp, trace.decompositions, method,
    )  # fmt: skip


def _parameters_differ(spec: ModelSpec, trace: Trace) -> Iterable[Finding]:
    """Whether the library builds another number of language parameters than the specification counts, and of which parts.

    Neither is taken for the truth: the library may build what a checkpoint does not hold, or read a configuration otherwise.
    """
    built, stated = _parts(trace.parameters_by_component), _parts(spec.parameters.by_component)
    total, counted = sum(built.values()), spec.parameters.total_language
    if not total or not counted or total == counted:
        return
    names = tuple(
        f"{part}: built {built[part]}, stated {stated[part]}" for part in sorted(built | stated) if built[part] != stated[part]
    )
    message = f"{trace.library} builds {total} language parameters and the specification counts {counted} ({'; '.join(names)})"
    yield Finding(
        "inventory.parameters_differ", "parameters", message, Severity.WARNING, {"built": total, "stated": counted}, names
    )


_PARTS = {
    "embedding": "embeddings",
    "embeddings": "embeddings",
    "head": "head",
    "norm": "norms",
    "norms": "norms",
    "experts": "experts",
}
_OUTSIDE = ("towers", "multi_token_prediction", "buffers", "tied_head_copy")


def _parts(components: Mapping[str, int]) -> Counter[str]:
    """Parameters by the parts that both sources tell apart; all else is one part."""
    parts: Counter[str] = Counter()
    for component, count in components.items():
        if component not in _OUTSIDE:
            parts[_PARTS.get(component, "attention and feed-forward")] += count
    return parts
