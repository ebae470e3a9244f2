"""The mixers of a known family, from its configuration."""

from dataclasses import replace

from dayzero.domain.architecture import Indexer, Mixer
from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.structure.assumed import Assumed, needed
from dayzero.stages.structure.families import Family
from dayzero.stages.structure.kinds import (
    BOTH,
    CHUNK,
    FULL,
    INDEXED,
    NONE,
    RECURRENT,
    WINDOW,
    first_sharing_layer,
    mixer_kinds,
    unrotated,
)
from dayzero.stages.structure.recurrent import recurrent_mixer

_Pair = tuple[Mixer | None, Mixer | None]


def mixers_of(config: ModelConfig, family: Family, count: int, assumed: Assumed) -> list[_Pair]:
    """Each layer's mixer and, where two run side by side, the second one."""
    if family.attention == "compressed":
        return [(mixer, None) for mixer in _compressed(config, family)]
    kinds = mixer_kinds(config, family, count, assumed)
    by_kind = {kind: _pair(kind, config, family, assumed) for kind in dict.fromkeys(kinds)}
    pairs = [by_kind[kind] for kind in kinds]
    pairs = _without_cache_of_their_own(config, _of_own_width(config, pairs))
    listed = [kind == INDEXED for kind in kinds] if config.layer_types is not None else None
    return _indexed(config, family, _unrotated(config, family, pairs, assumed), listed, assumed)


def _pair(kind: str, config: ModelConfig, family: Family, assumed: Assumed) -> _Pair:
    if kind == NONE:
        return None, None
    if kind == RECURRENT:
        return recurrent_mixer(config, family, assumed), None
    mixer = _attention(config, family, kind, assumed)
    return mixer, recurrent_mixer(config, family, assumed) if kind == BOTH else None


def _attention(config: ModelConfig, family: Family, kind: str, assumed: Assumed) -> Mixer:
    heads = needed(config, family, "num_attention_heads", config.heads)
    if family.attention == "latent":
        return _latent(config, family, heads, assumed)
    mixer = _heads(config, family, heads, kind, assumed)
    if kind == WINDOW:
        local = config.rotary.get("sliding_attention")
        theta = local.theta if local else mixer.rope_theta
        return replace(mixer, kind="attention.sliding_window", window_tokens=config.sliding_window, rope_theta=theta)
    if kind == CHUNK:
        return replace(mixer, kind="attention.chunked", chunk_tokens=config.chunk_tokens)
    return mixer if family.causal else replace(mixer, kind="attention.bidirectional", causal=False)


