"""Weight bytes of every rank of any plan, fast enough to ask for thousands of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.planning import Degrees
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.stages.layout.components import item_of
from dayzero.stages.layout.cut import cut_by
from dayzero.stages.layout.names import Part, TensorPlace
from dayzero.stages.layout.partition import (
    coordinates_of,
    copies_of,
    expert_slices,
    experts_of,
    placed,
    slot_counts,
    slots_of,
    stage_layers,
    stages_of,
)
from dayzero.stages.layout.rules import Rules
from dayzero.stages.layout.stored import StoredTensor, stored_findings, stored_model


@dataclass(frozen=True, slots=True)
class StageWeights:
    """Weight bytes on the ranks of one pipeline stage.

    `items_bytes` are on every rank, by component (embeddings, mixer, feed_forward, shared_experts, norms_and_routers, head,
    drafts, towers, other); a rank has `experts_bytes` of its expert-parallel index beside (one entry an index), of which
    `redundant_bytes` are second copies. `padding_bytes` of embeddings, head and drafts are zeros behind the vocabulary.
    """

    items_bytes: Mapping[str, int]
    experts_bytes: tuple[int, ...]
    redundant_bytes: tuple[int, ...]
    padding_bytes: int = 0

    @property
    def common_bytes(self) -> int:
        """Bytes on every rank of the stage."""
        return sum(self.items_bytes.values())

    @property
    def most_bytes(self) -> int:
        """Bytes on the stage's fullest rank."""
        return self.common_bytes + max(self.experts_bytes)


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors of one layer that differ in their expert only: one of them, its place, and the experts (() when none)."""

    header: TensorHeader
    place: TensorPlace
    experts: tuple[int, ...]


def group_tensors(spec: ModelSpec, index: CheckpointIndex) -> tuple[TensorGroup, ...]:
    """The index in groups, so that a plan is judged without walking every expert again."""
    found: dict[tuple[object, ...], list[tuple[TensorHeader, TensorPlace]]] = defaultdict(list)
    for header in index.tensors:
        place = placed(header.name, spec)
        name = header.name if place.expert is None else place.template
        found[(place.part, place.layer, name, header.shape, header.dtype)].append((header, place))
    return tuple(
        TensorGroup(*members[0], tuple(sorted(place.expert for _, place in members if place.expert is not None)))
        for members in found.values()
    )


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What every rank of a place holds: bytes by item, and how many of them are padding."""

    items_bytes: Mapping[str, int]
    padding_bytes: int


@dataclass(frozen=True, slots=True)
class _Routed:
    """Bytes of one layer's experts: of each of `count` where all are there, else of those in `some`."""

    count: int
    each_bytes: int
    some: tuple[tuple[tuple[int, ...], int], ...] = ()


