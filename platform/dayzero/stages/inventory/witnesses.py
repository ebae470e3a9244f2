"""Kernels of the specification and operators of the trace held against each other, both ways, by the taxonomy's witnesses."""

from collections.abc import Iterable

from dayzero.domain.findings import Finding
from dayzero.domain.operators import KernelUse, Phase, Trace
from dayzero.stages.inventory.taxonomy import Taxonomy

_UNQUANTIZED = "trace.unquantized"
_QUANTIZED = ("gemm.fp", "gemm.int", "gemm.other_quantized", "quantize.", "moe.experts.grouped_gemm_quantized")
"""Kernels that a trace of unquantized weights cannot show."""


def disagreements(kernels: tuple[KernelUse, ...], trace: Trace, taxonomy: Taxonomy) -> Iterable[Finding]:
    """What only one of specification and trace shows.

    A predicted kernel with witnesses must show one of them in inference, whatever its implementation. A witness that stands in
    the trace, outside of every composite, must belong to a predicted kernel, as its witness or as something that it holds.
    """
    inference = [use for use in trace.uses if use.phase is not Phase.TRAIN]
    seen = {use.name for use in inference}
    predicted = {kernel.name for kernel in kernels}
    unquantized = any(finding.code == _UNQUANTIZED for finding in trace.findings)
    for name in sorted(predicted):
        operator = taxonomy.get(name)
        witnesses = set(operator.shown_by) if operator is not None else set()
        if unquantized and name.startswith(_QUANTIZED):
            continue
        if witnesses and not witnesses & seen:
            message = f"the specification predicts {name} and the trace shows none of {', '.join(sorted(witnesses))}"
            yield Finding("inventory.predicted_not_traced", name, message)
    shows: dict[str, set[str]] = {}
    explained: set[str] = set()
    for operator in taxonomy.operators:
        for witness in operator.shown_by:
            shows.setdefault(witness, set()).add(operator.name)
        if operator.name in predicted:
            explained |= {*operator.shown_by, *operator.holds}
    alone = {use.name for use in inference if use.part_of is None}
    for witness in sorted((alone & set(shows)) - explained):
        kinds = sorted(shows[witness])
        message = f"the trace shows {witness} and the specification predicts none of {', '.join(kinds)}"
        yield Finding("inventory.traced_not_predicted", _common(kinds), message)


def _common(names: list[str]) -> str:
    """What the names share: the whole name of one, the family of several of one, else the first family."""
    return names[0] if len(names) == 1 else names[0].split(".", 1)[0]
