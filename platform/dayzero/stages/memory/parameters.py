"""Parameters that a rank trains: how many, of which kind, in which layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Degrees
from dayzero.domain.tensors import TensorHeader
from dayzero.stages.layout.cut import cut
from dayzero.stages.layout.laying import Share, TensorGroup, weight_shares
from dayzero.stages.layout.names import Part, TensorPlace, place_of
from dayzero.stages.layout.partition import partition_at, stages_of
from dayzero.stages.parameters.counting import expected_tensors
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.parameters.quantization_targets import is_linear, is_matrix

_ELEMENT = 4
"""Headers are made up in float32, so that a byte count is four times an element count."""


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters on one rank. `matrices` are the linear weights of layers, `others` embeddings, head, norms, biases; expert
    parameters that are whole on one expert-parallel rank stand apart, for they have fewer replicas."""

    matrices: int = 0
    others: int = 0
    expert_matrices: int = 0
    expert_others: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.matrices + self.others + self.expert_matrices + self.expert_others

    def __add__(self, more: "Held") -> "Held":
        return Held(self.matrices + more.matrices, self.others + more.others, self.expert_matrices + more.expert_matrices,
                    self.expert_others + more.expert_others)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldByStage:
    """What a rank of each pipeline stage holds, and the largest layer of each."""

    stages: tuple[Held, ...]
    largest: tuple[int, ...]


class TrainedParameters:
    """Counts the parameters of a structure on the ranks of any plan; `known` is False where the structure is not."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        tensors = expected_tensors(spec)
        self.known = bool(tensors)
        self._matrices = tuple(_group(tensor, spec) for tensor in tensors if is_matrix(tensor))
        self._others = tuple(_group(tensor, spec) for tensor in tensors if not is_matrix(tensor))
        self._adapted = tuple(_group(tensor, spec) for tensor in tensors if is_linear(tensor) and tensor.component != "experts")
        self._places: dict[tuple[int, ...], Sequence[tuple[TensorPlace, Held]]] = {}
        self._found: dict[tuple[int, ...], HeldByStage] = {}
        self._widths: dict[tuple[int, ...], tuple[int, ...]] = {}

    def held(self, degrees: Degrees) -> HeldByStage:
        """By pipeline stage; UncuttableError for degrees that the structure refuses."""
        key = (degrees.tp, degrees.pp, degrees.ep, degrees.etp)
        if key not in self._found:
            self._found[key] = self._count(degrees)
        return self._found[key]

    def adapters(self, degrees: Degrees, rank: int) -> tuple[int, ...]:
        """Parameters of low-rank adapters on a rank of each stage: rank × (rows + columns) of what the rank holds of each
        linear weight outside of the routed experts (LoRA, arXiv 2106.09685, section 4.1; all linear layers, as QLoRA found
        necessary, arXiv 2305.14314, section 4)."""
        key = (degrees.tp, degrees.pp)
        if key not in self._widths:
            sums = [0] * degrees.pp
            for group in self._adapted:
                local = cut(group.header, group.place, partition_at(group.place, self.spec, degrees), self.spec)
                for stage in stages_of(group.place, self.spec, degrees.pp):
                    sums[stage] += sum(local.shape[-2:])
            self._widths[key] = tuple(sums)
        return tuple(rank * width for width in self._widths[key])

    def _count(self, degrees: Degrees) -> HeldByStage:
        stages = [Held() for _ in range(degrees.pp)]
        largest = [0] * degrees.pp
        for place, held in self._by_place(degrees):
            for stage in stages_of(place, self.spec, degrees.pp):
                stages[stage] = stages[stage] + held
                largest[stage] = max(largest[stage], held.total if place.layer is not None else 0)
        towers = self.spec.parameters.by_component.get("towers", 0) if self.spec.parameters.total is not None else 0
        stages[0] = stages[0] + Held(others=towers)
        return HeldByStage(tuple(stages), tuple(largest))

    def _by_place(self, degrees: Degrees) -> Sequence[tuple[TensorPlace, Held]]:
        """What a rank that has the place holds of it, summed over the tensors of each layer; it does not depend on stages."""
        key = (degrees.tp, degrees.ep, degrees.etp)
        if key not in self._places:
            found: dict[tuple[Part, int | None], tuple[TensorPlace, Held]] = {}
            for groups, matrices in ((self._matrices, True), (self._others, False)):
                for share in weight_shares(groups, self.spec, degrees):
                    place = share.place
                    known = found.get((place.part, place.layer), (place, Held()))[1]
                    found[(place.part, place.layer)] = (place, known + _held(share, matrices))
            self._places[key] = tuple(found.values())
        return self._places[key]


def _group(tensor: ExpectedTensor, spec: ModelSpec) -> TensorGroup:
    name = tensor.name.replace("{e}", "0")
    full = name if tensor.component == "head" else f"model.{name}"
    full = full if tensor.layer is None else f"model.layers.{tensor.layer}.{name}"
    header = TensorHeader(full, "F32", tensor.shape, "structure", 0, prod(tensor.shape) * _ELEMENT)
    experts = tuple(range(tensor.experts)) if "{e}" in tensor.name else ()
    return TensorGroup(header, place_of(full, len(spec.layers) or None), experts)


def _held(share: Share, matrices: bool) -> Held:
    everywhere = share.everywhere // _ELEMENT
    apart = max(share.by_owner, default=0) // _ELEMENT
    return Held(everywhere, 0, apart, 0) if matrices else Held(0, everywhere, 0, apart)
