"""Layout: which rank holds which slice of which tensor, and where it lies in the rank's file. Headers only, no values."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardFile, ShardManifest, ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout_constraints import violations
from dayzero.stages.layout_cut import Cut, Range, UncuttableError, cut_by
from dayzero.stages.layout_names import TensorPlace
from dayzero.stages.layout_partition import (
    Coordinates,
    Partition,
    coordinates_of,
    expert_slices,
    experts_of,
    held_among,
    part_of,
    partition_of,
    placed,
    slots_of,
    stage_layers,
    stages_of,
)
from dayzero.stages.layout_rules import Rules
from dayzero.stages.layout_runs import PartitionKind, Rule
from dayzero.stages.layout_shares import (
    Share,
    TensorGroup,
    group_tensors,
    weight_bytes_by_rank,
    weight_shares,
)
from dayzero.stages.structure_families import family_of, sharding_proven

__all__ = [
    "Partition", "PartitionKind", "Share", "TensorGroup", "UncuttableError", "coordinates_of", "group_tensors", "lay_out",
    "layout_findings", "partition_of", "rank_path", "shard_header", "stage_layers", "weight_bytes_by_rank", "weight_shares",
]  # fmt: skip


def lay_out(
    content_id: str, spec: ModelSpec, index: CheckpointIndex, degrees: Degrees, redundant_experts: int = 0
) -> ShardManifest:
    """The unwritten shards of a checkpoint: one safetensors file a rank, offsets final, digests None.

    BadInputError when the structure does not allow the degrees (the reasons are in the message), UncuttableError when a tensor
    does not. A model without structure rules is whole on every rank; layout_findings says so.
    """
    refused = violations(spec, degrees, redundant_experts)
    if refused:
        reasons = "; ".join(rejection.reason for rejection in refused)
        raise BadInputError(f"the weights cannot be laid out for {degrees}: {reasons}.", remedy="Take a plan that fits.")
    layout = _Layout(spec, index, degrees, redundant_experts)
    files = tuple(layout.file_of(rank) for rank in range(degrees.world))
    return ShardManifest(content_id, degrees, files, redundant_experts if degrees.ep > 1 else 0)


def layout_findings(spec: ModelSpec) -> tuple[Finding, ...]:
    """What a reader of the layout should know."""
    name = spec.model_type or spec.architecture or "unnamed"
    family = family_of(spec)
    if family is None or not (family.sharded or family.derived):
        return (Finding("layout.replicated", name, f"no sharding rules are known for {name}: every rank holds all weights"),)
    if sharding_proven(spec):
        return ()
    message = f"the sharding rules of {name} are derived from its structure; no parallel run here has proven them"
    return (Finding("layout.derived", name, message, Severity.WARNING),)


def rank_path(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:05d}.safetensors"


def shard_header(tensors: Iterable[ShardTensor], rank: int, degrees: Degrees) -> bytes:
    """The first bytes of a rank's file: length and JSON header, padded with spaces to a multiple of 8 bytes.

    Offsets follow from the sizes of the tensors in their order, so the header is the same for placed and unplaced ones.
    """
    return _framed(_rows_text((one.name, one.dtype, one.shape, one.end - one.begin) for one in tensors), rank, degrees)


def _rows_text(rows: Iterable[tuple[str, str, tuple[int, ...], int]]) -> str:
    document, at = {}, 0
    for name, dtype, shape, size in rows:
        document[name] = {"dtype": dtype, "shape": shape, "data_offsets": (at, at + size)}
        at += size
    return json.dumps(document, separators=(",", ":"))


def _framed(rows: str, rank: int, degrees: Degrees) -> bytes:
    first = json.dumps({"__metadata__": {"degrees": str(degrees), "format": "pt", "rank": str(rank)}}, separators=(",", ":"))
    text = (first if rows == "{}" else f"{first[:-1]},{rows[1:]}").encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@dataclass(frozen=True, slots=True)
class _Placed:
    """A tensor with what may be done to it; `experts` counts those of its layer where it belongs to some."""

    header: TensorHeader
    place: TensorPlace
    rule: Rule
    stages: tuple[int, ...]
    experts: int


@dataclass(frozen=True, slots=True)
class _Content:
    """What the ranks of one stage and expert-parallel index hold, and the text of their header (sizes are equal)."""

    held: tuple[tuple[_Placed, tuple[Range, ...]], ...]
    rows: str


class _Layout:
    """Lays out one checkpoint. Ranks that hold the same tensors share their list, ranks that hold equal slices everything."""

    def __init__(self, spec: ModelSpec, index: CheckpointIndex, degrees: Degrees, redundant: int) -> None:
        self.spec, self.degrees, self.redundant = spec, degrees, redundant
        rules = Rules(spec)
        held = [self._placed(header, rules) for header in index.tensors]
        # Wide elements first, so that each tensor starts at a multiple of its element size.
        held.sort(key=lambda one: (-DTYPE_BITS[one.header.dtype], one.header.name))
        self._stages: list[list[_Placed]] = [[] for _ in range(degrees.pp)]
        for one in held:
            for stage in one.stages:
                self._stages[stage].append(one)
        self._cuts: dict[tuple[object, ...], Cut] = {}
        self._contents: dict[tuple[int, int], _Content] = {}
        self._known: dict[tuple[int, ...], tuple[ShardTensor, ...]] = {}

    def _placed(self, header: TensorHeader, rules: Rules) -> _Placed:
        place = placed(header.name, self.spec)
        rule = rules.rule_at(place)
        experts = experts_of(self.spec, place) if rule.expert else 0
        return _Placed(header, place, rule, stages_of(place, self.spec, self.degrees.pp), experts)

    def file_of(self, rank: int) -> ShardFile:
        at = coordinates_of(rank, self.degrees)
        content = self._content(at)
        begin = len(_framed(content.rows, rank, self.degrees))
        key = (at.pp, at.ep, at.tp, at.etp, begin)
        if key not in self._known:
            self._known[key] = tuple(self._tensors(content, at, begin))
        tensors = self._known[key]
        return ShardFile(rank, rank_path(rank), tensors[-1].end if tensors else begin, None, tensors)

    def _content(self, at: Coordinates) -> _Content:
        key = (at.pp, at.ep)
        if key not in self._contents:
            held = tuple(self._held(at))
            rows = []
            for one, ranges in held:
                part = self._cut(one, ranges, at)
                rows.append((one.header.name, one.header.dtype, part.shape, part.size_bytes))
            self._contents[key] = _Content(held, _rows_text(rows))
        return self._contents[key]

    def _held(self, at: Coordinates) -> Iterator[tuple[_Placed, tuple[Range, ...]]]:
        for one in self._stages[at.pp]:
            if not one.rule.expert or self.degrees.ep == 1:
                yield one, ()
                continue
            ranges = slots_of(one.experts, self.redundant, self.degrees.ep)[at.ep]
            if one.place.expert is None:
                # Some tensors of all experts together are the same for each of them.
                stacked = bool(one.header.shape) and one.header.shape[0] == one.experts
                yield one, ranges if stacked else ()
            elif held_among(ranges, one.place.expert):
                yield one, ()

    def _cut(self, one: _Placed, ranges: tuple[Range, ...], at: Coordinates) -> Cut:
        """Tensors that differ in their name only are cut once."""
        parts = expert_slices(self.degrees) if one.rule.expert else self.degrees.tp
        part = part_of(one.rule, at) if parts > 1 else 0
        header = one.header
        key = (id(one.rule), header.shape, header.dtype, one.place.suffix, part, ranges)
        if key not in self._cuts:
            self._cuts[key] = cut_by(one.rule, header, one.place, self.spec, parts, part, ranges)
        return self._cuts[key]

    def _tensors(self, content: _Content, at: Coordinates, begin: int) -> Iterator[ShardTensor]:
        for one, ranges in content.held:
            part = self._cut(one, ranges, at)
            header, end = one.header, begin + part.size_bytes
            start, stop = (
                (part.pieces[0][0], part.pieces[-1][1]) if part.pieces else (0, header.shape[0] if header.shape else 1)
            )
            pieces = part.pieces if len(part.pieces) > 1 else ()
            yield ShardTensor(header.name, header.dtype, part.shape, part.dim, start, stop, header.file, begin, end,
                              pieces, part.rows, part.padding_bytes)  # fmt: skip
            begin = end
