"""Memory of each rank, item by item."""

from collections.abc import Sequence
from dataclasses import dataclass

from dayzero.domain.architecture import FeedForward, Layer, Mixer, ModelSpec
from dayzero.domain.findings import Assumption
from dayzero.domain.plan import MemoryBudget
from dayzero.domain.planning import Degrees, Workload
from dayzero.stages.layout import coordinates_of, stage_layers
from dayzero.stages.state import cache_element_bytes, cached_bytes
from dayzero.stages.weights_prediction import ELEMENT_BYTES, expert_bytes

ASSUMPTIONS = (
    Assumption("activations", "one sequence is prefilled at once, whole, with fused attention", "the serving engine decides; "
               "this needs the most memory of the usual ways"),
    Assumption("communication_buffers", "two buffers of one sequence's hidden states", "one in, one out, for each collective"),
    Assumption("reserve", "0", "no source states what the platform's runtime keeps for itself"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Demand:
    """What a rank needs besides weights: sequences on it, tokens a sequence."""

    sequences: int
    tokens: int


def demand_of(workload: Workload, degrees: Degrees) -> Demand:
    """The share of the workload that one data-parallel replica serves."""
    return Demand(-(-workload.concurrency // degrees.dp), workload.context_tokens)


def budgets_of(
    spec: ModelSpec, degrees: Degrees, weights: tuple[int, ...], workload: Workload, limit_bytes: int | None
) -> tuple[MemoryBudget, ...]:
    """One budget a rank. `weights` are the bytes of tensors in each rank's shard file; items that cannot be known (state and
    activations of an unknown architecture) are absent."""
    stages = stage_layers(len(spec.layers), degrees.pp) if spec.layers else ()
    items = [_items(spec, degrees, stage, workload) for stage in stages]
    budgets = []
    for rank, weight_bytes in enumerate(weights):
        rest = items[coordinates_of(rank, degrees).pp] if items else {}
        budgets.append(MemoryBudget(rank, {"weights": weight_bytes, **rest}, limit_bytes))
    return tuple(budgets)


def _items(spec: ModelSpec, degrees: Degrees, stage: tuple[int, int], workload: Workload) -> dict[str, int]:
    demand = demand_of(workload, degrees)
    layers = spec.layers[stage[0] : stage[1]]
    state = demand.sequences * cached_bytes(layers, demand.tokens, degrees.tp, cache_element_bytes(spec.state.dtype))
    return {
        "state": state,
        "activations": _activations(spec, degrees, stage, demand),
        "communication_buffers": _buffers(spec, degrees, demand),
        "reserve": 0,
        **_redundant(spec, degrees, layers, workload),
    }


def experts_on_rank(experts: int, redundant: int, ep: int) -> int:
    """Expert slots of one layer on one of ep ranks: each expert on one of them, redundant copies spread over all."""
    return -(-(experts + redundant) // ep)


def _redundant(spec: ModelSpec, degrees: Degrees, layers: Sequence[Layer], workload: Workload) -> dict[str, int]:
    """What redundant copies of experts take beside the weights; without expert parallelism there are none."""
    if degrees.ep == 1 or not workload.redundant_experts:
        return {}
    total = 0
    for layer in layers:
        extra = experts_on_rank(layer.experts, workload.redundant_experts, degrees.ep) - layer.experts // degrees.ep
        total += extra * expert_bytes(spec, layer) if layer.experts else 0
    return {"redundant_experts": total}


def _activations(spec: ModelSpec, degrees: Degrees, stage: tuple[int, int], demand: Demand) -> int:
    """Peak of one layer in prefill: residual stream and normed input, the wider of attention (query, key, value, output) and
    feed-forward (gate, up, product; for experts times the experts of a token); on the last stage logits in float32 of the one
    position a sequence that is sampled from."""
    hidden, element = spec.hidden_size or 0, ELEMENT_BYTES.get(spec.native_dtype or "", 2)
    widest = 0
    for layer in spec.layers[stage[0] : stage[1]]:
        attention = sum(_attention_columns(mixer) for mixer in layer.mixers) // degrees.tp
        widest = max(widest, attention, _feed_forward_columns(layer.feed_forward, degrees))
    logits = demand.sequences * (spec.vocabulary_size or 0) * 4 if stage[1] == len(spec.layers) else 0
    return demand.tokens * (2 * hidden + widest) * element + logits


def _attention_columns(mixer: Mixer) -> int:
    if mixer.recurrence is not None:
        return mixer.recurrence.conv_channels + 2 * mixer.recurrence.heads * mixer.recurrence.value_dim
    return ((mixer.heads or 0) + (mixer.kv_heads or 0)) * ((mixer.head_dim or 0) + (mixer.value_head_dim or 0))


def _feed_forward_columns(feed_forward: FeedForward | None, degrees: Degrees) -> int:
    if feed_forward is None:
        return 0
    columns = 3 * (feed_forward.intermediate_size or 0)
    if not feed_forward.routed_experts:
        return columns // degrees.tp
    columns = columns * feed_forward.experts_per_token // max(degrees.tp, degrees.ep)
    return columns + 3 * ((feed_forward.shared_intermediate_size or 0) + (feed_forward.dense_size or 0)) // degrees.tp


def _buffers(spec: ModelSpec, degrees: Degrees, demand: Demand) -> int:
    if degrees.tp == degrees.pp == degrees.ep == 1:
        return 0
    return 2 * demand.tokens * (spec.hidden_size or 0) * ELEMENT_BYTES.get(spec.native_dtype or "", 2)
