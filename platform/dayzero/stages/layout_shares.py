"""Weight bytes of every rank of any plan, fast enough to ask for thousands of them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.planning import Degrees
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.layout import Share, TensorGroup, group_tensors, weight_shares
from dayzero.stages.layout_names import Part, TensorPlace
from dayzero.stages.layout_partition import stages_of
from dayzero.stages.planning_index import predicted_index


@dataclass(frozen=True, slots=True)
class StageWeights:
    """Weight bytes on the ranks of one pipeline stage.

    `items_bytes` are on every rank, by component (embeddings, mixer, feed_forward, shared_experts, norms_and_routers, head,
    drafts, towers, other); a rank has `experts_bytes` of its expert-parallel index beside (one entry an index), of which
    `redundant_bytes` are second copies.
    """

    items_bytes: Mapping[str, int]
    experts_bytes: tuple[int, ...]
    redundant_bytes: tuple[int, ...]

    @property
    def common_bytes(self) -> int:
        """Bytes on every rank of the stage."""
        return sum(self.items_bytes.values())

    @property
    def most_bytes(self) -> int:
        """Bytes on the stage's fullest rank."""
        return self.common_bytes + max(self.experts_bytes)


class WeightTable:
    """The weights of one model, ready to be shared out; `findings` say what was predicted or assumed."""

    def __init__(self, spec: ModelSpec, groups: tuple[TensorGroup, ...], findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        self._spec, self._groups = spec, groups
        self._shares: dict[tuple[int, int, int], tuple[Share, ...]] = {}

    def stages(self, degrees: Degrees, redundant_experts: int = 0) -> tuple[StageWeights, ...]:
        """Weight bytes by pipeline stage, cp and dp ranks alike; UncuttableError names the tensor that cannot be cut."""
        key = (degrees.tp, degrees.ep, degrees.etp)
        if key not in self._shares:
            self._shares[key] = weight_shares(self._groups, self._spec, degrees)
        items: list[dict[str, int]] = [defaultdict(int) for _ in range(degrees.pp)]
        experts = [[0] * degrees.ep for _ in range(degrees.pp)]
        for share in self._shares[key]:
            for stage in stages_of(share.place, self._spec, degrees.pp):
                items[stage][_component(share.place)] += share.everywhere
                for owner, size in enumerate(share.by_owner):
                    experts[stage][owner] += size
        nothing = (0,) * degrees.ep
        return tuple(StageWeights(dict(held), tuple(owned), nothing) for held, owned in zip(items, experts, strict=True))


def weight_table(spec: ModelSpec, index: CheckpointIndex | None) -> WeightTable | None:
    """The table from the headers, or without them from the structure alone; None when neither says what weights there are."""
    known = index if index is not None and index.tensors else predicted_index(spec)
    if known is None:
        return None
    return WeightTable(spec, group_tensors(spec, known), known.findings if known is not index else ())


def _component(place: TensorPlace) -> str:
    outside = {Part.EMBEDDINGS: "embeddings", Part.HEAD: "head", Part.PREDICTION: "drafts", Part.TOWER: "towers",
               Part.FINAL_NORM: "norms_and_routers"}  # fmt: skip
    return outside.get(place.part, "mixer" if "attn" in place.module else "feed_forward")
