"""Which layer is of which kind: one word for each layer's mixer and feed-forward, from lists, patterns, periods and steps."""

from collections.abc import Sequence

from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.structure.assumed import Assumed
from dayzero.stages.structure.families import Family

FULL, WINDOW, CHUNK, RECURRENT, BOTH, NONE = "full", "window", "chunk", "recurrent", "both", "none"
INDEXED = "indexed"
DENSE, EXPERTS = "dense", "experts"
_LISTED = {
    "full_attention": FULL, "attention": FULL, "global_attention": FULL, "sliding_attention": WINDOW, "local_attention": WINDOW,
    "chunked_attention": CHUNK, "linear_attention": RECURRENT, "mamba": RECURRENT, "hybrid": BOTH,
    "indexed_attention": INDEXED, "deepseek_sparse_attention": INDEXED, "minimax_m3_sparse": INDEXED,
}  # fmt: skip


def mixer_kinds(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> Sequence[str]:
    """One of full, indexed, window, chunk, recurrent, both, none for each layer; BadInputError for a kind nobody knows."""
    if family.layout == "beside":
        return [BOTH] * count
    if family.layout == "blocks":
        mixers = {"attention": FULL, "full_attention": FULL, "mamba": RECURRENT, "linear_attention": RECURRENT}
        return [mixers.get(block, NONE) for block in _blocks(config, family)]
    if family.layout == "lists" and config.layer_types is None:
        return _from_lists(config, family, count, assumed)
    if family.layout == "periods":
        period = assumed.take("attn_layer_period", config.hybrid.attention_period, 8, f"absent: the {family.name} rule")
        offset = assumed.take("attn_layer_offset", config.hybrid.attention_offset, 4, f"absent: the {family.name} rule")
        return [FULL if index % period == offset else RECURRENT for index in range(count)]
    if family.layout == "flags" and config.hybrid.flags is not None:
        return [FULL if flag else RECURRENT for flag in config.hybrid.flags]
    if config.layer_types is not None:
        return _from_types(config)
    if family.layout in ("listed", "flags"):
        every = config.hybrid.full_interval or (8 if family.layout == "flags" else 4)
        assumed.take("layer_types", None, f"full attention in every {every}th layer", f"absent: the {family.name} rule")
        return [FULL if (index + 1) % every == 0 else RECURRENT for index in range(count)]
    return _windows(config, family, count, assumed)


def _from_types(config: ModelConfig) -> list[str]:
    kinds = []
    for name in config.layer_types or ():
        if name not in _LISTED:
            raise BadInputError(
                f"config.json: layer_types has {name!r}, an attention kind that nobody knows here.",
                remedy=f"Known are {', '.join(sorted(_LISTED))}.",
            )
        kind = _LISTED[name]
        kinds.append(FULL if kind == WINDOW and config.sliding_window is None else kind)
    return kinds


def _from_lists(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[str]:
    full, linear = config.hybrid.full_layers, config.hybrid.linear_layers
    if full is None and linear is None:
        assumed.take("linear_attn_config", None, "full attention in every 4th layer", f"absent: the {family.name} rule")
        return [FULL if (index + 1) % 4 == 0 else RECURRENT for index in range(count)]
    if full is not None:
        return [FULL if index in full else RECURRENT for index in range(count)]
    return [RECURRENT if index in (linear or ()) else FULL for index in range(count)]


def _blocks(config: ModelConfig, family: Family) -> tuple[str, ...]:
    if config.hybrid.blocks is None:
        raise BadInputError(
            f"config.json of model type {config.model_type} has no hybrid_override_pattern (or layers_block_type), which every "
            f"{family.name} model needs.",
            remedy="Ask the publisher for a complete config.json.",
        )
    return config.hybrid.blocks


def _windows(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[str]:
    if family.window == "chunked":
        return _chunked(config, count, assumed)
    if family.window in ("none", "listed") or config.sliding_window is None:
        return [FULL] * count
    if family.window == "all":
        return [WINDOW] * count
    if family.window == "flagged":
        first = config.max_window_layers if config.max_window_layers is not None else count
        return [WINDOW if config.use_sliding_window and index >= first else FULL for index in range(count)]
    every = 2 if family.window == "alternate" else assumed.take(
        "sliding_window_pattern", config.sliding_window_pattern, 6, f"absent: the {family.name} implementation takes 6"
    )  # fmt: skip
    assumed.take("layer_types", None, f"full attention in every {every}th layer", f"absent: the {family.name} rule")
    return [FULL if (index + 1) % every == 0 else WINDOW for index in range(count)]


def first_sharing_layer(config: ModelConfig, count: int) -> int:
    """The first of the last layers that read an earlier layer's cache; `count` where there are none."""
    return count - min(config.cache_shared_layers, count)


def unrotated(config: ModelConfig, count: int, assumed: Assumed) -> list[bool]:
    """Whether each layer of a chunked model goes without positions (then it also sees everything)."""
    if config.unrotated_layers is not None:
        return [not flag for flag in config.unrotated_layers]
    every = assumed.take(
        "no_rope_layer_interval", config.unrotated_interval, 4, "absent: the llama4_text implementation takes 4"
    )
    return [(index + 1) % every == 0 for index in range(count)]


def _chunked(config: ModelConfig, count: int, assumed: Assumed) -> list[str]:
    if config.chunk_tokens is None:
        return [FULL] * count
    return [FULL if free else CHUNK for free in unrotated(config, count, assumed)]


def feed_forward_kinds(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> Sequence[str]:
    """One of dense, experts or none for each layer."""
    if family.layout == "blocks":
        return [{"mlp": DENSE, "moe": EXPERTS}.get(block, NONE) for block in _blocks(config, family)]
    if family.experts == "none" or config.routed_experts is None:
        return [DENSE] * count
    if config.feed_forward_types is not None:
        return [DENSE if name == "dense" else EXPERTS for name in config.feed_forward_types]
    return [EXPERTS if sparse else DENSE for sparse in _sparse(config, family, count, assumed)]


def _sparse(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[bool]:
    if family.experts == "step":
        step = assumed.take("decoder_sparse_step", config.sparse_step, 1, "absent: every layer has experts")
        return [index not in config.dense_layers and step > 0 and (index + 1) % step == 0 for index in range(count)]
    if family.experts == "first_half":
        return [index % 2 == 0 for index in range(count)]
    if family.experts == "first_dense":
        first = assumed.take("first_k_dense_replace", config.first_dense_layers, 0, "absent: no layer is dense")
        if isinstance(config.moe_layer_frequency, tuple):
            return [bool(flag) for flag in config.moe_layer_frequency]
        frequency = assumed.take("moe_layer_freq", config.moe_layer_frequency, 1, "absent: every later layer has experts")
        return [index >= first and index % frequency == 0 for index in range(count)]
    if family.experts == "interleaved":
        if config.expert_layers is not None:
            return [index in config.expert_layers for index in range(count)]
        step = assumed.take("interleave_moe_layer_step", config.expert_step, 1, "absent: every layer has experts")
        return [step > 0 and (index + 1) % step == 0 for index in range(count)]
    if family.experts == "periods":
        period = assumed.take("expert_layer_period", config.hybrid.expert_period, 2, f"absent: the {family.name} rule")
        offset = assumed.take("expert_layer_offset", config.hybrid.expert_offset, 1, f"absent: the {family.name} rule")
        return [index % period == offset for index in range(count)]
    return [True] * count
