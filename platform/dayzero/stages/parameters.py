"""The tensors that a known family is made of, from which parameters are counted in closed form."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from dayzero.domain.architecture import FeedForward, Layer, Mixer, ModelSpec
from dayzero.stages.structure_families import FAMILIES, Family


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """A tensor of the reference implementation: its layer (None: outside of them), name below the layer, shape, component.

    `experts` tensors of the same shape stand behind one whose name holds `{e}`; `experts_held` is how many experts a tensor
    holds in its first dimension (fused experts), else 1.
    """

    layer: int | None
    name: str
    shape: tuple[int, ...]
    component: str
    experts: int = 1

    @property
    def elements(self) -> int:
        """Elements over all experts."""
        return self.experts * prod(self.shape)


def expected_tensors(spec: ModelSpec) -> tuple[ExpectedTensor, ...]:
    """Every tensor of the language model (no multi-token prediction, no towers, no router correction bias); () when the
    family or a size is unknown."""
    family = FAMILIES.get(spec.family or "")
    if family is None or spec.hidden_size is None or spec.vocabulary_size is None or spec.tied_embeddings is None:
        return ()
    hidden, table = spec.hidden_size, (spec.vocabulary_size, spec.hidden_size)
    tensors = [ExpectedTensor(None, "embed_tokens.weight", table, "embeddings")]
    for layer in spec.layers:
        tensors += _layer(layer, family, hidden)
    tensors.append(ExpectedTensor(None, "norm.weight", (hidden,), "norms"))
    if not spec.tied_embeddings:
        tensors.append(ExpectedTensor(None, "lm_head.weight", table, "head"))
    return tuple(tensors)


def components_of(tensors: tuple[ExpectedTensor, ...]) -> Counter[str]:
    """Elements by component."""
    elements: Counter[str] = Counter()
    for tensor in tensors:
        elements[tensor.component] += tensor.elements
    return elements


def idle_elements(spec: ModelSpec, expert_elements: int) -> int:
    """Of the elements of all routed experts, those that one token does not touch."""
    routed = [layer.feed_forward for layer in spec.layers if layer.feed_forward.routed_experts]
    slots = sum(feed_forward.routed_experts for feed_forward in routed)
    if not slots:
        return 0
    used = sum(feed_forward.experts_per_token for feed_forward in routed)
    # Every routed expert of one model has the same size, so elements divide by slots without a rest.
    return expert_elements * (slots - used) // slots


def _layer(layer: Layer, family: Family, hidden: int) -> Iterator[ExpectedTensor]:
    at = layer.index
    for norm in family.norms:
        yield ExpectedTensor(at, f"{norm}.weight", (hidden,), "norms")
    for name, shape in _attention(layer.mixer, hidden):
        yield ExpectedTensor(at, f"self_attn.{name}", shape, "norms" if "norm" in name else "attention")
    feed_forward = layer.feed_forward
    if feed_forward.routed_experts:
        yield from _experts(at, feed_forward, family, hidden)
    else:
        yield from _gated(at, "mlp", hidden, feed_forward.intermediate_size or 0, feed_forward.bias)


def _attention(mixer: Mixer, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    heads, width = mixer.heads or 0, mixer.head_dim or 0
    if mixer.kv_lora_rank is not None:
        yield from _latent(mixer, hidden)
        return
    query, key = heads * width, (mixer.kv_heads or 0) * width
    for name, rows in (("q_proj", query), ("k_proj", key), ("v_proj", key)):
        yield f"{name}.weight", (rows, hidden)
        if mixer.bias:
            yield f"{name}.bias", (rows,)
    yield "o_proj.weight", (hidden, query)
    if mixer.output_bias:
        yield "o_proj.bias", (hidden,)
    if mixer.qk_norm:
        full = mixer.qk_norm == "full"
        yield "q_norm.weight", (query if full else width,)
        yield "k_norm.weight", (key if full else width,)
    if mixer.sinks:
        yield "sinks", (heads,)


def _latent(mixer: Mixer, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    heads, rank, rope = mixer.heads or 0, mixer.kv_lora_rank or 0, mixer.rope_head_dim or 0
    query, value = heads * (mixer.head_dim or 0), mixer.value_head_dim or 0
    if mixer.q_lora_rank:
        yield "q_a_proj.weight", (mixer.q_lora_rank, hidden)
        yield "q_a_layernorm.weight", (mixer.q_lora_rank,)
        yield "q_b_proj.weight", (query, mixer.q_lora_rank)
        if mixer.bias:
            yield "q_a_proj.bias", (mixer.q_lora_rank,)
    else:
        yield "q_proj.weight", (query, hidden)
    yield "kv_a_proj_with_mqa.weight", (rank + rope, hidden)
    yield "kv_a_layernorm.weight", (rank,)
    yield "kv_b_proj.weight", (heads * ((mixer.head_dim or 0) - rope + value), rank)
    yield "o_proj.weight", (hidden, heads * value)
    if mixer.bias:
        yield "kv_a_proj_with_mqa.bias", (rank + rope,)
    if mixer.output_bias:
        yield "o_proj.bias", (hidden,)


def _gated(at: int, prefix: str, hidden: int, size: int, bias: bool) -> Iterator[ExpectedTensor]:
    for name, shape in (("gate_proj", (size, hidden)), ("up_proj", (size, hidden)), ("down_proj", (hidden, size))):
        yield ExpectedTensor(at, f"{prefix}.{name}.weight", shape, "feed_forward")
        if bias:
            yield ExpectedTensor(at, f"{prefix}.{name}.bias", shape[:1], "feed_forward")


def _experts(at: int, feed_forward: FeedForward, family: Family, hidden: int) -> Iterator[ExpectedTensor]:
    count, size = feed_forward.routed_experts, feed_forward.intermediate_size or 0
    if family.experts == "fused":
        yield ExpectedTensor(at, "mlp.router.weight", (count, hidden), "router")
        yield ExpectedTensor(at, "mlp.router.bias", (count,), "router")
        yield ExpectedTensor(at, "mlp.experts.gate_up_proj", (count, hidden, 2 * size), "experts")
        yield ExpectedTensor(at, "mlp.experts.gate_up_proj_bias", (count, 2 * size), "experts")
        yield ExpectedTensor(at, "mlp.experts.down_proj", (count, size, hidden), "experts")
        yield ExpectedTensor(at, "mlp.experts.down_proj_bias", (count, hidden), "experts")
        return
    block, names = ("block_sparse_moe", ("w1", "w3", "w2")) if family.experts == "mixtral" else (
        "mlp", ("gate_proj", "up_proj", "down_proj"))  # fmt: skip
    yield ExpectedTensor(at, f"{block}.gate.weight", (count, hidden), "router")
    for name, shape in zip(names, ((size, hidden), (size, hidden), (hidden, size)), strict=True):
        yield ExpectedTensor(at, f"{block}.experts.{{e}}.{name}.weight", shape, "experts", count)
    if feed_forward.shared_intermediate_size:
        shared = "mlp.shared_expert" if family.shared_gate else "mlp.shared_experts"
        yield from _gated(at, shared, hidden, feed_forward.shared_intermediate_size, False)
    if family.shared_gate:
        yield ExpectedTensor(at, "mlp.shared_expert_gate.weight", (1, hidden), "router")
