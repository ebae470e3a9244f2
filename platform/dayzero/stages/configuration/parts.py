"""The parts of a configuration that only some architectures have: recurrent mixers, sparse attention, compression, hybrids."""

from dataclasses import dataclass

from dayzero.errors import BadInputError
from dayzero.stages.configuration.fields import Fields

MAX_HEADS = 1_000_000


@dataclass(frozen=True, slots=True)
class LinearFields:
    """What a configuration says of its linear-attention layers; None where it does not."""

    value_heads: int | None
    key_heads: int | None
    key_dim: int | None
    value_dim: int | None
    conv_kernel: int | None
    full_rank_gate: bool


@dataclass(frozen=True, slots=True)
class StateSpaceFields:
    """What a configuration says of its state-space (Mamba) layers; None where it does not."""

    heads: int | None
    head_dim: int | None
    state_size: int | None
    groups: int | None
    conv_kernel: int | None
    inner_size: int | None
    expansion: int | None
    step_rank: int | None
    conv_bias: bool | None
    proj_bias: bool | None
    inner_norm: bool | None
    state_dtype: str | None


@dataclass(frozen=True, slots=True)
class SparseFields:
    """What a configuration says of the indexer that picks what attention reads; `layers` flags the layers that have one."""

    heads: int | None
    head_dim: int | None
    top_k: int | None
    block_tokens: int | None
    layers: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class CompressedFields:
    """What a configuration says of compressed caches: tokens an entry for each layer (0: no compression), and the rest."""

    ratios: tuple[int, ...] | None
    output_groups: int | None
    output_lora_rank: int | None
    hash_layers: int | None
    rope_theta: float | None


@dataclass(frozen=True, slots=True)
class HybridFields:
    """How a configuration says which layer is of which kind.

    `linear_layers` and `full_layers` are 0-based; `blocks` names each block of a model whose blocks hold one part only.
    """

    linear_layers: tuple[int, ...] | None
    full_layers: tuple[int, ...] | None
    blocks: tuple[str, ...] | None
    prediction_blocks: tuple[str, ...] | None
    attention_period: int | None
    attention_offset: int | None
    expert_period: int | None
    expert_offset: int | None
    full_interval: int | None
    flags: tuple[int, ...] | None


_BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def linear_fields(fields: Fields) -> LinearFields:
    """The linear-attention part; Kimi keeps it in an object of its own, whose heads are all of one kind."""
    nested = fields.inside("linear_attn_config")
    if nested is not None:
        heads = nested.count("num_heads", most=MAX_HEADS)
        width = nested.count("head_dim", most=MAX_HEADS)
        return LinearFields(heads, heads, width, width, nested.count("short_conv_kernel_size"),
                            nested.flag("use_full_rank_gate") or False)  # fmt: skip
    return LinearFields(
        value_heads=fields.count("linear_num_value_heads", "linear_num_heads", most=MAX_HEADS),
        key_heads=fields.count("linear_num_key_heads", "linear_num_heads", most=MAX_HEADS),
        key_dim=fields.count("linear_key_head_dim", "linear_head_dim"),
        value_dim=fields.count("linear_value_head_dim", "linear_head_dim"),
        conv_kernel=fields.count("linear_conv_kernel_dim"),
        full_rank_gate=False,
    )


def state_space_fields(fields: Fields) -> StateSpaceFields:
    """The state-space part, under the names of each family."""
    return StateSpaceFields(
        heads=fields.count("mamba_num_heads", "mamba_n_heads", most=MAX_HEADS),
        head_dim=fields.count("mamba_head_dim", "mamba_d_head"),
        state_size=fields.count("ssm_state_size", "mamba_d_state", "state_size"),
        groups=fields.count("mamba_n_groups", "n_groups"),
        conv_kernel=fields.count("conv_kernel", "mamba_d_conv"),
        inner_size=fields.count("mamba_d_ssm", "mamba_intermediate_size"),
        expansion=fields.count("mamba_expand", "expand"),
        step_rank=fields.count("mamba_dt_rank", "time_step_rank"),
        conv_bias=fields.flag("mamba_conv_bias", "use_conv_bias"),
        proj_bias=fields.flag("mamba_proj_bias"),
        inner_norm=fields.flag("mamba_rms_norm"),
        state_dtype=fields.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
    )


def sparse_fields(fields: Fields, layers: int | None) -> SparseFields:
    """The indexer; MiniMax keeps it in an object of its own and picks blocks of tokens."""
    nested = fields.inside("sparse_attention_config")
    if nested is not None and nested.flag("use_sparse_attention") is not False:
        return SparseFields(
            nested.count("sparse_num_index_heads", most=MAX_HEADS),
            nested.count("sparse_index_dim"),
            nested.count("sparse_topk_blocks"),
            nested.count("sparse_block_size"),
            nested.flags("sparse_attention_freq", layers),
        )
    return SparseFields(
        heads=fields.count("index_n_heads", most=MAX_HEADS),
        head_dim=fields.count("index_head_dim"),
        top_k=fields.count("index_topk", "index_topk_blocks"),
        block_tokens=fields.count("index_block_size"),
        layers=None,
    )


