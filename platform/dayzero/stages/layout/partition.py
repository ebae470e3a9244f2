"""One rule for who holds what: the sharder cuts by it and the loader reads by it.

Column-parallel (the output dimension is cut): query, key and value projections, MLA's q_b and kv_b, gate and up projections,
attention sinks, and what recurrent mixers have for each head. Row-parallel (the input dimension is cut, outputs are summed over
the ranks, biases are whole on every rank and added once): output and down projections. Key-value heads are copied where tp
exceeds them: tp rank r has head floor(r × heads / tp). Embeddings and head are cut by vocabulary rows, padded with zeros to a
multiple of 64 that divides by tp; quantized ones stay whole. Whole on every rank of a stage: norms, routers, latents.

Routed experts: with ep 1 each is cut by tp; with ep above 1 they are dealt out whole, or cut into etp slices. A layer's E
experts and R redundant copies fill E + R slots in order, slot E + k holding a copy of expert k mod E (the first placement of
vLLM's expert balancer), and each of ep ranks has an equal block of slots.

Pipeline stages own their layers; embeddings lie on the first, final norm, head and draft layers on the last, tied embeddings on
both. Towers lie on the first stage, tensors with no known place on every one.

Ranks are numbered with tp fastest, then cp, dp, pp: rank = ((pp × DP + dp) × CP + cp) × TP + tp. cp ranks are neighbours, for
they exchange keys and values in every layer, and hold what their tp rank holds. Experts run over tp and dp, the same in each cp
slice: with i = dp × TP + tp, the etp index is i mod ETP and the ep index is i / ETP mod EP.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Degrees
from dayzero.stages.layout.names import Part, TensorPlace, place_of
from dayzero.stages.layout.rules import Rules
from dayzero.stages.layout.runs import PartitionKind, Rule
from dayzero.stages.structure.families import family_of, sharding_known

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """A tensor's share: cut along `axis` (0: the output, 1: the input) into `parts` (one: not cut), of which the asked rank
    holds number `part`.

    `stages` are the pipeline stages that hold it. EXPERT: this expert (or this block of experts) belongs to one of `parts`
    expert-parallel ranks. ABSENT is answered only when a rank was asked for.
    """

    kind: PartitionKind
    axis: int | None = None
    parts: int = 1
    part: int = 0
    stages: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A rank's place on each axis (see the module's words on order)."""

    tp: int
    pp: int
    ep: int
    dp: int
    cp: int = 0
    etp: int = 0


