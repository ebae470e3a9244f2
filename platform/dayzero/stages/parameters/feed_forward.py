"""The tensors of a feed-forward: dense, routed experts, what joins them."""

from collections.abc import Iterator

from dayzero.domain.architecture import FeedForward
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.structure.families import Family

DENSE, EXPERTS, ROUTER, LATENT = "feed_forward", "experts", "router", "latent_projections"


def feed_forward_tensors(at: int, feed_forward: FeedForward, family: Family, hidden: int) -> Iterator[ExpectedTensor]:
    """Every tensor of one layer's feed-forward (no router correction bias)."""
    if not feed_forward.routed_experts:
        block = "mixer" if family.layout == "blocks" else "mlp" if family.block == "block_sparse_moe" else family.block
        yield from _dense(at, block, hidden, feed_forward.intermediate_size or 0, feed_forward)
        return
    if family.experts == "fused":
        yield from _fused(at, feed_forward, hidden)
        return
    block = "mixer" if family.layout == "blocks" else family.block
    yield ExpectedTensor(at, f"{block}.gate.weight", (feed_forward.routed_experts + feed_forward.zero_experts, hidden), ROUTER)
    yield from _experts(at, block, feed_forward, family, hidden)
    if feed_forward.shared_intermediate_size:
        shared = f"{block}.shared_expert" if family.shared_gate else f"{block}.shared_experts"
        yield from _dense(at, shared, hidden, feed_forward.shared_intermediate_size, feed_forward)
    if family.shared_gate:
        yield ExpectedTensor(at, f"{block}.shared_expert_gate.weight", (1, hidden), ROUTER)
    if feed_forward.dense_size:
        yield from _dense(at, "mlp", hidden, feed_forward.dense_size, feed_forward)
    if family.experts == "beside":
        yield from _beside(at, feed_forward, hidden)


def _experts(at: int, block: str, feed_forward: FeedForward, family: Family, hidden: int) -> Iterator[ExpectedTensor]:
    count, size = feed_forward.routed_experts, feed_forward.intermediate_size or 0
    width = feed_forward.latent_size or hidden
    gate, up, down = ("w1", "w3", "w2") if family.block == "block_sparse_moe" else ("gate_proj", "up_proj", "down_proj")
    rows = [(up, (size, width)), (down, (width, size))]
    if feed_forward.gated:
        rows.insert(0, (gate, (size, width)))
    for name, shape in rows:
        yield ExpectedTensor(at, f"{block}.experts.{{e}}.{name}.weight", shape, EXPERTS, count)
    if feed_forward.latent_size:
        into, back = ("fc1_latent_proj", "fc2_latent_proj") if family.layout == "blocks" else (
            "routed_expert_down_proj", "routed_expert_up_proj")  # fmt: skip
        yield ExpectedTensor(at, f"{block}.{into}.weight", (width, hidden), LATENT)
        yield ExpectedTensor(at, f"{block}.{back}.weight", (hidden, width), LATENT)
        if feed_forward.latent_norm:
            yield ExpectedTensor(at, f"{block}.routed_expert_norm.weight", (width,), "norms")


def _fused(at: int, feed_forward: FeedForward, hidden: int) -> Iterator[ExpectedTensor]:
    """gpt-oss: all experts in one tensor, with biases."""
    count, size = feed_forward.routed_experts, feed_forward.intermediate_size or 0
    yield ExpectedTensor(at, "mlp.router.weight", (count, hidden), ROUTER)
    yield ExpectedTensor(at, "mlp.router.bias", (count,), ROUTER)
    yield ExpectedTensor(at, "mlp.experts.gate_up_proj", (count, hidden, 2 * size), EXPERTS)
    yield ExpectedTensor(at, "mlp.experts.gate_up_proj_bias", (count, 2 * size), EXPERTS)
    yield ExpectedTensor(at, "mlp.experts.down_proj", (count, size, hidden), EXPERTS)
    yield ExpectedTensor(at, "mlp.experts.down_proj_bias", (count, hidden), EXPERTS)


def _beside(at: int, feed_forward: FeedForward, hidden: int) -> Iterator[ExpectedTensor]:
    """Gemma-4: norms around the experts and the dense feed-forward next to them, and scales of the router's."""
    for name in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
        yield ExpectedTensor(at, f"{name}.weight", (hidden,), "norms")
    yield ExpectedTensor(at, "router.scale", (hidden,), ROUTER)
    yield ExpectedTensor(at, "router.per_expert_scale", (feed_forward.routed_experts,), ROUTER)


def _dense(at: int, prefix: str, hidden: int, size: int, feed_forward: FeedForward) -> Iterator[ExpectedTensor]:
    rows = [("up_proj", (size, hidden)), ("down_proj", (hidden, size))]
    if feed_forward.gated:
        rows.insert(0, ("gate_proj", (size, hidden)))
    for name, shape in rows:
        yield ExpectedTensor(at, f"{prefix}.{name}.weight", shape, DENSE)
        if feed_forward.bias:
            yield ExpectedTensor(at, f"{prefix}.{name}.bias", shape[:1], DENSE)
