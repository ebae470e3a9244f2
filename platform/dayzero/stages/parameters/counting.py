"""The tensors that a known family is made of, from which parameters are counted in closed form."""

from collections import Counter
from collections.abc import Iterator

from dayzero.domain.architecture import Layer, ModelSpec
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.parameters.feed_forward import feed_forward_tensors
from dayzero.stages.parameters.mixers import mixer_tensors
from dayzero.stages.structure.families import Family, family_of

EMBEDDINGS, HEAD, NORMS, RESIDUAL = "embeddings", "head", "norms", "residual"


def expected_tensors(spec: ModelSpec) -> tuple[ExpectedTensor, ...]:
    """Every tensor of the language model (no multi-token prediction, no towers, no router correction bias); () when the
    family or a size is unknown."""
    family, outside = family_of(spec), around_layers(spec)
    if family is None or not outside:
        return ()
    return (*outside, *(tensor for layer in spec.layers for tensor in layer_tensors(layer, family, spec)))


def around_layers(spec: ModelSpec) -> tuple[ExpectedTensor, ...]:
    """The tensors outside of the layers; () when the family or a size is unknown."""
    family = family_of(spec)
    if family is None or spec.hidden_size is None or spec.vocabulary_size is None or spec.tied_embeddings is None:
        return ()
    hidden, table = spec.hidden_size, (spec.vocabulary_size, spec.hidden_size)
    tensors = [ExpectedTensor(None, "embed_tokens.weight", table, EMBEDDINGS), *_positions(spec, family, hidden)]
    tensors += _layer_inputs(spec, hidden)
    tensors += _outside(spec, family, hidden)
    if not spec.tied_embeddings:
        tensors.append(ExpectedTensor(None, "lm_head.weight", table, HEAD))
    return tuple(tensors)


def components_of(tensors: tuple[ExpectedTensor, ...]) -> Counter[str]:
    """Elements by component."""
    elements: Counter[str] = Counter()
    for tensor in tensors:
        elements[tensor.component] += tensor.elements
    return elements


def idle_elements(spec: ModelSpec, expert_elements: int) -> int:
    """Of the elements of all routed experts, those that one token does not touch."""
    routed = [layer.feed_forward for layer in spec.layers if layer.feed_forward and layer.feed_forward.routed_experts]
    slots = sum(feed_forward.routed_experts for feed_forward in routed)
    if not slots:
        return 0
    used = sum(min(feed_forward.experts_per_token, feed_forward.routed_experts) for feed_forward in routed)
    # Every routed expert of one model has the same size, so elements divide by slots without a rest.
    return expert_elements * (slots - used) // slots


def layer_tensors(layer: Layer, family: Family, spec: ModelSpec) -> Iterator[ExpectedTensor]:
    """The tensors of one layer."""
    at, hidden = layer.index, spec.hidden_size or 0
    for name in family.norms:
        yield ExpectedTensor(at, f"{name}.weight", (hidden,), NORMS)
        if family.norm == "norm.layer":
            yield ExpectedTensor(at, f"{name}.bias", (hidden,), NORMS)
    for mixer in layer.mixers:
        yield from mixer_tensors(at, mixer, family, hidden)
    if layer.feed_forward is not None:
        yield from feed_forward_tensors(at, layer.feed_forward, family, hidden)
    yield from _residual(at, spec)
    if spec.layer_input_width:
        yield ExpectedTensor(at, "per_layer_input_gate.weight", (spec.layer_input_width, hidden), "feed_forward")
        yield ExpectedTensor(at, "per_layer_projection.weight", (hidden, spec.layer_input_width), "feed_forward")
        yield ExpectedTensor(at, "post_per_layer_input_norm.weight", (hidden,), NORMS)


