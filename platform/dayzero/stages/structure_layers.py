"""The layers of a known family, from its configuration."""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from dayzero.domain.architecture import FeedForward, Layer, Mixer
from dayzero.domain.findings import Assumption
from dayzero.errors import BadInputError
from dayzero.stages.configuration import ModelConfig
from dayzero.stages.structure_families import Family

T = TypeVar("T")


@dataclass(slots=True)
class Assumed:
    """Collects what the configuration does not state and was taken from the family's rules."""

    records: list[Assumption] = field(default_factory=list)

    def take(self, name: str, stated: T | None, otherwise: T, why: str) -> T:
        """The stated value, else the other one with a record of why."""
        if stated is not None:
            return stated
        self.records.append(Assumption(name, str(otherwise), why))
        return otherwise


def layers_of(config: ModelConfig, family: Family, assumed: Assumed) -> tuple[Layer, ...]:
    """Every layer of the language model; BadInputError when the configuration lacks what the family needs."""
    count = needed(config, family, "num_hidden_layers", config.layers)
    mixers = _mixers(config, family, count, assumed)
    sparse = _sparse_layers(config, family, count, assumed)
    dense = _dense(config, family, assumed) if not all(sparse) else None
    routed = _routed(config, family, assumed) if any(sparse) else None
    layers = []
    for index in range(count):
        feed_forward = routed if sparse[index] else dense
        assert feed_forward is not None
        layers.append(Layer(index, mixers[index], feed_forward))
    return tuple(layers)


def needed(config: ModelConfig, family: Family, name: str, value: int | None) -> int:
    """A number that the family cannot do without."""
    if value is None:
        raise BadInputError(
            f"config.json of model type {config.model_type} has no {name}, which every {family.name} model needs.",
            remedy="Ask the publisher for a complete config.json.",
        )
    return value


def _mixers(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[Mixer]:
    heads = needed(config, family, "num_attention_heads", config.heads)
    full = _latent(config, family, heads, assumed) if family.attention == "latent" else _heads(config, family, heads, assumed)
    windows = _windows(config, family, count, assumed)
    return [full if window is None else _windowed(full, window) for window in windows]


def _heads(config: ModelConfig, family: Family, heads: int, assumed: Assumed) -> Mixer:
    hidden = needed(config, family, "hidden_size", config.hidden_size)
    kv_heads = assumed.take("num_key_value_heads", config.kv_heads, heads, "absent: every query head has its own key and value")
    if config.head_dim is None and hidden % heads:
        raise BadInputError(f"config.json states no head_dim, and hidden_size {hidden} does not divide by {heads} heads.")
    head_dim = assumed.take("head_dim", config.head_dim, hidden // heads, f"absent: hidden_size {hidden} / {heads} heads")
    if heads % kv_heads:
        raise BadInputError(f"config.json: {heads} attention heads do not divide by {kv_heads} key-value heads.")
    bias = family.qkv_bias
    if bias is None:
        bias = assumed.take("attention_bias", config.attention_bias, False, f"absent: {family.name} has none by default")
    norm = {"none": None, "config": "head" if config.use_qk_norm else None}.get(family.qk_norm, family.qk_norm)
    kind = "attention.mha" if kv_heads == heads else "attention.mqa" if kv_heads == 1 else "attention.gqa"
    return Mixer(kind, heads, kv_heads, head_dim, head_dim, rope_theta=config.rope_theta, bias=bias,
                 output_bias=bias and family.output_bias, qk_norm=norm, sinks=family.sinks)  # fmt: skip


def _latent(config: ModelConfig, family: Family, heads: int, assumed: Assumed) -> Mixer:
    rank = needed(config, family, "kv_lora_rank", config.kv_lora_rank)
    nope = needed(config, family, "qk_nope_head_dim", config.nope_head_dim)
    rope = needed(config, family, "qk_rope_head_dim", config.rope_head_dim)
    value = needed(config, family, "v_head_dim", config.value_head_dim)
    bias = assumed.take("attention_bias", config.attention_bias, False, f"absent: {family.name} has none by default")
    return Mixer("attention.mla", heads, heads, nope + rope, value, None, config.q_lora_rank, rank, rope, config.rope_theta,
                 bias, bias and family.output_bias)  # fmt: skip


def _windowed(mixer: Mixer, window: int) -> Mixer:
    return replace(mixer, kind="attention.sliding_window", window_tokens=window)


def _windows(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[int | None]:
    window = config.sliding_window
    if config.layer_types is not None and window is not None:
        return [window if kind == "sliding_attention" else None for kind in config.layer_types]
    if family.window == "none" or window is None:
        return [None] * count
    if family.window == "all":
        return [window] * count
    if family.window == "flagged":
        first = config.max_window_layers if config.max_window_layers is not None else count
        return [window if config.use_sliding_window and index >= first else None for index in range(count)]
    every = 2 if family.window == "alternate" else assumed.take(
        "sliding_window_pattern", config.sliding_window_pattern, 6, f"absent: the {family.name} implementation takes 6"
    )  # fmt: skip
    assumed.take("layer_types", None, f"full attention in every {every}th layer", f"absent: the {family.name} rule")
    return [None if (index + 1) % every == 0 else window for index in range(count)]


def _sparse_layers(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[bool]:
    if family.experts == "none" or config.routed_experts is None:
        return [False] * count
    if family.experts == "step":
        step = assumed.take("decoder_sparse_step", config.sparse_step, 1, "absent: every layer has experts")
        return [index not in config.dense_layers and step > 0 and (index + 1) % step == 0 for index in range(count)]
    if family.experts == "first_dense":
        first = assumed.take("first_k_dense_replace", config.first_dense_layers, 0, "absent: no layer is dense")
        if isinstance(config.moe_layer_frequency, tuple):
            return [bool(flag) for flag in config.moe_layer_frequency]
        frequency = assumed.take("moe_layer_freq", config.moe_layer_frequency, 1, "absent: every later layer has experts")
        return [index >= first and index % frequency == 0 for index in range(count)]
    return [True] * count


def _dense(config: ModelConfig, family: Family, assumed: Assumed) -> FeedForward:
    size = needed(config, family, "intermediate_size", config.intermediate_size)
    activation = assumed.take("hidden_act", config.activation, family.activation, f"absent: {family.name} default")
    return FeedForward("mlp.gated", size, activation, bias=bool(config.mlp_bias))


def _routed(config: ModelConfig, family: Family, assumed: Assumed) -> FeedForward:
    stated = config.moe_intermediate_size
    size = needed(config, family, "moe_intermediate_size", stated if stated is not None else config.intermediate_size)
    top_k = needed(config, family, "num_experts_per_tok", config.experts_per_token)
    experts = needed(config, family, "number of experts", config.routed_experts)
    if top_k > experts:
        raise BadInputError(f"config.json: {top_k} experts per token of {experts} experts.")
    shared = config.shared_experts or 0
    shared_size = shared * size or None
    if family.shared_gate:
        shared_size = needed(config, family, "shared_expert_intermediate_size", config.shared_intermediate_size)
        shared = 1
    scoring = assumed.take("scoring_func", config.scoring, family.scoring or "softmax", f"absent: {family.name} default")
    activation = assumed.take("hidden_act", config.activation, family.activation, f"absent: {family.name} default")
    return FeedForward("moe.routed", size, activation, experts, shared, top_k, shared_size, scoring, config.groups,
                       bias=family.experts == "fused")  # fmt: skip
