"""What the first layers of a model need under some degrees: the memory model at a depth."""

from dataclasses import replace
from functools import lru_cache

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.ladder import Need
from dayzero.stages.layout import stage_layers
from dayzero.stages.layout_cut import UncuttableError
from dayzero.stages.layout_shares import weight_table
from dayzero.stages.memory import budgets_of


def need_of(spec: ModelSpec, index: CheckpointIndex | None, workload: Workload) -> Need:
    """The need of a model's first layers for this workload, of which each data-parallel rank serves its share.

    A rung serves one sequence a replica: it is there to be checked, not to serve.
    """
    table = weight_table(spec, index)
    one = replace(workload, concurrency=1)

    @lru_cache(maxsize=256)
    def by_layer(tp: int, ep: int, etp: int) -> tuple[tuple[int, ...], int, int] | None:
        """Bytes of each layer on its fullest rank, and beside them those of the first and of the last stage."""
        assert table is not None
        try:
            alone = table.stages(Degrees(tp=tp, ep=ep, etp=etp, dp=max(1, ep * etp // tp), pp=len(spec.layers)))
        except UncuttableError:
            return None
        first = sum(alone[0].items_bytes.get(name, 0) for name in ("embeddings", "towers"))
        last = sum(size for name, size in alone[-1].items_bytes.items() if name in ("head", "drafts"))
        sizes = [stage.most_bytes for stage in alone]
        sizes[0] -= first
        sizes[-1] -= last
        return tuple(sizes), first, last

    def need(degrees: Degrees, layers: int) -> int | None:
        known = by_layer(degrees.tp, degrees.ep, degrees.etp) if table is not None and spec.layers else None
        if known is None:
            return None
        sizes, first, last = known
        short = replace(spec, layers=spec.layers[:layers])
        bounds = stage_layers(layers, degrees.pp)
        a_stage = degrees.tp * degrees.dp * degrees.cp
        weights = []
        for stage, (start, stop) in enumerate(bounds):
            held = sum(sizes[start:stop]) + (first if stage == 0 else 0) + (last if stage == degrees.pp - 1 else 0)
            weights += [held] * a_stage
        budgets = budgets_of(short, degrees, tuple(weights), replace(one, concurrency=degrees.dp), None)
        return max(budget.total_bytes for budget in budgets)

    return need
