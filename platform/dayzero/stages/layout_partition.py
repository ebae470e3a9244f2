"""One rule for who holds what: the sharder cuts by it and the loader reads by it.

Column-parallel (the output dimension is cut): query, key and value projections, MLA's q_b and kv_b, gate and up projections,
attention sinks. Row-parallel (the input dimension is cut, outputs are summed over the ranks, biases are whole on every rank and
added once): output and down projections. Routed experts: whole experts by ep, or every expert cut by tp when ep is 1. Whole on
every rank of a stage: norms, routers, MLA's q_a and kv_a, embeddings and head (a vocabulary need not divide, and the two can
be tied). Pipeline stages own their layers; embeddings lie on the first, final norm, head and draft layers on the last, tied
embeddings on both. Towers lie on the first stage, tensors with no known place on every one.
"""

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Degrees
from dayzero.stages.layout_names import Leaf, Part, TensorPlace, place_of
from dayzero.stages.structure_families import FAMILIES, sharding_known


class PartitionKind(StrEnum):
    """How a tensor is spread over ranks."""

    COLUMN = "column"
    ROW = "row"
    REPLICATED = "replicated"
    EXPERT = "expert"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Partition:
    """A tensor's share: cut along `dim` into `parts` (dim None: not cut), of which the asked rank holds number `part`.

    `stages` are the pipeline stages that hold it. EXPERT: this expert (or with dim 0 this block of experts) belongs to one of
    `parts` expert-parallel ranks. ABSENT is answered only when a rank was asked for.
    """

    kind: PartitionKind
    dim: int | None = None
    parts: int = 1
    part: int = 0
    stages: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A rank's place on each axis: rank = (pp × dp degree + dp) × tp degree + tp; ep runs over tp and dp together."""

    tp: int
    pp: int
    ep: int
    dp: int


def coordinates_of(rank: int, degrees: Degrees) -> Coordinates:
    """The coordinates of a rank of the plan."""
    inside = rank % (degrees.tp * degrees.dp)
    return Coordinates(inside % degrees.tp, rank // (degrees.tp * degrees.dp), inside % degrees.ep, inside // degrees.tp)


@lru_cache(maxsize=4096)
def stage_layers(layers: int, pp: int) -> tuple[tuple[int, int], ...]:
    """Layers [first, last) of each stage, as even as can be, the earlier stages with one more."""
    size, more = divmod(layers, pp)
    bounds = [stage * size + min(stage, more) for stage in range(pp + 1)]
    return tuple(itertools.pairwise(bounds))


def partition_of(name: str, spec: ModelSpec, degrees: Degrees, rank: int | None = None) -> Partition:
    """The share of the tensor of that name; with a rank, that rank's part, or ABSENT when it holds none of it.

    A model without sharding rules is whole on every rank.
    """
    return partition_at(place_of(name, len(spec.layers) or None), spec, degrees, rank)


def partition_at(place: TensorPlace, spec: ModelSpec, degrees: Degrees, rank: int | None = None) -> Partition:
    """partition_of for a name that is parsed already."""
    if not sharding_known(spec):
        return Partition(PartitionKind.REPLICATED, stages=tuple(range(degrees.pp)))
    partition = _shared(place, spec, degrees)
    if rank is None:
        return partition
    return held_at(partition, place, spec, degrees, coordinates_of(rank, degrees))


def held_at(partition: Partition, place: TensorPlace, spec: ModelSpec, degrees: Degrees, at: Coordinates) -> Partition:
    """What a rank holds of a tensor whose partition over all ranks is known."""
    if at.pp not in partition.stages:
        return Partition(PartitionKind.ABSENT, stages=partition.stages)
    if partition.kind is PartitionKind.EXPERT:
        if place.expert is not None and owner_of(place.expert, spec, place, degrees) != at.ep:
            return Partition(PartitionKind.ABSENT, stages=partition.stages)
        return _with_part(partition, at.ep)
    return _with_part(partition, at.tp if partition.dim is not None else 0)


def owner_of(expert: int, spec: ModelSpec, place: TensorPlace, degrees: Degrees) -> int:
    """The expert-parallel rank that holds an expert: contiguous blocks of equal size."""
    return _owner(expert, experts_of(spec, place), degrees.ep)


@lru_cache(maxsize=4096)
def owners_of(experts: tuple[int, ...], count: int, ep: int) -> Mapping[int, int]:
    """How many of these experts (of `count` in the layer) each expert-parallel rank holds."""
    return Counter(_owner(expert, count, ep) for expert in experts)


def _owner(expert: int, count: int, ep: int) -> int:
    return min(expert * ep // max(1, count), ep - 1)


def experts_of(spec: ModelSpec, place: TensorPlace) -> int:
    """Routed experts of the tensor's layer (draft layers have those of the last layer)."""
    layer = min(place.layer or 0, len(spec.layers) - 1)
    return spec.layers[layer].experts


def _with_part(partition: Partition, part: int) -> Partition:
    return Partition(partition.kind, partition.dim, partition.parts, part, partition.stages)


_COLUMN = {"q_proj", "k_proj", "v_proj", "q_b_proj", "kv_b_proj", "gate_proj", "up_proj", "w1", "w3", "sinks", "gate_up_proj"}
_ROW = {"o_proj", "down_proj", "w2"}


def _shared(place: TensorPlace, spec: ModelSpec, degrees: Degrees) -> Partition:
    stages = stages_of(place, spec, degrees.pp)
    module = place.module.rsplit(".", 1)[-1]
    whole = Partition(PartitionKind.REPLICATED, stages=stages)
    if place.layer is None or place.part not in (Part.LAYER, Part.PREDICTION) or place.leaf is Leaf.BUFFER:
        return whole
    fused = place.module.endswith((".experts.gate_up_proj", ".experts.down_proj"))
    if degrees.ep > 1 and (fused or place.expert is not None):
        return Partition(PartitionKind.EXPERT, 0 if fused else None, degrees.ep, 0, stages)
    if degrees.tp == 1 or module not in _COLUMN | _ROW:
        return whole
    column = module in _COLUMN
    if not column and place.leaf is Leaf.BIAS:
        return whole
    kind = PartitionKind.COLUMN if column else PartitionKind.ROW
    dim = _fused_dim(place, spec, column) if fused else 0 if column else 1
    return Partition(kind, dim, degrees.tp, 0, stages)


def _fused_dim(place: TensorPlace, spec: ModelSpec, column: bool) -> int:
    """Fused experts: gpt-oss keeps values [experts, in, out] and its packed blocks [experts, out, in / 32, 16]; the modelling
    library's own form is [experts, out, in]."""
    transposed = FAMILIES[spec.family or ""].experts == "fused" and place.leaf is Leaf.VALUE and not place.suffix
    if place.leaf is Leaf.BIAS:
        return 1
    return (2 if column else 1) if transposed else (1 if column else 2)


def stages_of(place: TensorPlace, spec: ModelSpec, pp: int) -> tuple[int, ...]:
    """The pipeline stages that hold a tensor."""
    if not sharding_known(spec):
        return tuple(range(pp))
    if place.part is Part.LAYER and place.layer is not None:
        bounds = stage_layers(len(spec.layers), pp)
        return tuple(stage for stage, (first, last) in enumerate(bounds) if first <= place.layer < last)
    if place.part is Part.EMBEDDINGS:
        return (0, pp - 1) if spec.tied_embeddings and pp > 1 else (0,)
    if place.part is Part.TOWER:
        return (0,)
    return tuple(range(pp)) if place.part is Part.OTHER else (pp - 1,)
