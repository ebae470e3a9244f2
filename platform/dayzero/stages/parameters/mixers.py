"""The tensors of a mixer, by its kind."""

from collections.abc import Iterator

from dayzero.domain.architecture import Mixer
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.structure.families import Family

_Named = tuple[str, tuple[int, ...]]


def mixer_tensors(at: int, mixer: Mixer, family: Family, hidden: int) -> Iterator[ExpectedTensor]:
    """Every tensor of one mixer; component attention or recurrent, norms by themselves."""
    recurrent = mixer.recurrence is not None
    prefix = family.prefix if recurrent else "mixer" if family.layout == "blocks" else "self_attn"
    for name, shape in _tensors(mixer, family, hidden):
        component = "norms" if "norm" in name else "recurrent" if recurrent else "attention"
        yield ExpectedTensor(at, f"{prefix}.{name}", shape, component)


def _tensors(mixer: Mixer, family: Family, hidden: int) -> Iterator[_Named]:
    kinds = {
        "linear_attention.gated_delta": _gated_delta,
        "linear_attention.kimi_delta": _kimi_delta,
        "linear_attention.lightning": _lightning,
        "ssm.mamba": _mamba1,
        "ssm.mamba2": _mamba2,
        "attention.compressed": _compressed,
    }
    if mixer.kind in kinds:
        yield from kinds[mixer.kind](mixer, hidden)
        return
    yield from _latent(mixer, hidden) if mixer.kv_lora_rank is not None else _heads(mixer, hidden)
    if mixer.indexer is not None:
        yield from _indexer(mixer, hidden)


