"""What each rank of a plan needs, from the table of weights and the model of memory: one seam, asked by stage, not by rank."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.plan import MemoryBudget
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.layout.partition import coordinates_of, stage_layers
from dayzero.stages.layout.shares import StageWeights, weight_table
from dayzero.stages.memory.ranks import MemoryModel


@dataclass(frozen=True, slots=True)
class _LayerWeights:
    """Weights layer by layer at one tp, ep and etp: a prefix sum of what every rank and of what each expert rank holds, and
    what lies outside of layers: on the first stage alone, on every stage. A stage is then one difference: the table, which adds
    up every stage of each pp anew, takes four to ten times as long, and is asked for all plans that are short of memory."""

    common: tuple[int, ...]
    experts: tuple[int, ...]
    embeddings: int
    tied: int
    everywhere: int


class RankMemory:
    """Memory of the ranks of any plan of one model on one platform under one workload."""

    def __init__(
        self,
        spec: ModelSpec,
        index: CheckpointIndex | None,
        profile: PlatformProfile,
        workload: Workload,
        limit_bytes: int | None,
    ) -> None:
        self.spec, self.profile, self.workload = spec, profile, workload
        self.table = weight_table(spec, index)
        stated = int(profile.memory_bytes.value) if profile.memory_bytes is not None else None
        self.limit_bytes = limit_bytes if limit_bytes is not None else stated
        self._layers: dict[tuple[int, int, int], _LayerWeights | None] = {}
        self._model = MemoryModel(spec, profile, workload)
        self._models = {workload.concurrency: self._model}
        self._held: dict[tuple[int, int, int, int], list[tuple[int, int, int, int]]] = {}
        self._distinct: dict[int, tuple[int, ...]] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was predicted or assumed of the weights."""
        return self.table.findings if self.table is not None else ()

    @property
    def has_drafts(self) -> bool:
        """Whether multi-token-prediction layers are among the weights."""
        return self.table is not None and bool(self.table.stages(Degrees())[-1].items_bytes.get("drafts"))

    def limit_of(self, degrees: Degrees) -> int | None:
        """The memory that one rank may take: of the device, or its share of the host's where devices are processes."""
        if self.limit_bytes is None:
            return None
        return self.limit_bytes // degrees.world if self.profile.torch_device == "cpu" else self.limit_bytes

    def weights(self, degrees: Degrees) -> tuple[StageWeights, ...]:
        """Weight bytes by stage; UncuttableError names what cannot be cut."""
        assert self.table is not None
        return self.table.stages(degrees, self.workload.redundant_experts)

    def fullest(self, degrees: Degrees, choices: Choices, sequences: int | None = None) -> MemoryBudget:
        """The rank that needs most (`sequences`: on each replica, where not the workload's); UncuttableError."""
        model = self.model(degrees, sequences)
        most, where = -1, (0, 0)
        kept: Mapping[str, int] = {}
        for stage, owner, size, copies in self._most(degrees):
            items = self._items(model, degrees, choices, (stage, size, copies))
            total = sum([size for name, size in items.items() if name[:5] != "host_"])
            if total > most:
                most, where, kept = total, (stage, owner), items
        return MemoryBudget(_rank_of(*where, degrees), kept, self.limit_of(degrees))

    def short_at_least(self, degrees: Degrees, choices: Choices, sequences: int) -> int:
        """By how much weights and state of so many sequences a replica exceed a rank's memory (0: they do not); more items come
        on top. UncuttableError."""
        limit = self.limit_of(degrees)
        if limit is None or self.workload.training is not None or choices.cache_on_host or choices.experts_on_host:
            return 0
        model, most = self.model(degrees, sequences), 0
        for stage, _, size, _ in self._most(degrees):
            most = max(most, size + model.state_bytes(degrees, choices, stage))
        return max(0, most - limit)

    def budgets(self, degrees: Degrees, choices: Choices, sequences: int | None = None) -> tuple[MemoryBudget, ...]:
        """One budget for every rank of the plan."""
        model, stages, limit = self.model(degrees, sequences), self.weights(degrees), self.limit_of(degrees)
        known: dict[tuple[int, int, int], Mapping[str, int]] = {}
        budgets = []
        for rank in range(degrees.world):
            at = coordinates_of(rank, degrees)
            held = stages[at.pp]
            owner = min(at.ep, len(held.experts_bytes) - 1)
            key = (at.pp, held.common_bytes + held.experts_bytes[owner], held.redundant_bytes[owner])
            if key not in known:
                known[key] = self._items(model, degrees, choices, key)
            budgets.append(MemoryBudget(rank, known[key], limit))
        return tuple(budgets)

    def _items(self, model: MemoryModel, degrees: Degrees, choices: Choices, held: tuple[int, int, int]) -> Mapping[str, int]:
        """Items of a rank that holds (stage, weight bytes, of them second copies), the copies as an item of their own."""
        stage, size, copies = held
        items = model.rank_items(degrees, choices, stage, size)
        if not copies and "redundant_experts" not in items:
            return items
        return {**items, "weights": items["weights"] - copies, "redundant_experts": copies}

    def model(self, degrees: Degrees, sequences: int | None = None) -> MemoryModel:
        """The model of memory at the workload's concurrency, or with so many sequences on each replica."""
        concurrency = self.workload.concurrency if sequences is None else sequences * degrees.dp
        if concurrency not in self._models:
            self._models[concurrency] = self._model.serving(concurrency)
        return self._models[concurrency]

    def _most(self, degrees: Degrees) -> list[tuple[int, int, int, int]]:
        """For each stage that differs from the others: its number, its fullest expert rank, that rank's weight bytes, and how
        many of them are second copies of experts."""
        layers = self._by_layer(degrees)
        if layers is None:
            found = []
            for stage, held in enumerate(self.weights(degrees)):
                owner = max(range(len(held.experts_bytes)), key=held.experts_bytes.__getitem__)
                found.append((stage, owner, held.common_bytes + held.experts_bytes[owner], held.redundant_bytes[owner]))
            return found
        key = (degrees.tp, degrees.pp, degrees.ep, degrees.etp)
        if key not in self._held:
            bounds = stage_layers(len(self.spec.layers), degrees.pp)
            self._held[key] = [(stage, 0, _between(layers, bounds[stage], stage == 0, stage == degrees.pp - 1, degrees.pp), 0)
                               for stage in self._stages(degrees.pp)]  # fmt: skip
        return self._held[key]

    def _by_layer(self, degrees: Degrees) -> _LayerWeights | None:
        key = (degrees.tp, degrees.ep, degrees.etp)
        if key not in self._layers:
            self._layers[key] = self._read_layers(degrees)
        return self._layers[key]

    def _read_layers(self, degrees: Degrees) -> _LayerWeights | None:
        """None where expert ranks differ, or layers are unknown: then stages are asked for one by one."""
        count = len(self.spec.layers)
        if count < 2 or self.workload.redundant_experts:
            return None
        stages = self.weights(replace(degrees, pp=count, dp=degrees.attention_dp))
        if any(len(set(held.experts_bytes)) > 1 for held in stages):
            return None
        common, experts = [0], [0]
        for held in stages:
            outside = held.items_bytes.get("embeddings", 0) + held.items_bytes.get("other", 0)
            common.append(common[-1] + held.common_bytes - outside)
            experts.append(experts[-1] + held.experts_bytes[0])
        first, last = stages[0].items_bytes, stages[-1].items_bytes
        others = {held.items_bytes.get("other", 0) for held in stages}
        if len(others) > 1:
            return None
        return _LayerWeights(tuple(common), tuple(experts), first.get("embeddings", 0), last.get("embeddings", 0), others.pop())

    def _stages(self, pp: int) -> tuple[int, ...]:
        """One of each kind of stage: the first and last ones, and others with other layers."""
        if pp not in self._distinct:
            found: dict[object, tuple[int, object, Counter[int]]] = {}
            for stage in range(pp):
                place = (stage == 0, stage == pp - 1)
                held = Counter(dict(self._model.counted(pp, stage)))
                found.setdefault((place, *sorted(held.items())), (stage, place, held))
            # Of stages in the same place, one with at least as many layers of every kind needs at least as much; in training
            # only an earlier one, which keeps the activations of at least as many micro-batches.
            training = self.workload.training is not None
            all_stages = tuple(found.values())
            self._distinct[pp] = tuple(
                stage
                for stage, place, held in all_stages
                if not any(
                    its == place and held <= more and held != more and (other < stage or not training)
                    for other, its, more in all_stages
                )
            )
        return self._distinct[pp]


def _between(layers: _LayerWeights, bounds: tuple[int, int], first: bool, last: bool, pp: int) -> int:
    start, stop = bounds
    size = layers.common[stop] - layers.common[start] + layers.experts[stop] - layers.experts[start] + layers.everywhere
    return size + layers.embeddings * first + layers.tied * (last and pp > 1)


def _rank_of(stage: int, owner: int, degrees: Degrees) -> int:
    """The first rank of the stage with that expert-parallel index."""
    each = degrees.world // degrees.pp
    inside = range(stage * each, (stage + 1) * each)
    return next((rank for rank in inside if coordinates_of(rank, degrees).ep == owner), inside[0])
