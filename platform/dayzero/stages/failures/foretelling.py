"""Known failures that a model will meet, and what it would unlock to bridge a gap."""

from collections import Counter
from collections.abc import Iterable, Sequence

from dayzero.domain.failures import FailureKind, Foretold, KnownFailure, RankedGap
from dayzero.domain.operators import OperatorInventory
from dayzero.stages.failures.signature import shape_class_of


def foretold(needed: OperatorInventory, known: Iterable[KnownFailure], stack_fingerprint: str | None) -> tuple[Foretold, ...]:
    """Those whose operator the model uses, in a dtype and a class of shapes that failed where these are known.

    What no model meets any more is foretold by nothing. Those of the same stack come first, then those of the most models.
    """
    found = []
    for failure in known:
        uses = _uses(needed, failure)
        if uses and failure.models:
            found.append(Foretold(failure, uses, stack_fingerprint in failure.stacks))
    return tuple(
        sorted(found, key=lambda one: (not one.same_stack, -len(one.failure.models), one.failure.operator or "", one.uses))
    )


def _uses(needed: OperatorInventory, failure: KnownFailure) -> int:
    if failure.operator is None:
        return 0
    shapes = shape_class_of(failure.shape_class)
    graph = sum(
        use.count
        for use in needed.graph
        if use.name == failure.operator
        and (not failure.dtypes or set(failure.dtypes) & set(use.dtypes))
        and (not shapes or shapes == shape_class_of(use.shape_class))
    )
    return graph + sum(use.layers for use in needed.kernels if use.name == failure.operator)


def sentence(one: Foretold) -> str:
    """A known failure in words: what, where it was seen, why, and what to do."""
    failure = one.failure
    hit = f"{len(failure.models)} models" if len(failure.models) > 1 else failure.models[0]
    said = f"known failure ({failure.signature[:8]}, predicted): {failure.operator}: {failure.symptom}; hit {hit}"
    said += "" if one.same_stack else " on another stack"
    for name, words in (("cause", failure.cause), ("workaround", failure.workaround), ("owner", failure.owner)):
        said += f"; {name}: {words}" if words else ""
    return said + (f"; {failure.ticket}" if failure.ticket else "")


def ranked_gaps(known: Sequence[KnownFailure]) -> tuple[RankedGap, ...]:
    """Operators that platforms lack, the most worthwhile first: by models that lack nothing else there, then by models."""
    gaps = [one for one in known if one.kind is FailureKind.MISSING and one.operator and one.models]
    lacks = Counter((gap.platform, model) for gap in gaps for model in gap.models)
    ranked = [
        RankedGap(gap.operator or "", gap.models, tuple(one for one in gap.models if lacks[gap.platform, one] == 1), gap)
        for gap in gaps
    ]
    order = sorted(ranked, key=lambda one: (-len(one.unlocked), -len(one.models), one.operator, one.failure.platform))
    return tuple(order)
