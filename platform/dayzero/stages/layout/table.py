"""The rules of one checkpoint under one plan: each kind of tensor is judged once, each tensor has one row."""

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardCut, ShardRow, ShardRules
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.stages.layout.cut import cut_by
from dayzero.stages.layout.names import Part, TensorPlace
from dayzero.stages.layout.partition import expert_slices, experts_of, placed, stages_of
from dayzero.stages.layout.ranks import covers
from dayzero.stages.layout.rules import Rules
from dayzero.stages.layout.runs import Rule


def shard_rules(spec: ModelSpec, index: CheckpointIndex, degrees: Degrees) -> ShardRules:
    """One row for each tensor, sorted: wide elements first, so that each tensor starts at a multiple of its element size, then
    by name. UncuttableError when a tensor cannot be cut as the degrees want."""
    table = _Table(spec, degrees)
    files = sorted({header.file for header in index.tensors})
    number = {file: at for at, file in enumerate(files)}
    ordered = sorted(index.tensors, key=lambda header: (-DTYPE_BITS[header.dtype], header.name))
    rows = tuple(table.row(header, number[header.file]) for header in ordered)
    return ShardRules(tuple(table.cuts), tuple(files), rows)


class _Table:
    def __init__(self, spec: ModelSpec, degrees: Degrees) -> None:
        self.cuts: list[ShardCut] = []
        self._spec, self._degrees = spec, degrees
        self._rules = Rules(spec)
        self._kinds: dict[tuple[object, ...], tuple[int, bool]] = {}
        self._places: dict[tuple[Part, int | None], tuple[tuple[int, ...], int]] = {}
        self._numbers: dict[ShardCut, int] = {}

    def row(self, header: TensorHeader, file: int) -> ShardRow:
        """The tensor's row; its kind is judged when the first of the kind comes."""
        place = placed(header.name, self._spec)
        at = (place.part, place.layer)
        where = self._places.get(at)
        if where is None:
            stages = stages_of(place, self._spec, self._degrees.pp)
            where = self._places[at] = (stages, experts_of(self._spec, place))
        rule = self._rules.rule_at(place)
        key = (rule, header.shape, header.dtype, place.suffix, place.expert is None, where)
        kind = self._kinds.get(key)
        if kind is None:
            cut = self._cut(header, place, rule, *where)
            kind = self._kinds[key] = (self._numbers.setdefault(cut, len(self._numbers)), cut.experts > 0 and not cut.stacked)
            if kind[0] == len(self.cuts):
                self.cuts.append(cut)
        expert = place.expert if kind[1] and place.expert is not None else -1
        return header.name, kind[0], file, header.begin, expert

    def _cut(self, header: TensorHeader, place: TensorPlace, rule: Rule, stages: tuple[int, ...], experts: int) -> ShardCut:
        dealt = experts if rule.expert and self._degrees.ep > 1 else 0
        stacked = dealt > 0 and place.expert is None and header.shape[:1] == (experts,)
        if place.expert is None and not stacked:
            # Some tensors of all experts together are the same for each of them.
            dealt = 0
        parts = expert_slices(self._degrees) if rule.expert else self._degrees.tp
        found = [cut_by(rule, header, place, self._spec, parts, part) for part in range(parts)]
        first = found[0]
        if first.dim is None:
            return ShardCut(header.dtype, header.shape, stages, experts=dealt, stacked=stacked)
        assert {one.shape for one in found} == {first.shape}, "ranks of one stage hold parts of one size"
        pieces = tuple(one.pieces for one in found)
        assert covers(pieces, header.shape[first.dim]), f"the parts of {header.name} leave some of it to no rank"
        return ShardCut(
            header.dtype, header.shape, stages, first.dim, pieces, first.shape[first.dim], rule.expert, dealt, stacked
        )
