"""What the first layers of a model need under some degrees: the memory model at a depth."""

from dataclasses import dataclass, replace
from functools import lru_cache

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.layout.laying import stage_layers
from dayzero.stages.layout.shares import StageWeights, weight_table
from dayzero.stages.memory.host import HOST
from dayzero.stages.memory.ranks import MemoryModel
from dayzero.stages.planning.ladder import Need


@dataclass(frozen=True, slots=True)
class _Weights:
    """Bytes of each layer on its fullest rank, and beside them those of the first and of the last stage."""

    layers: tuple[int, ...]
    first: int
    last: int


def need_of(
    spec: ModelSpec, index: CheckpointIndex | None, profile: PlatformProfile, workload: Workload, choices: Choices
) -> Need:
    """The need of a model's first layers. A rung serves one sequence a replica: it is there to be checked, not to serve."""
    table = weight_table(spec, index)

    @lru_cache(maxsize=256)
    def weights(tp: int, ep: int, etp: int) -> _Weights | None:
        if table is None or not spec.layers:
            return None
        try:
            return _by_layer(table.stages(Degrees(tp=tp, ep=ep, etp=etp, dp=max(1, ep * etp // tp), pp=len(spec.layers))))
        except UncuttableError:
            return None

    @lru_cache(maxsize=512)
    def model(layers: int, dp: int) -> MemoryModel:
        return MemoryModel(replace(spec, layers=spec.layers[:layers]), profile, replace(workload, concurrency=dp))

    def need(degrees: Degrees, layers: int) -> int | None:
        held = weights(degrees.tp, degrees.ep, degrees.etp)
        if held is None:
            return None
        most = 0
        for stage, (start, stop) in enumerate(stage_layers(layers, degrees.pp)):
            size = sum(held.layers[start:stop]) + (stage == 0) * held.first + (stage == degrees.pp - 1) * held.last
            items = model(layers, degrees.dp).rank_items(degrees, choices, stage, size)
            most = max(most, sum(item for name, item in items.items() if not name.startswith(HOST)))
        return most

    return need


def _by_layer(alone: tuple[StageWeights, ...]) -> _Weights:
    """From stages of one layer each."""
    first = sum(alone[0].items_bytes.get(name, 0) for name in ("embeddings", "towers"))
    last = sum(alone[-1].items_bytes.get(name, 0) for name in ("embeddings", "head", "drafts")) if len(alone) > 1 else 0
    sizes = [stage.most_bytes for stage in alone]
    sizes[0] -= first
    sizes[-1] -= last
    return _Weights(tuple(sizes), first, last)
