"""Memory of each rank, item by item.

model = MemoryModel(spec, profile, workload)
model.items(degrees, choices, stage)      every item but weights, of a rank of that pipeline stage
model.rank_items(degrees, choices, stage, weight_bytes)      with the weights of that rank
budgets_of(model, degrees, choices, weights, limit_bytes)      all ranks
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace

from dayzero.domain.architecture import Layer, ModelSpec
from dayzero.domain.findings import Assumption
from dayzero.domain.plan import MemoryBudget
from dayzero.domain.planning import Choices, Degrees, Recompute, Training, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.layout.laying import coordinates_of, stage_layers
from dayzero.stages.layout.names import place_of
from dayzero.stages.layout.partition import partition_at
from dayzero.stages.memory.assumptions import memory_assumptions
from dayzero.stages.memory.feed_forward import dispatch_bytes, feed_forward_bytes
from dayzero.stages.memory.host import offloaded, staging_items
from dayzero.stages.memory.kept import in_flight, kept_bytes
from dayzero.stages.memory.library import library_excess
from dayzero.stages.memory.links import link_bytes
from dayzero.stages.memory.mixers import mixer_bytes
from dayzero.stages.memory.parameters import TrainedParameters
from dayzero.stages.memory.state import CacheShape, cache_dtype_of, cache_shape, hybrid_pages, sequence_bytes
from dayzero.stages.memory.state_of_sequence import cache_element_bytes
from dayzero.stages.memory.step import ENGINE, LIBRARY, Execution, Step, copies_head, sequences_of, step_of
from dayzero.stages.memory.training import gather_bytes, micro_batches_of, replicas_of, state_items
from dayzero.stages.parameters.weights import expert_bytes

Counted = tuple[tuple[int, int], ...]
"""Kinds of layers by number, each with how many there are."""

HALF_BYTES = 2
ALWAYS = ("state", "activations")
"""Items that are there even when they take nothing."""


class MemoryModel:
    """What one rank needs besides weights, for any plan of one model on one platform under one workload.

    Answers are kept by what they depend on, and equal layers are counted once, so that thousands of plans cost little.
    """

    def __init__(
        self, spec: ModelSpec, profile: PlatformProfile, workload: Workload, execution: Execution | None = None
    ) -> None:
        self.spec, self.profile, self.workload = spec, profile, workload
        self.execution = execution or (LIBRARY if profile.torch_device == "cpu" else ENGINE)
        alike = [replace(layer, index=0) for layer in spec.layers]
        numbers = {layer: number for number, layer in enumerate(dict.fromkeys(alike))}
        self.kinds = tuple(numbers)
        self._numbers = tuple(numbers[layer] for layer in alike)
        self._stages: dict[tuple[int, int], Counted] = {}
        self._sizes: dict[tuple[object, ...], int] = {}
        self._sequences: dict[tuple[int, int, int, str | None], tuple[int, ...]] = {}
        self._trained: TrainedParameters | None = None

    def serving(self, concurrency: int) -> "MemoryModel":
        """The same model at another concurrency; both keep their answers together, which depend on steps and cache shapes."""
        other = copy(self)
        other.workload = replace(self.workload, concurrency=concurrency)
        return other

    def items(self, degrees: Degrees, choices: Choices, stage: int) -> Mapping[str, int]:
        """Bytes by item on a rank of that pipeline stage, weights left out; the same for all its ranks.

        Items: state, activations, logits, expert_buffers, redundant_experts, communication_buffers, and reserve where the
        platform's was measured. In training no state, but weights (what is trained; none where only adapters are), gradients,
        gradient_copies, master_weights, moments and adapters. What lies in the host's memory is named host_…. An item that is
        not needed, or cannot be known (of an unknown architecture), is absent.
        BadInputError: a cache dtype that is none; UncuttableError: degrees that the structure refuses.
        """
        items: dict[str, int] = {}
        if self.kinds:
            step = step_of(self.spec, self.workload, degrees, choices)
            if self.workload.training is None:
                items |= self._state(degrees, choices, stage)
                items["activations"] = self._activations(degrees, stage, step)
            else:
                items |= self._training(self.workload.training, degrees, choices, stage, step)
            items["logits"] = self._logits(degrees, stage, step)
            counted, compressed = self.counted(degrees.pp, stage), choices.compressed
            items["expert_buffers"] = self._largest(
                counted, "dispatch", lambda layer: dispatch_bytes(layer.feed_forward, step, compressed), step, compressed
            )
            items["redundant_experts"] = self._redundant(degrees, stage)
            layers = tuple(self.kinds[kind] for kind, _ in counted)
            links = link_bytes(self.spec, layers, degrees, choices, step, stage)
            items["communication_buffers"] = items.get("communication_buffers", 0) + links
        if self.profile.reserve_bytes is not None:
            items["reserve"] = int(self.profile.reserve_bytes.value)
        return {name: size for name, size in items.items() if size or name in ALWAYS}

    def rank_items(self, degrees: Degrees, choices: Choices, stage: int, weight_bytes: int) -> Mapping[str, int]:
        """All items of a rank whose shard file has so many bytes of tensors.

        Full training holds what is trained instead (the native dtype, under ZeRO 3 sharded); beside adapters the weights stay
        as they are stored.
        """
        items = {"weights": self._frozen_bytes(degrees, stage, weight_bytes), **self.items(degrees, choices, stage)}
        if choices.experts_on_host:
            items = dict(offloaded(items, self.experts_bytes(degrees, stage), self.largest_experts_bytes(degrees, stage)))
        return {**items, **staging_items(weight_bytes, self.profile.torch_device == "cpu")}

    def assumptions(self, choices: Choices) -> tuple[Assumption, ...]:
        """What the figures take for granted."""
        return memory_assumptions(self.spec, self.profile, self.workload, choices, self.execution)

    def _frozen_bytes(self, degrees: Degrees, stage: int, weight_bytes: int) -> int:
        training = self.workload.training
        if training is None or training.zero < 3:
            return weight_bytes
        replicas, experts = replicas_of(degrees), min(weight_bytes, self.experts_bytes(degrees, stage))
        return -(-(weight_bytes - experts) // replicas.dense) - (-experts // replicas.experts)

    def library_beyond(self, degrees: Degrees, choices: Choices, stage: int) -> int:
        """What the modelling library's own caches allocate beyond `state` on a rank of the stage; below 0: less."""
        if not self.kinds:
            return 0
        tokens, dtype = self.workload.context_tokens, choices.cache_dtype or cache_dtype_of(self.spec)
        element_bytes, total = cache_element_bytes(dtype), 0
        for kind, count in self.counted(degrees.pp, stage):
            for mixer in self.kinds[kind].mixers:
                total += count * sum(library_excess(mixer, tokens, degrees.tp, element_bytes).values())
        return total * sequences_of(self.workload, degrees)

    def experts_bytes(self, degrees: Degrees, stage: int) -> int:
        """Bytes of the routed experts on a rank of the stage, as they are stored."""
        return sum(count * self._expert_bytes(kind) * self._expert_slots(kind, degrees) // self._expert_cut(degrees)
                   for kind, count in self.counted(degrees.pp, stage))  # fmt: skip

    def largest_experts_bytes(self, degrees: Degrees, stage: int) -> int:
        """Bytes of the routed experts of the stage's largest layer on one rank."""
        return max((self._expert_bytes(kind) * self._expert_slots(kind, degrees) // self._expert_cut(degrees)
                    for kind, _ in self.counted(degrees.pp, stage)), default=0)  # fmt: skip

    def counted(self, pp: int, stage: int) -> Counted:
        """The kinds of layers of one of pp stages, and how many there are of each."""
        key = (pp, stage)
        if key not in self._stages:
            first, last = stage_layers(len(self._numbers), pp)[stage]
            self._stages[key] = tuple(Counter(self._numbers[first:last]).items())
        return self._stages[key]

    def _size(self, name: str, kind: int, compute: Callable[[Layer], int], *depends: object) -> int:
        """A figure of one kind of layer, computed once for what it depends on."""
        key = (name, kind, *depends)
        if key not in self._sizes:
            self._sizes[key] = compute(self.kinds[kind])
        return self._sizes[key]

    def _largest(self, counted: Counted, name: str, compute: Callable[[Layer], int], *depends: object) -> int:
        return max((self._size(name, kind, compute, *depends) for kind, _ in counted), default=0)

    def _sum(self, counted: Counted, name: str, compute: Callable[[Layer], int], *depends: object) -> int:
        return sum(count * self._size(name, kind, compute, *depends) for kind, count in counted)

    def state_bytes(self, degrees: Degrees, choices: Choices, stage: int) -> int:
        """What all sequences keep in the cache on a rank of the stage, wherever it lies."""
        sizes = self._sequence(degrees, choices)
        one = sum([count * sizes[kind] for kind, count in self.counted(degrees.pp, stage)])
        return one * sequences_of(self.workload, degrees)

    def _sequence(self, degrees: Degrees, choices: Choices) -> tuple[int, ...]:
        """What one sequence keeps of one layer of each kind."""
        key = (degrees.tp, degrees.cp, choices.page_tokens, choices.cache_dtype)
        if key not in self._sequences:
            shape = self._shape(degrees, choices)
            self._sequences[key] = tuple(sequence_bytes(kind, shape) for kind in self.kinds)
        return self._sequences[key]

    def _shape(self, degrees: Degrees, choices: Choices) -> CacheShape:
        plain = cache_shape(self.workload.context_tokens, degrees, choices, cache_dtype_of(self.spec))
        return hybrid_pages(self.kinds, plain)

    def _state(self, degrees: Degrees, choices: Choices, stage: int) -> dict[str, int]:
        whole = self.state_bytes(degrees, choices, stage)
        if not choices.cache_on_host:
            return {"state": whole}
        sizes, sequences = self._sequence(degrees, choices), sequences_of(self.workload, degrees)
        # One layer's cache is at work while the next one's arrives (transformers' offloaded cache does so).
        largest = max((sizes[kind] for kind, _ in self.counted(degrees.pp, stage)), default=0)
        return {"state": min(whole, 2 * sequences * largest), "host_state": whole}

    def _activations(self, degrees: Degrees, stage: int, step: Step) -> int:
        """The residual stream (one operator at a time: the embeddings and the layer's input beside it) and the fullest moment
        of the widest layer."""
        streams = self.spec.residual_streams if self.spec.residual == "hyper_connections" else 1
        streams += 0 if self.execution.fused_elementwise else 2
        widest = self._largest(self.counted(degrees.pp, stage), "layer", lambda layer: self._layer(layer, step), step)
        return step.stream_tokens * step.hidden * streams * step.element_bytes + widest

    def _layer(self, layer: Layer, step: Step) -> int:
        mixing = sum(mixer_bytes(mixer, step, self.execution) for mixer in layer.mixers)
        return max(mixing, feed_forward_bytes(layer.feed_forward, step, self.execution))

    def _logits(self, degrees: Degrees, stage: int, step: Step) -> int:
        """On the last stage. Serving: of each sequence's last token, whole, in the native dtype and in float32, in which it is
        sampled, and on a host in 16 bits a copy of the head. Training: this rank's share of the vocabulary for every token,
        native, in float32, and the gradient."""
        if stage != degrees.pp - 1:
            return 0
        vocabulary, serving = self.spec.vocabulary_size or 0, self.workload.training is None
        if serving and not self._copies_head(step):
            return sequences_of(self.workload, degrees) * vocabulary * (step.element_bytes + 4)
        parts = partition_at(place_of("lm_head.weight", len(self.spec.layers)), self.spec, degrees).parts
        rows = -(-vocabulary // parts)
        if serving:
            copied = rows * step.hidden * step.element_bytes
            return sequences_of(self.workload, degrees) * (vocabulary * (step.element_bytes + 4) + copied)
        return step.tokens * rows * (step.element_bytes + 4 + 4)

    def _copies_head(self, step: Step) -> bool:
        """Whether torch makes a copy of the head for each sequence: the last tokens of a prefill are no matrix of their own, so
        that it multiplies batches, for which a host's kernels of 16 bits want the weight turned round (measured)."""
        return copies_head(self.profile, self.execution) and step.element_bytes == HALF_BYTES

    def _expert_bytes(self, kind: int) -> int:
        return self._size("expert", kind, lambda layer: expert_bytes(self.spec, layer))

    def _expert_slots(self, kind: int, degrees: Degrees) -> int:
        return -(-self.kinds[kind].experts // degrees.ep)

    def _expert_cut(self, degrees: Degrees) -> int:
        return degrees.tp if degrees.ep == 1 else degrees.etp

    def _redundant(self, degrees: Degrees, stage: int) -> int:
        """What redundant copies of experts take beside the weights; without expert parallelism there are none."""
        redundant = self.workload.redundant_experts
        if degrees.ep == 1 or not redundant:
            return 0
        return sum(
            count * self._expert_bytes(kind) // degrees.etp
            * (experts_on_rank(self.kinds[kind].experts, redundant, degrees.ep) - self.kinds[kind].experts // degrees.ep)
            for kind, count in self.counted(degrees.pp, stage) if self.kinds[kind].experts)  # fmt: skip

    def _training(self, training: Training, degrees: Degrees, choices: Choices, stage: int, step: Step) -> dict[str, int]:
        items: dict[str, int] = {}
        if self._trained is None:
            self._trained = TrainedParameters(self.spec)
        if self._trained.known:
            items |= state_items(self._trained, training, degrees, stage, self.spec.native_dtype)
            items["communication_buffers"] = gather_bytes(self._trained, training, degrees, stage, self.spec.native_dtype)
        if training.offload:
            items["host_optimizer"] = sum(items.pop(name, 0) for name in ("master_weights", "moments", "gradient_copies"))
        counted = self.counted(degrees.pp, stage)
        working = self._activations(degrees, stage, step)
        if training.recompute is Recompute.FULL:
            # What was not kept of a layer is computed again, and is all there while its gradients are computed.
            whole = Recompute.NONE
            working += self._largest(counted, "kept", lambda layer: kept_bytes(layer, step, whole), step, whole)
        kept, largest = self._kept(counted, training, degrees, choices, stage, step)
        if training.offload_activations:
            # One layer's travel while the next one's are made.
            items["host_activations"], kept = kept, min(kept, 2 * largest)
        return {**items, "activations": kept + working}

    def _kept(
        self, counted: Counted, training: Training, degrees: Degrees, choices: Choices, stage: int, step: Step
    ) -> tuple[int, int]:
        """Bytes that all micro-batches in flight leave, and those of one in the largest layer."""
        how = training.recompute
        one = self._sum(counted, "kept", lambda layer: kept_bytes(layer, step, how), step, how)
        largest = self._largest(counted, "kept", lambda layer: kept_bytes(layer, step, how), step, how)
        pieces, each = in_flight(degrees, choices, stage, micro_batches_of(training, degrees, choices.micro_batch))
        return -(-one * pieces // each), largest


def experts_on_rank(experts: int, redundant: int, ep: int) -> int:
    """Expert slots of one layer on one of ep ranks: each expert on one of them, redundant copies spread over all."""
    return -(-(experts + redundant) // ep)


def budgets_of(
    model: MemoryModel,
    degrees: Degrees,
    choices: Choices,
    weights: Iterable[int],
    limit_bytes: int | None,
    host_limit_bytes: int | None = None,
) -> tuple[MemoryBudget, ...]:
    """One budget a rank. `weights` are the bytes of tensors in each rank's shard file, from rank 0 on."""
    budgets = []
    for rank, weight_bytes in enumerate(weights):
        items = model.rank_items(degrees, choices, coordinates_of(rank, degrees).pp, weight_bytes)
        budgets.append(MemoryBudget(rank, items, limit_bytes, host_limit_bytes))
    return tuple(budgets)
