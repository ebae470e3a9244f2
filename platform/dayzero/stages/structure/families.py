"""Which structure a model type has: the rules that its reference implementation is built by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dayzero.domain.architecture import ModelSpec

_TWO_NORMS = ("input_layernorm", "post_attention_layernorm")
_FOUR_NORMS = (*_TWO_NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")


@dataclass(frozen=True, slots=True)
class Family:
    """Structure rules of a model type. Source unless another is named: its implementation in transformers 5.24.

    `attention`: heads | latent (MLA) | compressed (DeepSeek-V4). `recurrent`: the kind of its linear-attention or state-space
    layers. `layout`: how layers are told apart: all (one kind) | listed (layer_types, or every full_attention_interval-th) |
    lists (Kimi's two lists) | blocks (one part a block) | periods (Jamba) | beside (both mixers in every layer) | flags.
    `qkv_bias`: None follows attention_bias of the configuration; `output_bias`: the output projection has the same.
    `qk_norm`: none | head | full | config (head when use_qk_norm is set). `window`: none | all | flagged (use_sliding_window
    and max_window_layers) | alternate (even layers) | pattern (all but every n-th) | listed (layer_types alone) | chunked.
    `experts`: none | mixtral | step (decoder_sparse_step) | first_dense (first_k_dense_replace) | fused | interleaved
    (interleave_moe_layer_step) | periods | blocks | beside (next to the dense feed-forward) | first_half (of a double layer) |
    all. `block` is where checkpoints keep a layer's feed-forward, `prefix` its recurrent mixer. `dtype`: what checkpoints
    keep unquantized weights in, where configurations do not say. `sharded`: tensor, expert and pipeline rules are proven (see
    layout_partition). `named`: published checkpoints name tensors as parameters_* does, though sharding is not proven.
    `drafts`: multi-token-prediction layers hold copies of embeddings and head (copies) or use the model's own (shared).
    `layer_inputs`: a second embedding has a slice for each layer. `widening`: how many times the hidden size a feed-forward
    is wide where configurations do not say. `derived`: sharding rules follow from the structure or from
    another family's; unless `sharded` says that parallel runs have proven them too, plans are made by them, ranks are not run.
    """

    name: str
    attention: str = "heads"
    recurrent: str | None = None
    layout: str = "all"
    qkv_bias: bool | None = None
    output_bias: bool = True
    qk_norm: str = "none"
    norms: tuple[str, ...] = _TWO_NORMS
    norm: str = "norm.rms"
    window: str = "none"
    experts: str = "none"
    block: str = "mlp"
    prefix: str = "linear_attn"
    gated: bool = True
    output_gate: bool | None = None
    shared_gate: bool = False
    correction_bias: bool = False
    indexed: bool = False
    sinks: bool = False
    positions: str = "rotary"
    causal: bool = True
    tied_default: bool = False
    scoring: str | None = None
    activation: str = "silu"
    dtype: str | None = None
    sharded: bool = False
    derived: bool = False
    named: bool = False
    drafts: str | None = None
    layer_inputs: bool = False
    widening: int | None = None

    @property
    def names_known(self) -> bool:
        """Whether published checkpoints name tensors as parameters_* does; families that are only like another may not."""
        return self.named or (self.sharded and not self.derived)


_LLAMA = Family("llama", sharded=True)
_MISTRAL = Family("mistral", qkv_bias=False, output_bias=False, window="all", sharded=True)
_QWEN2 = Family("qwen2", qkv_bias=True, output_bias=False, window="flagged", sharded=True)
_QWEN3 = Family("qwen3", qk_norm="head", window="flagged", sharded=True)
_QWEN3_NEXT = Family("qwen3_next", recurrent="gated_delta", layout="listed", qk_norm="head", output_gate=True, experts="step",
                     shared_gate=True, scoring="softmax", drafts="shared", derived=True)  # fmt: skip
_DEEPSEEK_V2 = Family("deepseek_v2", attention="latent", experts="first_dense", scoring="softmax", sharded=True)
_DEEPSEEK_V3 = replace(_DEEPSEEK_V2, name="deepseek_v3", correction_bias=True, scoring="sigmoid", drafts="copies")
_GEMMA = Family("gemma", tied_default=True, activation="gelu_pytorch_tanh", sharded=True)
_MINIMAX_M2 = Family("minimax_m2", qkv_bias=False, output_bias=False, qk_norm="full", experts="mixtral", correction_bias=True,
                     block="block_sparse_moe", scoring="sigmoid", sharded=True)  # fmt: skip
_KIMI_LINEAR = Family("kimi_linear", attention="latent", recurrent="kimi_delta", layout="lists", experts="first_dense",
                      block="block_sparse_moe", prefix="self_attn", correction_bias=True, scoring="sigmoid",
                      derived=True, named=True)  # fmt: skip
_ALL = (
    _LLAMA,
    _MISTRAL,
    replace(_MISTRAL, name="mixtral", experts="mixtral", block="block_sparse_moe", scoring="softmax"),
    _QWEN2,
    replace(_QWEN2, name="qwen2_moe", experts="step", shared_gate=True, scoring="softmax"),
    # MiMo-7B is Qwen2 with a draft layer (XiaomiMiMo/MiMo-7B-Base, modeling_mimo.py).
    replace(_QWEN2, name="mimo", sharded=False, derived=True, named=True),
    _QWEN3,
    replace(_QWEN3, name="qwen3_moe", experts="step", scoring="softmax"),
    replace(_QWEN3, name="qwen3_vl_text", window="none"),
    replace(_QWEN3, name="qwen3_vl_moe_text", window="none", experts="step", scoring="softmax"),
    _QWEN3_NEXT,
    replace(_QWEN3_NEXT, name="qwen3_5_moe_text"),
    replace(_QWEN3_NEXT, name="qwen3_5_text", experts="none", shared_gate=False, scoring=None),
    _DEEPSEEK_V2,
    _DEEPSEEK_V3,
    replace(_DEEPSEEK_V3, name="kimi_k2"),
    replace(_DEEPSEEK_V3, name="deepseek_v32", indexed=True, named=True),
    replace(_DEEPSEEK_V3, name="glm_moe_dsa", indexed=True, sharded=False, derived=True, named=True),
    Family("deepseek_v4", attention="compressed", experts="all", correction_bias=True, sinks=True, scoring="sqrtsoftplus",
           activation="silu", derived=True),
    _KIMI_LINEAR,
    _GEMMA,
    replace(_GEMMA, name="gemma2", norms=_FOUR_NORMS, window="alternate"),
    replace(_GEMMA, name="gemma3_text", norms=_FOUR_NORMS, window="pattern", qk_norm="head"),
    replace(_GEMMA, name="gemma4_text", norms=_FOUR_NORMS, window="listed", qk_norm="head", experts="beside", scoring="softmax",
            sharded=False, derived=True, layer_inputs=True),
    Family("gpt_oss", window="alternate", experts="fused", sinks=True, scoring="softmax", dtype="bfloat16", sharded=True),
    Family("glm4_moe", output_bias=False, qk_norm="config", experts="first_dense", correction_bias=True, scoring="sigmoid",
           sharded=True, drafts="copies"),
    _MINIMAX_M2,
    replace(_MINIMAX_M2, name="minimax_m3", qk_norm="head", experts="first_dense", indexed=True, activation="swigluoai",
            sharded=False, derived=True),
    Family("minimax", recurrent="lightning", layout="flags", experts="mixtral", block="block_sparse_moe", prefix="self_attn",
           scoring="softmax", qkv_bias=False, output_bias=False, derived=True),
    Family("olmoe", qk_norm="full", experts="all", scoring="softmax", derived=True, sharded=True),
    Family("llama4_text", qkv_bias=None, window="chunked", experts="interleaved", block="feed_forward", scoring="sigmoid",
           derived=True),
    Family("nemotron_h", recurrent="mamba2", layout="blocks", norms=("norm",), experts="blocks", prefix="mixer", gated=False,
           correction_bias=True, scoring="sigmoid", activation="relu2", positions="none", derived=True),
    Family("jamba", recurrent="mamba1", layout="periods", norms=("input_layernorm", "pre_ff_layernorm"), experts="periods",
           block="feed_forward", prefix="mamba", scoring="softmax", positions="none", dtype="bfloat16", derived=True),
    Family("falcon_h1", recurrent="mamba2", layout="beside", norms=("input_layernorm", "pre_ff_layernorm"),
           block="feed_forward", prefix="mamba", derived=True),
    Family("bert", qkv_bias=True, norms=("attention.output.LayerNorm", "output.LayerNorm"), norm="norm.layer", gated=False,
           positions="learned", causal=False, tied_default=True, activation="gelu"),
    Family("gpt2", qkv_bias=True, norms=("ln_1", "ln_2"), norm="norm.layer", gated=False, positions="learned",
           tied_default=True, activation="gelu_new", widening=4),
    # Each published layer is two halves of attention and dense feed-forward; the experts stand beside the first half
    # (LongCat-Flash, arXiv 2509.01322, section 2.2). Zero experts hold no weights.
    Family("longcat_flash", attention="latent", experts="first_half", correction_bias=True, scoring="softmax",
           derived=True),
    # xai-org/grok-1, model.py: four norms, no biases, experts in every layer, embeddings used for the head too.
    Family("grok-1", qkv_bias=False, output_bias=False, norms=_FOUR_NORMS, experts="all", scoring="softmax", tied_default=True,
           activation="gelu", dtype="bfloat16", derived=True),
)  # fmt: skip


_RUN = frozenset({"cwm", "ernie4_5", "exaone4", "glm4_moe_lite", "granite", "ministral3", "olmo2", "seed_oss", "smollm3"})
"""Families like another whose rules parallel runs have proven."""


def _like(family: Family, *names: str, **differing: Any) -> tuple[Family, ...]:
    """Families of the same structure as another: their sharding follows from it, their tensor names nobody has proven."""
    alike = replace(family, derived=True, drafts=None, **differing)
    return tuple(replace(alike, name=name, sharded=name in _RUN) for name in names)


_ALIKE = (
    *_like(_LLAMA, "granite", "internlm3", "ernie4_5", "smollm3", "cwm", "iquestcoder", "exaone"),
    *_like(_LLAMA, "phi3", window="all"),
    *_like(_MISTRAL, "ministral3"),
    *_like(_QWEN2, "seed_oss", "glm", window="none"),
    *_like(_QWEN3, "exaone4", window="none"),
    *_like(_QWEN3, "mellum", window="none", experts="step", scoring="softmax"),
    *_like(_DEEPSEEK_V3, "glm4_moe_lite", "youtu", "sarvam_mla"),
    *_like(_DEEPSEEK_V2, "minicpm3", experts="none"),
    *_like(_LLAMA, "olmo2", "olmo3", qk_norm="full"),
    *_like(_LLAMA, "granitemoe", experts="mixtral", block="block_sparse_moe", scoring="softmax"),
)

_SAME = {"kimi_k25": "kimi_k2", "minimax_m3_vl": "minimax_m3", "minimax_m3_vl_text": "minimax_m3", "minimax_m1": "minimax",
         "qwen3_5_moe": "qwen3_5_moe_text", "qwen3_5": "qwen3_5_text", "minimax_text_01": "minimax"}  # fmt: skip
_BY_NAME = {family.name: family for family in (*_ALL, *_ALIKE)}

FAMILIES: Mapping[str, Family] = {**_BY_NAME, **{name: _BY_NAME[same] for name, same in _SAME.items()}}
"""Families by the model type of the language model's configuration."""

BY_ARCHITECTURE: Mapping[str, Family] = {
    "DeepseekV4ForCausalLM": _BY_NAME["deepseek_v4"],
    "DeepseekV32ForCausalLM": _BY_NAME["deepseek_v32"],
    "DeepseekV3ForCausalLM": _BY_NAME["deepseek_v3"],
    "KimiLinearForCausalLM": _BY_NAME["kimi_linear"],
    "MiniMaxM1ForCausalLM": _BY_NAME["minimax"],
}
"""Families by the class that a configuration names, for model types that nobody knows (republished under another type)."""


def family_of(spec: ModelSpec) -> Family | None:
    """The rules that a structure was read by; None for an architecture that nobody knows."""
    return FAMILIES.get(spec.family or "")


def sharding_known(spec: ModelSpec) -> bool:
    """Whether there are rules, proven or derived, for spreading this model over ranks; else every rank holds all of it."""
    family = family_of(spec)
    return family is not None and (family.sharded or family.derived)


def sharding_proven(spec: ModelSpec) -> bool:
    """Whether parallel runs against the reference have proven the rules."""
    family = family_of(spec)
    return family is not None and family.sharded