def _heads(config: ModelConfig, family: Family, heads: int, kind: str, assumed: Assumed) -> Mixer:
    hidden = needed(config, family, "hidden_size", config.hidden_size)
    everywhere = kind == FULL and family.window == "listed"
    stated = config.global_kv_heads if everywhere and config.global_kv_heads else config.kv_heads
    kv_heads = assumed.take("num_key_value_heads", stated, heads, "absent: every query head has its own key and value")
    width = config.global_head_dim if everywhere and config.global_head_dim else config.head_dim
    if width is None and hidden % heads:
        raise BadInputError(f"config.json states no head_dim, and hidden_size {hidden} does not divide by {heads} heads.")
    head_dim = assumed.take("head_dim", width, hidden // heads, f"absent: hidden_size {hidden} / {heads} heads")
    if heads % kv_heads:
        raise BadInputError(f"config.json: {heads} attention heads do not divide by {kv_heads} key-value heads.")
    bias = family.qkv_bias
    if bias is None:
        bias = assumed.take("attention_bias", config.attention_bias, False, f"absent: {family.name} has none by default")
    norm = {"none": None, "config": "head" if config.use_qk_norm else None}.get(family.qk_norm, family.qk_norm)
    name = "attention.mha" if kv_heads == heads else "attention.mqa" if kv_heads == 1 else "attention.gqa"
    gated = family.output_gate is True and config.output_gate is not False
    theta = config.rope_theta if family.positions == "rotary" else None
    return Mixer(name, heads, kv_heads, head_dim, head_dim, rope_theta=theta,
                 bias=bias, output_bias=bias and family.output_bias, qk_norm=norm, sinks=family.sinks,
                 positions=family.positions, output_gate="element" if gated else None, rotary_dim=_rotated(config, head_dim),
                 one_projection=everywhere and config.keys_are_values)  # fmt: skip


def _rotated(config: ModelConfig, head_dim: int) -> int | None:
    rotary = config.rotary.get("default") or config.rotary.get("full_attention")
    if rotary is None or rotary.rotated_share is None:
        return None
    return int(head_dim * rotary.rotated_share)


def _latent(config: ModelConfig, family: Family, heads: int, assumed: Assumed) -> Mixer:
    rank = needed(config, family, "kv_lora_rank", config.kv_lora_rank)
    nope = needed(config, family, "qk_nope_head_dim", config.nope_head_dim)
    rope = needed(config, family, "qk_rope_head_dim", config.rope_head_dim)
    value = needed(config, family, "v_head_dim", config.value_head_dim)
    bias = assumed.take("attention_bias", config.attention_bias, False, f"absent: {family.name} has none by default")
    if config.q_lora_rank is None:
        assumed.take("q_lora_rank", None, "none", "absent or null: queries are projected from the hidden state")
    free = config.latent_without_rotation
    return Mixer("attention.mla", heads, heads, nope + rope, value, None, config.q_lora_rank, rank, rope,
                 None if free else config.rope_theta, bias, bias and family.output_bias,
                 positions="none" if free else "rotary", output_gate="element" if config.output_gate else None)  # fmt: skip


def _ratios(config: ModelConfig, family: Family) -> tuple[int, ...]:
    """Tokens an entry for each layer (0: none): stated one by one, or by each layer's kind."""
    if config.compressed.ratios is not None:
        return config.compressed.ratios
    if config.layer_types is None:
        needed(config, family, "compress_ratios", None)
    known = {"sliding_attention": 0, **config.ratios_by_type}
    strange = sorted(set(config.layer_types or ()) - set(known))
    if strange:
        raise BadInputError(f"config.json: layer_types has {strange[0]!r}, and compress_rates does not say what that is.")
    return tuple(known[name] for name in config.layer_types or ())


def _compressed(config: ModelConfig, family: Family) -> list[Mixer]:
    """DeepSeek-V4: one key-value head that is both, a window, and entries compressed by a ratio of each layer's own."""
    heads = needed(config, family, "num_attention_heads", config.heads)
    width = needed(config, family, "head_dim", config.head_dim)
    indexer = _indexer(config, family)
    mixers = []
    for ratio in _ratios(config, family):
        mixers.append(Mixer(
            "attention.compressed", heads, 1, width, width, needed(config, family, "sliding_window", config.sliding_window),
            needed(config, family, "q_lora_rank", config.q_lora_rank), None, config.rope_head_dim, config.rope_theta,
            sinks=True, compression=ratio or None, one_projection=True,
            output_groups=needed(config, family, "o_groups", config.compressed.output_groups),
            output_lora_rank=needed(config, family, "o_lora_rank", config.compressed.output_lora_rank),
            # Entries of few tokens are many: these layers pick among them, the others read all.
            indexer=indexer if ratio and ratio < FEW_TOKENS else None,
        ))  # fmt: skip
    return mixers


FEW_TOKENS = 16
"""Layers that compress fewer tokens into an entry than this have an indexer (DeepSeek-V4: 4 have, 128 have not)."""


def _indexer(config: ModelConfig, family: Family) -> Indexer:
    heads = needed(config, family, "index_n_heads (or sparse_num_index_heads)", config.sparse.heads)
    width = needed(config, family, "index_head_dim (or sparse_index_dim)", config.sparse.head_dim)
    return Indexer(heads, width, config.sparse.top_k, config.sparse.block_tokens)


def _indexed(
    config: ModelConfig, family: Family, pairs: list[_Pair], listed: list[bool] | None, assumed: Assumed
) -> list[_Pair]:
    if not family.indexed:
        return pairs
    if config.sparse.heads is None and config.sparse.block_tokens is None and family.attention != "latent":
        assumed.take("sparse_attention_config", None, "no layer picks what it reads", "absent: attention reads everything")
        return pairs
    indexer = _indexer(config, family)
    flags = config.sparse.layers or listed or (True,) * len(pairs)
    return [
        (replace(mixer, indexer=indexer, kind=_sparse_kind(mixer)), other) if mixer and flag else (mixer, other)
        for (mixer, other), flag in zip(pairs, flags, strict=True)
    ]


def _sparse_kind(mixer: Mixer) -> str:
    return mixer.kind if mixer.kv_lora_rank is not None else "attention.sparse_indexed"


def _unrotated(config: ModelConfig, family: Family, pairs: list[_Pair], assumed: Assumed) -> list[_Pair]:
    if family.window != "chunked":
        return pairs
    free = unrotated(config, len(pairs), assumed)
    return [
        (replace(mixer, positions="none", rope_theta=None), other) if mixer and alone else (mixer, other)
        for (mixer, other), alone in zip(pairs, free, strict=True)
    ]


def _of_own_width(config: ModelConfig, pairs: list[_Pair]) -> list[_Pair]:
    changed = list(pairs)
    for index, width in config.widths_by_layer.items():
        mixer, other = changed[index] if index < len(changed) else (None, None)
        if mixer is not None:
            changed[index] = replace(mixer, head_dim=width, value_head_dim=width), other
    return changed


def _without_cache_of_their_own(config: ModelConfig, pairs: list[_Pair]) -> list[_Pair]:
    first = first_sharing_layer(config, len(pairs))
    return [
        (replace(mixer, cached=False), other) if mixer and index >= first else (mixer, other)
        for index, (mixer, other) in enumerate(pairs)
    ]