def compressed_fields(fields: Fields, layers: int | None) -> CompressedFields:
    """The compressed cache of DeepSeek-V4 and its like."""
    return CompressedFields(
        ratios=fields.counts_for("compress_ratios", layers),
        output_groups=fields.count("o_groups"),
        output_lora_rank=fields.count("o_lora_rank"),
        hash_layers=fields.count("num_hash_layers", least=0),
        rope_theta=fields.number("compress_rope_theta"),
    )


def hybrid_fields(fields: Fields, layers: int | None) -> HybridFields:
    """Which layer is what; BadInputError where lists do not cover the layers exactly once."""
    nested = fields.inside("linear_attn_config")
    linear = _zero_based(nested.counts("kda_layers") if nested else None)
    full = _zero_based(nested.counts("full_attn_layers") if nested else None)
    if linear is not None and full is not None and layers is not None:
        _require_cover("kda_layers and full_attn_layers", (*linear, *full), layers)
    return HybridFields(
        linear_layers=linear,
        full_layers=full,
        blocks=_blocks(fields, "hybrid_override_pattern", "layers_block_type", layers),
        prediction_blocks=_blocks(fields, "mtp_hybrid_override_pattern", "mtp_layers_block_type", None),
        attention_period=fields.count("attn_layer_period"),
        attention_offset=fields.count("attn_layer_offset", least=0),
        expert_period=fields.count("expert_layer_period"),
        expert_offset=fields.count("expert_layer_offset", least=0),
        full_interval=fields.count("full_attention_interval"),
        flags=fields.flags("attn_type_list", layers),
    )


def layer_count(fields: Fields, most: int) -> int | None:
    """How many layers the configuration states; models of single blocks may state them by their list alone."""
    stated = fields.count("num_hidden_layers", "n_layer", "n_layers", "num_layers", most=most)
    if stated is not None:
        return stated
    blocks = _blocks(fields, "hybrid_override_pattern", "layers_block_type", None)
    return len(blocks) if blocks and len(blocks) <= most else None


def ratios_by_type(fields: Fields) -> dict[str, int]:
    """Tokens that one compressed entry stands for, by the kind of layer; {} where layers state them one by one."""
    nested = fields.inside("compress_rates")
    if nested is None:
        return {}
    names = ("compressed_sparse_attention", "heavily_compressed_attention")
    return {name: ratio for name in names if (ratio := nested.count(name)) is not None}


def widths_by_layer(fields: Fields) -> dict[int, int]:
    """Head widths of single layers that differ from the rest, by 0-based index."""
    nested = fields.mapping("per_layer_config") or {}
    found = {}
    for name, value in nested.items():
        width = Fields(value, {}).count("head_dim", most=MAX_HEADS) if isinstance(value, dict) else None
        if name.isdigit() and len(name) < 7 and width is not None:
            found[int(name)] = width
    return found


def _zero_based(numbers: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Layer lists of these configurations count from 1: their last entry is the number of layers."""
    if numbers is None:
        return None
    if any(number < 1 for number in numbers):
        raise BadInputError("config.json: linear_attn_config counts layers from 1, but names layer 0.")
    return tuple(number - 1 for number in numbers)


def _require_cover(names: str, indices: tuple[int, ...], layers: int) -> None:
    missing = sorted(set(range(layers)) - set(indices))
    beyond = sorted({index + 1 for index in indices if index >= layers})
    if missing or beyond or len(set(indices)) != len(indices):
        raise BadInputError(
            f"config.json: {names} must name each of the {layers} layers once (counted from 1); "
            f"they name {len(indices)}, leave out {[index + 1 for index in missing[:5]]} and go beyond with {beyond[:5]}."
        )


def _blocks(fields: Fields, pattern: str, listed: str, layers: int | None) -> tuple[str, ...] | None:
    text = fields.long_text(pattern)
    if text is not None:
        unknown = sorted(set(text) - set(_BLOCKS) - {"|"})
        if unknown:
            raise BadInputError(f"config.json: {pattern} has blocks {unknown} that nobody knows; known are {sorted(_BLOCKS)}.")
        blocks: tuple[str, ...] | None = tuple(_BLOCKS[letter] for letter in text if letter != "|")
    else:
        blocks = fields.texts(listed)
    if blocks is not None and layers is not None:
        if len(blocks) < layers:
            raise BadInputError(f"config.json: {pattern} has {len(blocks)} blocks for {layers} layers.")
        blocks = blocks[:layers]
    return blocks