class WeightTable:
    """The weights of one model, ready to be shared out; `findings` say what was predicted or assumed.

    Layers that hold the same are kept once. What depends on some of the degrees only is computed once for each of those.
    """

    def __init__(self, spec: ModelSpec, layers: Iterable[Sequence[TensorGroup]], outside: Iterable[TensorGroup],
                 findings: tuple[Finding, ...] = ()) -> None:  # fmt: skip
        self.findings = findings
        self._rules = Rules(spec)
        kinds: dict[int | tuple[object, ...], int] = {}
        self._places: list[Sequence[TensorGroup]] = []
        self._kind_of: list[int] = []
        for members in layers:
            # The same list is the same kind without a look into it.
            kind = kinds.get(id(members))
            if kind is None:
                kind = kinds.setdefault(tuple(map(self._content, members)), len(self._places))
                kinds[id(members)] = kind
                if kind == len(self._places):
                    self._places.append(members)
            self._kind_of.append(kind)
        parts: dict[Part, list[TensorGroup]] = defaultdict(list)
        for group in outside:
            parts[group.place.part].append(group)
        self._outside = range(len(self._places), len(self._places) + len(parts))
        self._places += parts.values()
        self._counts: dict[int, list[Counter[int]]] = {}
        self._fixed: dict[int, tuple[_Fixed, ...]] = {}
        self._routed: dict[int, tuple[_Routed | None, ...]] = {}

    def _content(self, one: TensorGroup) -> tuple[object, ...]:
        return one.place.template, one.header.dtype, one.header.shape, id(self._rules.rule_at(one.place)), one.experts

    def stages(self, degrees: Degrees, redundant_experts: int = 0) -> tuple[StageWeights, ...]:
        """Weight bytes by pipeline stage, those of cp and dp ranks alike; UncuttableError names the tensor that cannot be cut.

        The degrees are those that `violations` lets pass.
        """
        slices = expert_slices(degrees)
        if degrees.tp not in self._fixed:
            self._fixed[degrees.tp] = tuple(_fixed(members, self._rules, degrees.tp) for members in self._places)
        if slices not in self._routed:
            self._routed[slices] = tuple(_routed(members, self._rules, slices) for members in self._places)
        known: dict[tuple[tuple[int, int], ...], StageWeights] = {}
        found = []
        for counts in self._stage_counts(degrees.pp):
            key = tuple(counts.items())
            if key not in known:
                known[key] = self._stage(key, degrees, slices, redundant_experts)
            found.append(known[key])
        return tuple(found)

    def _stage_counts(self, pp: int) -> list[Counter[int]]:
        """How often each place is on each stage."""
        if pp not in self._counts:
            bounds = stage_layers(len(self._kind_of), pp)
            counts = [Counter(self._kind_of[first:last]) for first, last in bounds]
            for place in self._outside:
                for stage in stages_of(self._places[place][0].place, self._rules.spec, pp):
                    counts[stage][place] += 1
            self._counts[pp] = counts
        return self._counts[pp]

    def _stage(self, counts: Iterable[tuple[int, int]], degrees: Degrees, slices: int, redundant: int) -> StageWeights:
        fixed, routed = self._fixed[degrees.tp], self._routed[slices]
        items: Counter[str] = Counter()
        each: Counter[int] = Counter()
        some: list[tuple[tuple[int, ...], int, int]] = []
        padding = 0
        for place, times in counts:
            padding += fixed[place].padding_bytes * times
            for name, size in fixed[place].items_bytes.items():
                items[name] += size * times
            expert = routed[place]
            if expert is not None:
                each[expert.count] += expert.each_bytes * times
                some += [(experts, expert.count, size * times) for experts, size in expert.some]
        owned, copies = _dealt_out(each, some, degrees.ep, redundant)
        return StageWeights(dict(items), owned, copies, padding)


def weight_table(spec: ModelSpec, index: CheckpointIndex | None) -> WeightTable | None:
    """The table from the headers, or without them from the structure alone; None when neither says what weights there are."""
    if index is not None and index.tensors:
        return _from_headers(spec, index)
    stored = stored_model(spec)
    if stored is None:
        return None
    made: dict[int, tuple[TensorGroup, ...]] = {}
    for layer in stored.layers:
        if id(layer) not in made:
            made[id(layer)] = tuple(_stored_group(spec, tensor) for tensor in layer)
    layers = [made[id(layer)] for layer in stored.layers]
    outside = [_stored_group(spec, tensor) for tensor in stored.outside]
    return WeightTable(spec, layers, outside, stored_findings(spec, stored.weight_bytes))


def _from_headers(spec: ModelSpec, index: CheckpointIndex) -> WeightTable:
    layers: list[list[TensorGroup]] = [[] for _ in spec.layers]
    outside: list[TensorGroup] = []
    for group in group_tensors(spec, index):
        layer = group.place.layer
        inside = group.place.part is Part.LAYER and layer is not None and layer < len(layers)
        (layers[layer or 0] if inside else outside).append(group)
    return WeightTable(spec, layers, outside)


def _stored_group(spec: ModelSpec, tensor: StoredTensor) -> TensorGroup:
    header = tensor.header()
    experts = tuple(range(tensor.experts)) if "{e}" in tensor.name else ()
    return TensorGroup(header, placed(header.name, spec), experts)


