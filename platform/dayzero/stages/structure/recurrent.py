"""Linear-attention and state-space mixers, from a configuration."""

from dayzero.domain.architecture import Mixer, Recurrence
from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.structure.assumed import Assumed, needed
from dayzero.stages.structure.families import Family


def recurrent_mixer(config: ModelConfig, family: Family, assumed: Assumed) -> Mixer:
    """The recurrent mixer of this family; BadInputError when the configuration lacks a size."""
    if family.recurrent == "gated_delta":
        return _gated_delta(config, family)
    if family.recurrent == "kimi_delta":
        return _kimi_delta(config, family)
    if family.recurrent == "lightning":
        return _lightning(config, family)
    if family.recurrent == "mamba1":
        return _mamba1(config, family, assumed)
    if family.recurrent == "mamba2":
        return _mamba2(config, family, assumed)
    raise BadInputError(f"config.json asks for a recurrent layer, and {family.name} models have none.")


def _gated_delta(config: ModelConfig, family: Family) -> Mixer:
    """Gated delta rule (arXiv 2412.06464): one state of key × value for each value head; one convolution over query, key and
    value."""
    linear = config.linear
    heads = needed(config, family, "linear_num_value_heads", linear.value_heads)
    key_heads = needed(config, family, "linear_num_key_heads", linear.key_heads)
    key = needed(config, family, "linear_key_head_dim", linear.key_dim)
    value = needed(config, family, "linear_value_head_dim", linear.value_dim)
    kernel = needed(config, family, "linear_conv_kernel_dim", linear.conv_kernel)
    channels = 2 * key_heads * key + heads * value
    return Mixer("linear_attention.gated_delta", heads, key_heads, key, value, positions="none",
                 recurrence=Recurrence(heads, key, value, key_heads, kernel, channels))  # fmt: skip


def _kimi_delta(config: ModelConfig, family: Family) -> Mixer:
    """Kimi delta attention (arXiv 2510.26692): gates for each channel; a convolution for each of query, key and value."""
    linear = config.linear
    heads = needed(config, family, "linear_attn_config.num_heads", linear.value_heads)
    width = needed(config, family, "linear_attn_config.head_dim", linear.value_dim)
    kernel = needed(config, family, "linear_attn_config.short_conv_kernel_size", linear.conv_kernel)
    return Mixer("linear_attention.kimi_delta", heads, heads, width, width, positions="none",
                 recurrence=Recurrence(heads, width, width, heads, kernel, 3 * heads * width,
                                       full_rank_gate=linear.full_rank_gate))  # fmt: skip


def _lightning(config: ModelConfig, family: Family) -> Mixer:
    """Lightning attention (arXiv 2401.04658): a fixed decay for each head, no convolution, an output gate."""
    heads = needed(config, family, "num_attention_heads", config.heads)
    hidden = needed(config, family, "hidden_size", config.hidden_size)
    if config.head_dim is None and hidden % heads:
        raise BadInputError(f"config.json states no head_dim, and hidden_size {hidden} does not divide by {heads} heads.")
    width = config.head_dim if config.head_dim is not None else hidden // heads
    return Mixer("linear_attention.lightning", heads, heads, width, width, positions="none", output_gate="element",
                 recurrence=Recurrence(heads, width, width, heads))  # fmt: skip


def _inner(config: ModelConfig, family: Family, assumed: Assumed) -> int:
    hidden = needed(config, family, "hidden_size", config.hidden_size)
    space = config.state_space
    expansion = space.expansion if space.expansion is not None else 2
    if space.inner_size is None and space.expansion is None:
        assumed.take("mamba_expand", None, 2, f"absent: the {family.name} implementation takes 2")
    return space.inner_size if space.inner_size is not None else expansion * hidden


def _mamba1(config: ModelConfig, family: Family, assumed: Assumed) -> Mixer:
    """Mamba (arXiv 2312.00752): every channel keeps a state of its own."""
    space = config.state_space
    inner, hidden = _inner(config, family, assumed), needed(config, family, "hidden_size", config.hidden_size)
    state = needed(config, family, "mamba_d_state", space.state_size)
    rank = assumed.take("mamba_dt_rank", space.step_rank, -(-hidden // 16), "absent: hidden_size / 16, rounded up")
    kernel = needed(config, family, "mamba_d_conv", space.conv_kernel)
    bias = assumed.take("mamba_conv_bias", space.conv_bias, True, f"absent: the {family.name} implementation has one")
    recurrence = Recurrence(inner, state, 1, None, kernel, inner, step_rank=rank, conv_bias=bias, state_dtype=_dtype(config))
    return Mixer("ssm.mamba", bias=bool(space.proj_bias), positions="none", recurrence=recurrence)


def _mamba2(config: ModelConfig, family: Family, assumed: Assumed) -> Mixer:
    """Mamba-2 (arXiv 2405.21060): heads of a width, key and value projections shared by groups."""
    space = config.state_space
    heads = needed(config, family, "mamba_num_heads", space.heads)
    width = needed(config, family, "mamba_head_dim", space.head_dim)
    state = needed(config, family, "ssm_state_size", space.state_size)
    groups = assumed.take("n_groups", space.groups, 1, "absent: one group")
    kernel = needed(config, family, "conv_kernel", space.conv_kernel)
    bias = assumed.take("use_conv_bias", space.conv_bias, True, f"absent: the {family.name} implementation has one")
    norm = True
    if family.layout == "beside":
        norm = assumed.take("mamba_rms_norm", space.inner_norm, False, f"absent: the {family.name} implementation has none")
    channels = heads * width + 2 * groups * state
    recurrence = Recurrence(heads, state, width, None, kernel, channels, groups, conv_bias=bias, inner_norm=norm,
                            state_dtype=_dtype(config))  # fmt: skip
    return Mixer("ssm.mamba2", bias=bool(space.proj_bias), positions="none", recurrence=recurrence)


def _dtype(config: ModelConfig) -> str:
    """The dtype of the state: what the configuration says, else float32, in which the recurrence is computed."""
    return config.state_space.state_dtype or "float32"
