"""Rules for the tensors of mixers: whole heads, whole groups, and every fused layout by the kind that has it."""

from collections.abc import Mapping

from dayzero.domain.architecture import Mixer
from dayzero.stages.layout.runs import WHOLE, Rule, Run, column, row

_LATENTS = ("indexer.", "compressor.")
HEADS, KV_HEADS, GROUPS = "heads", "key-value heads", "groups"


def mixer_rule(name: str, mixer: Mixer) -> Rule | None:
    """The rule of a module below the mixer (q_proj, conv1d …); None when the kind has no such module.

    What picks or compresses tokens (indexers, compressors) serves all heads and stays whole.
    """
    if name.startswith(_LATENTS):
        return WHOLE
    return _rules(mixer).get(name)


def _rules(mixer: Mixer) -> Mapping[str, Rule]:
    makers = {
        "linear_attention.gated_delta": _gated_delta,
        "linear_attention.kimi_delta": _kimi_delta,
        "linear_attention.lightning": _lightning,
        "ssm.mamba": _mamba1,
        "ssm.mamba2": _mamba2,
        "attention.compressed": _compressed,
    }
    maker = makers.get(mixer.kind)
    if maker is not None:
        return maker(mixer)
    return _latent(mixer) if mixer.kv_lora_rank is not None else _heads(mixer)


def _whole(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, WHOLE)


def _heads(mixer: Mixer) -> Mapping[str, Rule]:
    """Key-value heads are copied to several ranks where there are more ranks than heads (as serving engines do)."""
    heads, kv_heads, width = mixer.heads or 0, mixer.kv_heads or 0, mixer.head_dim or 0
    query = Run(heads * width, heads, HEADS)
    gated = Run(2 * heads * width, heads, HEADS) if mixer.output_gate else query
    key = Run(kv_heads * width, kv_heads, KV_HEADS, shared=True)
    full = mixer.qk_norm == "full"
    return {
        "q_proj": column(gated),
        "k_proj": column(key),
        "v_proj": column(key),
        "qkv_proj": column(gated, key, key),
        "o_proj": row(query),
        "sinks": column(Run(heads, heads, HEADS)),
        "q_norm": _summed(query) if full else WHOLE,
        "k_norm": _summed(key) if full else WHOLE,
        "v_norm": WHOLE,
    }


def _summed(run: Run) -> Rule:
    rule = column(run)
    return Rule(rule.kind, rule.axis, rule.runs, summed=True)


def _latent(mixer: Mixer) -> Mapping[str, Rule]:
    """Multi-head latent attention: latents are whole on every rank, what leads from them to heads is cut by heads."""
    heads, value = mixer.heads or 0, mixer.value_head_dim or 0
    nope = (mixer.head_dim or 0) - (mixer.rope_head_dim or 0)
    query = column(Run(heads * (mixer.head_dim or 0), heads, HEADS))
    out = Run(heads * value, heads, HEADS)
    return {
        **_whole("q_a_proj", "q_a_layernorm", "kv_a_proj_with_mqa", "kv_a_layernorm", "fused_qkv_a_proj"),
        "q_proj": query,
        "q_b_proj": query,
        "kv_b_proj": column(Run(heads * (nope + value), heads, HEADS)),
        "g_proj": column(out),
        "o_proj": row(out),
    }


def _compressed(mixer: Mixer) -> Mapping[str, Rule]:
    """DeepSeek-V4: one key-value latent for all heads; the output goes through groups of heads, of which each rank has whole
    ones (o_a reads one group's heads and writes its latent, o_b sums the latents)."""
    heads, width = mixer.heads or 0, mixer.head_dim or 0
    groups = mixer.output_groups or 1
    latent = Run(groups * (mixer.output_lora_rank or 0), groups, "output groups")
    return {
        **_whole("q_a_proj", "q_a_norm", "kv_proj", "kv_norm", "wq_a", "wkv", "q_norm"),
        "sinks": column(Run(heads, heads, HEADS)),
        "attn_sink": column(Run(heads, heads, HEADS)),
        "q_b_proj": column(Run(heads * width, heads, HEADS)),
        "wq_b": column(Run(heads * width, heads, HEADS)),
        "o_a_proj": column(latent),
        "wo_a": column(latent),
        "o_b_proj": row(latent),
        "wo_b": row(latent),
    }


