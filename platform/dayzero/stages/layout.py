"""Layout: which rank holds which slice of which tensor, and where it lies in the rank's file. Headers only, no values."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardFile, ShardManifest, ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout_constraints import violations
from dayzero.stages.layout_cut import Cut, UncuttableError, cut
from dayzero.stages.layout_names import Part, TensorPlace, place_of
from dayzero.stages.layout_partition import (
    Partition,
    PartitionKind,
    coordinates_of,
    experts_of,
    held_at,
    owners_of,
    partition_at,
    partition_of,
    stage_layers,
    stages_of,
)

__all__ = [
    "Partition", "PartitionKind", "TensorGroup", "UncuttableError", "coordinates_of", "group_tensors", "lay_out",
    "layout_findings", "partition_of", "rank_path", "shard_header", "stage_layers", "weight_bytes_by_rank", "weight_shares",
]  # fmt: skip


def lay_out(content_id: str, spec: ModelSpec, index: CheckpointIndex, degrees: Degrees) -> ShardManifest:
    """The unwritten shards of a checkpoint: one safetensors file a rank, offsets final, digests None.

    BadInputError when the structure does not allow the degrees (the reasons are in the message). A model without structure
    rules is whole on every rank; layout_findings says so.
    """
    refused = violations(spec, degrees)
    if refused:
        reasons = "; ".join(rejection.reason for rejection in refused)
        raise BadInputError(f"the weights cannot be laid out for {degrees}: {reasons}.", remedy="Take a plan that fits.")
    placed = [(header, place_of(header.name, len(spec.layers) or None)) for header in index.tensors]
    divided = [_Divided(header, place, shared := partition_at(place, spec, degrees), cut(header, place, shared, spec))
               for header, place in placed]  # fmt: skip
    # Wide elements first, so that each tensor starts at a multiple of its element size.
    divided.sort(key=lambda tensor: (-DTYPE_BITS[tensor.header.dtype], tensor.header.name))
    files = tuple(_rank_file(rank, divided, spec, degrees) for rank in range(degrees.world))
    return ShardManifest(content_id, degrees, files)


def layout_findings(spec: ModelSpec) -> tuple[Finding, ...]:
    """What a reader of the layout should know."""
    if spec.family is not None:
        return ()
    name = spec.model_type or spec.architecture or "unnamed"
    return (Finding("layout.replicated", name, f"no sharding rules are known for {name}: every rank holds all weights"),)


def rank_path(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:05d}.safetensors"


def shard_header(tensors: Iterable[ShardTensor], rank: int, degrees: Degrees) -> bytes:
    """The first bytes of a rank's file: length and JSON header, padded with spaces to a multiple of 8 bytes.

    Offsets follow from the sizes of the tensors in their order, so the header is the same for placed and unplaced ones.
    """
    document: dict[str, object] = {"__metadata__": {"degrees": str(degrees), "format": "pt", "rank": str(rank)}}
    at = 0
    for tensor in tensors:
        size = tensor.end - tensor.begin
        document[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@dataclass(frozen=True, slots=True)
class _Divided:
    """A tensor, its partition over all ranks, and the slice of the first part."""

    header: TensorHeader
    place: TensorPlace
    shared: Partition
    first: Cut


def _rank_file(rank: int, divided: list[_Divided], spec: ModelSpec, degrees: Degrees) -> ShardFile:
    here = coordinates_of(rank, degrees)
    tensors = []
    for whole in divided:
        held = held_at(whole.shared, whole.place, spec, degrees, here)
        if held.kind is PartitionKind.ABSENT:
            continue
        header, first = whole.header, whole.first
        ahead = held.part * (first.stop - first.start) if first.dim is not None else 0
        tensors.append(
            ShardTensor(header.name, header.dtype, first.shape, first.dim, first.start + ahead, first.stop + ahead,
                        header.file, 0, first.size_bytes)
        )  # fmt: skip
    at = len(shard_header(tensors, rank, degrees))
    final = []
    for tensor in tensors:
        size = tensor.end
        final.append(replace(tensor, begin=at, end=at + size))
        at += size
    return ShardFile(rank, rank_path(rank), at, None, tuple(final))


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors of one layer that differ in their expert only: one of them, its place, and the experts (() when none)."""

    header: TensorHeader
    place: TensorPlace
    experts: tuple[int, ...]


def group_tensors(spec: ModelSpec, index: CheckpointIndex) -> tuple[TensorGroup, ...]:
    """The index in groups, so that a plan is judged without walking every expert again."""
    groups: dict[tuple[object, ...], list[tuple[TensorHeader, TensorPlace]]] = defaultdict(list)
    for header in index.tensors:
        place = place_of(header.name, len(spec.layers) or None)
        name = header.name if place.expert is None else place.template
        groups[(place.part, place.layer, name, header.shape, header.dtype)].append((header, place))
    return tuple(
        TensorGroup(*members[0], tuple(place.expert for _, place in members if place.expert is not None))
        for members in groups.values()
    )


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes that each rank of a stage holds of one place: `everywhere` on all of them, and more by expert-parallel rank."""

    place: TensorPlace
    everywhere: int
    by_owner: tuple[int, ...]


def weight_shares(groups: Iterable[TensorGroup], spec: ModelSpec, degrees: Degrees) -> tuple[Share, ...]:
    """What a tensor-parallel rank holds of each layer and part, by the same partition and the same cut as lay_out. It depends
    on tp and ep only, not on the stages; UncuttableError."""
    places: dict[tuple[Part, int | None], TensorPlace] = {}
    everywhere: dict[tuple[Part, int | None], int] = defaultdict(int)
    owned: dict[tuple[Part, int | None], list[int]] = {}
    for group in groups:
        where = (group.place.part, group.place.layer)
        places.setdefault(where, group.place)
        partition = partition_at(group.place, spec, degrees)
        size = cut(group.header, group.place, partition, spec).size_bytes
        if partition.kind is PartitionKind.EXPERT and group.experts:
            sums = owned.setdefault(where, [0] * degrees.ep)
            for owner, held in owners_of(group.experts, experts_of(spec, group.place), degrees.ep).items():
                sums[owner] += size * held
        else:
            everywhere[where] += size * max(1, len(group.experts))
    return tuple(Share(place, everywhere[where], tuple(owned.get(where, ()))) for where, place in places.items())


def weight_bytes_by_rank(shares: Iterable[Share], spec: ModelSpec, degrees: Degrees) -> tuple[int, ...]:
    """Bytes of tensors in each rank's file, summed over the places that its stage holds."""
    everywhere = [0] * degrees.pp
    owned = [[0] * degrees.ep for _ in range(degrees.pp)]
    for share in shares:
        for stage in stages_of(share.place, spec, degrees.pp):
            everywhere[stage] += share.everywhere
            for owner, size in enumerate(share.by_owner):
                owned[stage][owner] += size
    ranks = (coordinates_of(rank, degrees) for rank in range(degrees.world))
    return tuple(everywhere[at.pp] + owned[at.pp][at.ep] for at in ranks)
