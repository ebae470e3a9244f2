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
from dayzero.stages.layout.constraints import violations
from dayzero.stages.layout.cut import Cut, Range, UncuttableError, cut_by
from dayzero.stages.layout.names import Part, TensorPlace
from dayzero.stages.layout.partition import (
    Coordinates,
    Partition,
    coordinates_of,
    expert_slices,
    experts_of,
    part_of,
    partition_of,
    placed,
    slots_of,
    stage_layers,
    stages_of,
)
from dayzero.stages.layout.rules import Rules
from dayzero.stages.layout.runs import PartitionKind, Rule
from dayzero.stages.layout.shares import (
    Share,
    TensorGroup,
    group_tensors,
    weight_bytes_by_rank,
    weight_shares,
)
from dayzero.stages.structure.families import family_of, sharding_proven

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
    """A tensor with what may be done to it; tensors of one `kind` are cut alike. `experts` counts those of its layer where it
    belongs to some."""

    header: TensorHeader
    place: TensorPlace
    rule: Rule
    kind: int
    experts: int


_Ranges = tuple[Range, ...]


_Held = tuple[_Placed, _Ranges]
_Cuts = dict[tuple[int, _Ranges], Cut]


@dataclass(frozen=True, slots=True)
class _Content:
    """What the ranks of one stage and expert-parallel index hold, and the text of their header (sizes are equal)."""

    held: list[_Held]
    rows: str


class _Layout:
    """Lays out one checkpoint. Ranks that hold the same tensors share their list, ranks that hold equal slices everything."""

    def __init__(self, spec: ModelSpec, index: CheckpointIndex, degrees: Degrees, redundant: int) -> None:
        self.spec, self.degrees, self.redundant = spec, degrees, redundant
        self._slices = expert_slices(degrees)
        self._rules = Rules(spec)
        self._kinds: dict[tuple[object, ...], int] = {}
        held = [self._placed(header) for header in index.tensors]
        # Wide elements first, so that each tensor starts at a multiple of its element size.
        held.sort(key=lambda one: (-DTYPE_BITS[one.header.dtype], one.header.name))
        self._stages: list[list[_Placed]] = [[] for _ in range(degrees.pp)]
        known: dict[tuple[Part, int | None], tuple[int, ...]] = {}
        for one in held:
            where = (one.place.part, one.place.layer)
            if where not in known:
                known[where] = stages_of(one.place, spec, degrees.pp)
            for stage in known[where]:
                self._stages[stage].append(one)
        self._held = [self._by_owner(stage) for stage in self._stages]
        self._contents: dict[tuple[int, int], _Content] = {}
        self._known: dict[tuple[int, ...], tuple[ShardTensor, ...]] = {}

    def _placed(self, header: TensorHeader) -> _Placed:
        place = placed(header.name, self.spec)
        rule = self._rules.rule_at(place)
        kind = self._kinds.setdefault((id(rule), header.shape, header.dtype, place.suffix), len(self._kinds))
        return _Placed(header, place, rule, kind, experts_of(self.spec, place) if rule.expert else 0)

    def _by_owner(self, tensors: list[_Placed]) -> list[list[_Held]]:
        """What the ranks of each expert-parallel index hold of a stage's tensors."""
        ep = self.degrees.ep
        held: list[list[_Held]] = [[] for _ in range(ep)]
        owners = _Owners(self.redundant, ep)
        for one in tensors:
            if not one.rule.expert or ep == 1:
                for mine in held:
                    mine.append((one, ()))
            elif one.place.expert is not None:
                for owner in owners.of(one.place.expert, one.experts):
                    held[owner].append((one, ()))
            else:
                # Some tensors of all experts together are the same for each of them.
                stacked = one.header.shape[:1] == (one.experts,)
                for mine, ranges in zip(held, slots_of(one.experts, self.redundant, ep), strict=True):
                    mine.append((one, ranges if stacked else ()))
        return held

    def file_of(self, rank: int) -> ShardFile:
        at = coordinates_of(rank, self.degrees)
        cuts: _Cuts = {}
        content = self._content(at, cuts)
        begin = len(_framed(content.rows, rank, self.degrees))
        key = (at.pp, at.ep, at.tp, at.etp, begin)
        if key not in self._known:
            self._known[key] = tuple(self._tensors(content, at, begin, cuts))
        tensors = self._known[key]
        return ShardFile(rank, rank_path(rank), tensors[-1].end if tensors else begin, None, tensors)

    def _content(self, at: Coordinates, cuts: _Cuts) -> _Content:
        key = (at.pp, at.ep)
        if key not in self._contents:
            held = self._held[at.pp][at.ep]
            parts = [(one.header, self._cut(one, ranges, at, cuts)) for one, ranges in held]
            rows = _rows_text((header.name, header.dtype, part.shape, part.size_bytes) for header, part in parts)
            self._contents[key] = _Content(held, rows)
        return self._contents[key]

    def _cut(self, one: _Placed, ranges: _Ranges, at: Coordinates, cuts: _Cuts) -> Cut:
        """A rank's part; `cuts` holds those of each kind."""
        found = cuts.get((one.kind, ranges))
        if found is None:
            parts = self._slices if one.rule.expert else self.degrees.tp
            part = part_of(one.rule, at) if parts > 1 else 0
            found = cut_by(one.rule, one.header, one.place, self.spec, parts, part, ranges)
            cuts[(one.kind, ranges)] = found
        return found

    def _tensors(self, content: _Content, at: Coordinates, begin: int, cuts: _Cuts) -> Iterator[ShardTensor]:
        # A checkpoint has a hundred thousand tensors, a layout as many for each rank: this loop is the sharder's hot one.
        for one, ranges in content.held:
            header = one.header
            part = cuts.get((one.kind, ranges)) or self._cut(one, ranges, at, cuts)
            end = begin + part.size_bytes
            start, stop = part.bounds
            pieces = part.pieces if len(part.pieces) > 1 else ()
            yield ShardTensor(header.name, header.dtype, part.shape, part.dim, start, stop, header.file, begin, end, pieces,
                              part.rows, part.padding_bytes)  # fmt: skip
            begin = end


class _Owners:
    """Which expert-parallel ranks hold an expert."""

    def __init__(self, redundant: int, ep: int) -> None:
        self._redundant, self._ep = redundant, ep
        self._known: dict[int, dict[int, list[int]]] = {}

    def of(self, expert: int, count: int) -> list[int]:
        if count not in self._known:
            owners: dict[int, list[int]] = {}
            for owner, ranges in enumerate(slots_of(count, self._redundant, self._ep)):
                for held in (number for first, last in ranges for number in range(first, last)):
                    owners.setdefault(held, []).append(owner)
            self._known[count] = owners
        return self._known[count].get(expert, [])