def correction_biases(spec: ModelSpec) -> int:
    """Elements of the biases that steer routing; the checkpoint holds them, totals leave them out."""
    routed = [layer.feed_forward for layer in spec.layers if layer.feed_forward and layer.feed_forward.correction_bias]
    return sum(feed_forward.routed_experts + feed_forward.zero_experts for feed_forward in routed)


def _residual(at: int, spec: ModelSpec) -> Iterator[ExpectedTensor]:
    """What mixes residual streams: hyper-connections (DeepSeek-V4: for each of attention and feed-forward, weights over all
    streams for reading, writing and mixing) or attention over earlier blocks (Kimi-K3: a norm and a query each)."""
    hidden, streams = spec.hidden_size or 0, spec.residual_streams
    if spec.residual == "hyper_connections":
        rows = (2 + streams) * streams
        for name in ("attn_hc", "ffn_hc"):
            yield ExpectedTensor(at, f"{name}.fn", (rows, streams * hidden), RESIDUAL)
            yield ExpectedTensor(at, f"{name}.base", (rows,), RESIDUAL)
            yield ExpectedTensor(at, f"{name}.scale", (3,), RESIDUAL)
    if spec.residual == "attention":
        for name in ("self_attention_res", "mlp_res"):
            yield ExpectedTensor(at, f"{name}_norm.weight", (hidden,), RESIDUAL)
            yield ExpectedTensor(at, f"{name}_proj.weight", (1, hidden), RESIDUAL)


def _layer_inputs(spec: ModelSpec, hidden: int) -> Iterator[ExpectedTensor]:
    """A second embedding with a slice for each layer, and a projection into all slices (Gemma-3n, Gemma-4)."""
    width = spec.layer_input_width * len(spec.layers)
    if width:
        yield ExpectedTensor(None, "embed_tokens_per_layer.weight", (spec.layer_input_vocabulary, width), "layer_inputs")
        yield ExpectedTensor(None, "per_layer_model_projection.weight", (width, hidden), "layer_inputs")
        yield ExpectedTensor(None, "per_layer_projection_norm.weight", (spec.layer_input_width,), NORMS)


def _positions(spec: ModelSpec, family: Family, hidden: int) -> Iterator[ExpectedTensor]:
    if family.positions != "learned":
        return
    yield ExpectedTensor(None, "position_embeddings.weight", (spec.context_tokens or 0, hidden), EMBEDDINGS)
    if spec.segments:
        yield ExpectedTensor(None, "token_type_embeddings.weight", (spec.segments, hidden), EMBEDDINGS)


def _outside(spec: ModelSpec, family: Family, hidden: int) -> Iterator[ExpectedTensor]:
    """What stands behind the last layer (an encoder: its embeddings' norm and its pooler)."""
    streams = spec.residual_streams
    if not family.causal:
        yield ExpectedTensor(None, "embeddings.LayerNorm.weight", (hidden,), NORMS)
        yield ExpectedTensor(None, "embeddings.LayerNorm.bias", (hidden,), NORMS)
        yield ExpectedTensor(None, "pooler.dense.weight", (hidden, hidden), HEAD)
        yield ExpectedTensor(None, "pooler.dense.bias", (hidden,), HEAD)
        return
    yield ExpectedTensor(None, "norm.weight", (hidden,), NORMS)
    if family.norm == "norm.layer":
        yield ExpectedTensor(None, "norm.bias", (hidden,), NORMS)
    if spec.residual == "hyper_connections":
        yield ExpectedTensor(None, "hc_head.hc_fn", (streams, streams * hidden), RESIDUAL)
        yield ExpectedTensor(None, "hc_head.hc_base", (streams,), RESIDUAL)
        yield ExpectedTensor(None, "hc_head.hc_scale", (1,), RESIDUAL)
    if spec.residual == "attention":
        yield ExpectedTensor(None, "output_attn_res_norm.weight", (hidden,), RESIDUAL)
        yield ExpectedTensor(None, "output_attn_res_proj.weight", (1, hidden), RESIDUAL)