def _gated_delta(mixer: Mixer) -> Mapping[str, Rule]:
    """Qwen3-Next keeps query, key, value and gate of one key head together (in_proj_qkvz, in_proj_ba: contiguous by key head),
    Qwen3.5 one after the other; the convolution's channels are query, key, value. Source: transformers, qwen3_next and
    qwen3_5."""
    state = mixer.recurrence
    assert state is not None
    heads, keys = state.heads, state.key_heads or state.heads
    key = Run(keys * state.key_dim, keys, "key heads")
    value = Run(heads * state.value_dim, heads, "value heads")
    each = column(Run(heads, heads, "value heads"))
    return {
        "in_proj_qkvz": column(Run(2 * key.size + 2 * value.size, keys, "key heads")),
        "in_proj_ba": column(Run(2 * heads, keys, "key heads")),
        "in_proj_qkv": column(key, key, value),
        "in_proj_z": column(value),
        **dict.fromkeys(("in_proj_a", "in_proj_b", "A_log", "dt_bias"), each),
        "conv1d": column(key, key, value),
        "norm": WHOLE,
        "out_proj": row(value),
    }


def _kimi_delta(mixer: Mixer) -> Mapping[str, Rule]:
    state = mixer.recurrence
    assert state is not None
    inner = Run(state.heads * state.value_dim, state.heads, HEADS)
    cut = ("q_proj", "k_proj", "v_proj", "q_conv1d", "k_conv1d", "v_conv1d", "dt_bias", "f_b_proj", "g_proj", "g_b_proj")
    return {
        **dict.fromkeys(cut, column(inner)),
        **_whole("f_a_proj", "g_a_proj", "o_norm"),
        # A_log is stored as [1, 1, heads, 1].
        "A_log": Rule(column(inner).kind, 2, (Run(state.heads, state.heads, HEADS),)),
        "b_proj": column(Run(state.heads, state.heads, HEADS)),
        "o_proj": row(inner),
    }


def _lightning(mixer: Mixer) -> Mapping[str, Rule]:
    """Query, key and value of one head lie together (MiniMaxAI/MiniMax-Text-01, modeling_minimax_text_01.py)."""
    heads, inner = mixer.heads or 0, (mixer.heads or 0) * (mixer.head_dim or 0)
    each = Run(inner, heads, HEADS)
    return {
        "qkv_proj": column(Run(3 * inner, heads, HEADS)),
        "output_gate": column(each),
        "norm": _summed(each),
        "out_proj": row(each),
    }


def _mamba1(mixer: Mixer) -> Mapping[str, Rule]:
    """Channels are independent; the input projection is [channels | gates], and x_proj sums over channels (Jamba)."""
    state = mixer.recurrence
    assert state is not None
    channels = Run(state.heads, state.heads, "channels")
    return {
        "in_proj": column(channels, channels),
        **dict.fromkeys(("A_log", "D", "conv1d", "dt_proj"), column(channels)),
        "x_proj": row(channels),
        "out_proj": row(channels),
        **_whole("dt_layernorm", "b_layernorm", "c_layernorm"),
    }


def _mamba2(mixer: Mixer) -> Mapping[str, Rule]:
    """The input projection is [gate | x | B | C | dt], the convolution [x | B | C]; B and C belong to groups of heads. A single
    group is copied to every rank (as vLLM does; it refuses more groups than one that do not divide). The gated norm runs over
    each group; over a group that lies on several ranks it is summed."""
    state = mixer.recurrence
    assert state is not None
    inner, groups = state.heads * state.value_dim, state.groups or 1
    heads = Run(inner, state.heads, HEADS)
    shared = Run(groups * state.key_dim, groups, GROUPS, shared=groups == 1)
    each = Run(state.heads, state.heads, HEADS)
    return {
        "in_proj": column(heads, heads, shared, shared, each),
        "conv1d": column(heads, shared, shared),
        **dict.fromkeys(("dt_bias", "A_log", "D"), column(each)),
        "norm": _summed(heads) if groups == 1 else column(Run(inner, groups, GROUPS)),
        "out_proj": row(heads),
    }


def mixer_runs(mixer: Mixer) -> frozenset[Run]:
    """Every run of units that a degree has to divide."""
    return frozenset(run for rule in _rules(mixer).values() for run in rule.runs)