def coordinates_of(rank: int, degrees: Degrees) -> Coordinates:
    """The coordinates of a rank of the plan."""
    rest, tp = divmod(rank, degrees.tp)
    rest, cp = divmod(rest, degrees.cp)
    pp, dp = divmod(rest, degrees.dp)
    inside = dp * degrees.tp + tp
    slices = expert_slices(degrees)
    return Coordinates(tp, pp, inside // slices % degrees.ep, dp, cp, inside % slices)


def expert_slices(degrees: Degrees) -> int:
    """Into how many slices each routed expert is cut: etp, or without expert parallelism tp."""
    return degrees.etp if max(degrees.ep, degrees.etp) > 1 else degrees.tp


@lru_cache(maxsize=4096)
def stage_layers(layers: int, pp: int) -> tuple[tuple[int, int], ...]:
    """Layers [first, last) of each stage, as even as can be, the earlier stages with one more."""
    size, more = divmod(layers, pp)
    bounds = [stage * size + min(stage, more) for stage in range(pp + 1)]
    return tuple(itertools.pairwise(bounds))


@lru_cache(maxsize=4096)
def slots_of(experts: int, redundant: int, ep: int) -> tuple[tuple[Range, ...], ...]:
    """The experts of each expert-parallel rank as ranges, in the order of its slots; redundant copies come last."""
    if ep == 1:
        return (((0, experts),),)
    slots = experts + redundant
    return tuple(_wrapped(owner * slots // ep, (owner + 1) * slots // ep, experts) for owner in range(ep))


def _wrapped(first: int, last: int, experts: int) -> tuple[Range, ...]:
    found: list[Range] = []
    while first < last:
        stop = min(last, (first // experts + 1) * experts)
        found.append((first % experts, first % experts + stop - first))
        first = stop
    return tuple(found)


@lru_cache(maxsize=4096)
def slot_counts(experts: int, redundant: int, ep: int) -> tuple[int, ...]:
    """How many slots each expert-parallel rank has."""
    slots = experts + redundant
    return tuple((owner + 1) * slots // ep - owner * slots // ep for owner in range(ep)) if ep > 1 else (experts,)


@lru_cache(maxsize=4096)
def copies_of(experts: int, redundant: int, ep: int) -> tuple[int, ...]:
    """How many of each expert-parallel rank's slots are second copies."""
    slots = experts + redundant
    bounds = [owner * slots // ep for owner in range(ep + 1)] if ep > 1 else [0, experts]
    return tuple(max(0, last - max(first, experts)) for first, last in itertools.pairwise(bounds))


def held_among(ranges: Iterable[Range], expert: int) -> bool:
    """Whether an expert is in one of the ranges."""
    return any(first <= expert < last for first, last in ranges)


def placed(name: str, spec: ModelSpec) -> TensorPlace:
    """The place of a tensor of this structure's checkpoint. Layers are those of the structure: LongCat publishes two halves as
    one layer, whose number stands behind the module (self_attn.0, mlps.1)."""
    place = place_of(name, len(spec.layers) or None)
    family = family_of(spec)
    if family is None or family.experts != "first_half" or place.layer is None or place.part is not Part.LAYER:
        return place
    head, _, below = place.module.partition(".")
    number, _, rest = below.partition(".")
    half = int(number) if number in ("0", "1") else 0
    module = f"{head.rstrip('s') if head == 'mlps' else head}.{rest}" if number in ("0", "1") else place.module
    return TensorPlace(place.part, 2 * place.layer + half, module, place.suffix, place.leaf, place.expert)


def partition_of(name: str, spec: ModelSpec, degrees: Degrees, rank: int | None = None) -> Partition:
    """The share of the tensor of that name; with a rank, that rank's part, or ABSENT when it holds none of it.

    A model without sharding rules is whole on every rank.
    """
    return partition_at(placed(name, spec), spec, degrees, rank)


def partition_at(place: TensorPlace, spec: ModelSpec, degrees: Degrees, rank: int | None = None) -> Partition:
    """partition_of for a name that is parsed already."""
    rule = Rules(spec).rule_at(place)
    stages = stages_of(place, spec, degrees.pp)
    whole_experts = rule.expert and degrees.ep > 1
    parts = expert_slices(degrees) if rule.expert else degrees.tp
    cuts = parts > 1 and rule.kind is not PartitionKind.REPLICATED
    kind = PartitionKind.EXPERT if whole_experts else rule.kind if cuts else PartitionKind.REPLICATED
    axis = rule.axis if cuts else None
    if rank is None:
        return Partition(kind, axis, degrees.ep if whole_experts else parts if cuts else 1, 0, stages)
    at = coordinates_of(rank, degrees)
    if at.pp not in stages or (whole_experts and not _owns(at.ep, place, spec, degrees)):
        return Partition(PartitionKind.ABSENT, stages=stages)
    if whole_experts:
        return Partition(kind, axis, degrees.ep, at.ep, stages)
    return Partition(kind, axis, parts if cuts else 1, part_of(rule, at) if cuts else 0, stages)


def part_of(rule: Rule, at: Coordinates) -> int:
    """Which part of a cut tensor a rank holds."""
    return at.etp if rule.expert else at.tp


def _owns(owner: int, place: TensorPlace, spec: ModelSpec, degrees: Degrees) -> bool:
    return place.expert is None or held_among(slots_of(experts_of(spec, place), 0, degrees.ep)[owner], place.expert)


def experts_of(spec: ModelSpec, place: TensorPlace) -> int:
    """Routed experts of the tensor's layer (draft layers have those of the last layer that has any)."""
    layer = place.layer
    if place.part is Part.LAYER and layer is not None and layer < len(spec.layers) and spec.layers[layer].experts:
        return spec.layers[layer].experts
    return next((one.experts for one in reversed(spec.layers) if one.experts), 0)


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