def _fixed(members: Iterable[TensorGroup], rules: Rules, tp: int) -> _Fixed:
    items: Counter[str] = Counter()
    padding = 0
    for group in members:
        rule = rules.rule_at(group.place)
        if not rule.expert:
            part = cut_by(rule, group.header, group.place, rules.spec, tp)
            padding += part.padding_bytes
            items[item_of(group.place, rule)] += part.size_bytes * max(1, len(group.experts))
        elif group.place.expert is None and not _stacked(group, rules):
            items[item_of(group.place, rule)] += group.header.size_bytes
    return _Fixed(items, padding)


def _stacked(group: TensorGroup, rules: Rules) -> bool:
    """Whether a tensor of all experts at once has a row for each (some are the same for all)."""
    return group.header.shape[:1] == (experts_of(rules.spec, group.place),)


def _routed(members: Iterable[TensorGroup], rules: Rules, slices: int) -> _Routed | None:
    each, some, count = 0, [], 0
    for group in members:
        rule = rules.rule_at(group.place)
        stacked = group.place.expert is None
        if not rule.expert or (stacked and not _stacked(group, rules)):
            continue
        count = experts_of(rules.spec, group.place)
        size = cut_by(rule, group.header, group.place, rules.spec, slices).size_bytes
        if stacked:
            each += size // count
        elif group.experts == tuple(range(count)):
            each += size
        else:
            some.append((group.experts, size))
    return _Routed(count, each, tuple(some)) if count else None


def _dealt_out(
    each: Mapping[int, int], some: Iterable[tuple[tuple[int, ...], int, int]], ep: int, redundant: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Expert bytes by owner, and those of second copies: `each` has the bytes of one expert by the number of them, `some`
    experts of layers that lack others."""
    owned, copies = [0] * ep, [0] * ep
    for count, size in each.items():
        slots = slot_counts(count, redundant, ep)
        owned = [held + size * number for held, number in zip(owned, slots, strict=True)]
        if redundant:
            copies = [held + size * number for held, number in zip(copies, copies_of(count, redundant, ep), strict=True)]
    for experts, count, size in some:
        for owner, ranges in enumerate(slots_of(count, redundant, ep)):
            owned[owner] += size * sum(first <= expert < last for first, last in ranges for expert in experts)
    return tuple(owned), tuple(copies)


def rank_weight_bytes(table: WeightTable, degrees: Degrees, redundant_experts: int = 0) -> tuple[int, ...]:
    """Bytes of tensors in each rank's file."""
    stages = table.stages(degrees, redundant_experts)
    ranks = (coordinates_of(rank, degrees) for rank in range(degrees.world))
    return tuple(stages[at.pp].common_bytes + stages[at.pp].experts_bytes[at.ep] for at in ranks)


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes that each rank of a stage holds of one place: `everywhere` on all of them, and more by expert-parallel rank (()
    without expert parallelism)."""

    place: TensorPlace
    everywhere: int
    by_owner: tuple[int, ...]


def weight_shares(groups: Iterable[TensorGroup], spec: ModelSpec, degrees: Degrees) -> tuple[Share, ...]:
    """What a rank holds of each layer and part, by the same cuts; UncuttableError."""
    rules = Rules(spec)
    places: dict[tuple[Part, int | None], list[TensorGroup]] = defaultdict(list)
    for group in groups:
        places[(group.place.part, group.place.layer)].append(group)
    found = []
    for members in places.values():
        everywhere = sum(_fixed(members, rules, degrees.tp).items_bytes.values())
        routed = _routed(members, rules, expert_slices(degrees))
        owned: tuple[int, ...] = ()
        if routed is not None:
            some = [(experts, routed.count, size) for experts, size in routed.some]
            owned, _ = _dealt_out({routed.count: routed.each_bytes}, some, degrees.ep, 0)
        if degrees.ep == 1:
            everywhere, owned = everywhere + sum(owned), ()
        found.append(Share(members[0].place, everywhere, owned))
    return tuple(found)


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