def _heads(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    heads, width = mixer.heads or 0, mixer.head_dim or 0
    query, key = heads * width, (mixer.kv_heads or 0) * width
    rows = {"q_proj": 2 * query if mixer.output_gate else query, "k_proj": key, "v_proj": key}
    if not mixer.cached:
        rows = {"q_proj": rows["q_proj"]}
    elif mixer.one_projection:
        del rows["v_proj"]
    for name, size in rows.items():
        yield f"{name}.weight", (size, hidden)
        if mixer.bias:
            yield f"{name}.bias", (size,)
    yield "o_proj.weight", (hidden, query)
    if mixer.output_bias:
        yield "o_proj.bias", (hidden,)
    if mixer.qk_norm:
        full = mixer.qk_norm == "full"
        yield "q_norm.weight", (query if full else width,)
        if mixer.cached:
            yield "k_norm.weight", (key if full else width,)
    if mixer.sinks:
        yield "sinks", (heads,)


def _latent(mixer: Mixer, hidden: int) -> Iterator[_Named]:
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
    if mixer.output_gate:
        yield "g_proj.weight", (heads * value, hidden)
    if mixer.bias:
        yield "kv_a_proj_with_mqa.bias", (rank + rope,)
    if mixer.output_bias:
        yield "o_proj.bias", (hidden,)


def _indexer(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    """Over a latent: queries from the query's latent and a weight for each head; else (blocks of tokens) projections and norms
    of its own."""
    indexer = mixer.indexer
    assert indexer is not None
    queries = indexer.heads * indexer.head_dim
    if mixer.kv_lora_rank is not None:
        yield "indexer.wq_b.weight", (queries, mixer.q_lora_rank or hidden)
        yield "indexer.wk.weight", (indexer.head_dim, hidden)
        yield "indexer.k_norm.weight", (indexer.head_dim,)
        yield "indexer.k_norm.bias", (indexer.head_dim,)
        yield "indexer.weights_proj.weight", (indexer.heads, hidden)
        return
    yield "indexer.q_proj.weight", (queries, hidden)
    yield "indexer.k_proj.weight", (indexer.head_dim, hidden)
    yield "indexer.q_norm.weight", (indexer.head_dim,)
    yield "indexer.k_norm.weight", (indexer.head_dim,)


def _compressed(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    """DeepSeek-V4 (transformers, deepseek_v4): entries of few tokens overlap, so their projections are twice as wide."""
    heads, width, rank = mixer.heads or 0, mixer.head_dim or 0, mixer.q_lora_rank or 0
    groups, low = mixer.output_groups or 1, mixer.output_lora_rank or 0
    yield "sinks", (heads,)
    yield "q_a_proj.weight", (rank, hidden)
    yield "q_a_norm.weight", (rank,)
    yield "q_b_proj.weight", (heads * width, rank)
    yield "kv_proj.weight", (width, hidden)
    yield "kv_norm.weight", (width,)
    yield "o_a_proj.weight", (groups * low, heads * width // groups)
    yield "o_b_proj.weight", (hidden, groups * low)
    if mixer.compression is None:
        return
    twice = 2 if mixer.indexer else 1
    yield from _compressor("compressor", mixer.compression, width, twice, hidden)
    if mixer.indexer is not None:
        yield from _compressor("compressor.indexer", mixer.compression, mixer.indexer.head_dim, 2, hidden)
        yield "compressor.indexer.q_b_proj.weight", (mixer.indexer.heads * mixer.indexer.head_dim, rank)
        yield "compressor.indexer.scorer.weights_proj.weight", (mixer.indexer.heads, hidden)


def _compressor(name: str, tokens: int, width: int, twice: int, hidden: int) -> Iterator[_Named]:
    yield f"{name}.position_bias", (tokens, twice * width)
    yield f"{name}.kv_proj.weight", (twice * width, hidden)
    yield f"{name}.gate_proj.weight", (twice * width, hidden)
    yield f"{name}.kv_norm.weight", (width,)


def _gated_delta(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    """Qwen3-Next keeps query, key, value and gate in one tensor, Qwen3.5 in two: together they are the same."""
    state = mixer.recurrence
    assert state is not None
    value = state.heads * state.value_dim
    yield "dt_bias", (state.heads,)
    yield "A_log", (state.heads,)
    yield "conv1d.weight", (state.conv_channels, 1, state.conv_kernel)
    yield "in_proj_qkv.weight", (state.conv_channels, hidden)
    yield "in_proj_z.weight", (value, hidden)
    yield "in_proj_b.weight", (state.heads, hidden)
    yield "in_proj_a.weight", (state.heads, hidden)
    yield "norm.weight", (state.value_dim,)
    yield "out_proj.weight", (hidden, value)


def _kimi_delta(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    """Names as the publisher's checkpoints have them (moonshotai/Kimi-Linear-48B-A3B, Kimi-K3)."""
    state = mixer.recurrence
    assert state is not None
    inner = state.heads * state.value_dim
    for name in ("q", "k", "v"):
        yield f"{name}_proj.weight", (inner, hidden)
        yield f"{name}_conv1d.weight", (inner, 1, state.conv_kernel)
    yield "A_log", (1, 1, state.heads, 1)
    yield "dt_bias", (inner,)
    yield "f_a_proj.weight", (state.value_dim, hidden)
    yield "f_b_proj.weight", (inner, state.value_dim)
    yield "b_proj.weight", (state.heads, hidden)
    if state.full_rank_gate:
        yield "g_proj.weight", (inner, hidden)
    else:
        yield "g_a_proj.weight", (state.value_dim, hidden)
        yield "g_b_proj.weight", (inner, state.value_dim)
    yield "o_norm.weight", (state.value_dim,)
    yield "o_proj.weight", (hidden, inner)


def _lightning(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    inner = (mixer.heads or 0) * (mixer.head_dim or 0)
    yield "qkv_proj.weight", (3 * inner, hidden)
    yield "output_gate.weight", (inner, hidden)
    yield "norm.weight", (inner,)
    yield "out_proj.weight", (hidden, inner)


def _mamba1(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    """With the inner norms of Jamba."""
    state = mixer.recurrence
    assert state is not None
    inner, size, rank = state.heads, state.key_dim, state.step_rank or 0
    yield "A_log", (inner, size)
    yield "D", (inner,)
    yield from _convolution(inner, state.conv_kernel, state.conv_bias)
    yield "in_proj.weight", (2 * inner, hidden)
    yield "x_proj.weight", (rank + 2 * size, inner)
    yield "dt_proj.weight", (inner, rank)
    yield "dt_proj.bias", (inner,)
    yield "out_proj.weight", (hidden, inner)
    if state.inner_norm:
        yield "dt_layernorm.weight", (rank,)
        yield "b_layernorm.weight", (size,)
        yield "c_layernorm.weight", (size,)


def _mamba2(mixer: Mixer, hidden: int) -> Iterator[_Named]:
    state = mixer.recurrence
    assert state is not None
    inner = state.heads * state.value_dim
    for name in ("dt_bias", "A_log", "D"):
        yield name, (state.heads,)
    yield from _convolution(state.conv_channels, state.conv_kernel, state.conv_bias)
    yield "in_proj.weight", (inner + state.conv_channels + state.heads, hidden)
    if state.inner_norm:
        yield "norm.weight", (inner,)
    yield "out_proj.weight", (hidden, inner)
    if mixer.bias:
        yield "in_proj.bias", (inner + state.conv_channels + state.heads,)
        yield "out_proj.bias", (hidden,)


def _convolution(channels: int, kernel: int, bias: bool) -> Iterator[_Named]:
    yield "conv1d.weight", (channels, 1, kernel)
    if bias:
        yield "conv1d.bias", (channels,)
