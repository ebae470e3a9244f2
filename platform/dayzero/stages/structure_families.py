"""Which structure a model type has: the rules that its reference implementation (transformers 5.24) is built by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

_TWO_NORMS = ("input_layernorm", "post_attention_layernorm")
_FOUR_NORMS = (*_TWO_NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")


@dataclass(frozen=True, slots=True)
class Family:
    """Structure rules of a model type.

    `attention`: heads | latent (MLA). `qkv_bias`: None follows attention_bias of the configuration; `output_bias`: the output
    projection has the same. `qk_norm`: none | head | full | config (head when use_qk_norm is set). `window`: none | all |
    flagged (use_sliding_window and max_window_layers) | alternate (even layers) | pattern (all but every n-th layer).
    `experts`: none | mixtral | step (decoder_sparse_step) | first_dense (first_k_dense_replace) | fused. `dtype`: what its
    checkpoints keep unquantized weights in, where configurations do not say.
    """

    name: str
    attention: str = "heads"
    qkv_bias: bool | None = None
    output_bias: bool = True
    qk_norm: str = "none"
    norms: tuple[str, ...] = _TWO_NORMS
    window: str = "none"
    experts: str = "none"
    shared_gate: bool = False
    correction_bias: bool = False
    sinks: bool = False
    tied_default: bool = False
    scoring: str | None = None
    activation: str = "silu"
    dtype: str | None = None


_LLAMA = Family("llama")
_MISTRAL = Family("mistral", qkv_bias=False, output_bias=False, window="all")
_QWEN2 = Family("qwen2", qkv_bias=True, output_bias=False, window="flagged")
_QWEN3 = Family("qwen3", qk_norm="head", window="flagged")
_DEEPSEEK_V2 = Family("deepseek_v2", attention="latent", experts="first_dense", scoring="softmax")
_DEEPSEEK_V3 = replace(_DEEPSEEK_V2, name="deepseek_v3", correction_bias=True, scoring="sigmoid")
_GEMMA = Family("gemma", tied_default=True, activation="gelu_pytorch_tanh")
_ALL = (
    _LLAMA,
    _MISTRAL,
    replace(_MISTRAL, name="mixtral", experts="mixtral", scoring="softmax"),
    _QWEN2,
    replace(_QWEN2, name="qwen2_moe", experts="step", shared_gate=True, scoring="softmax"),
    _QWEN3,
    replace(_QWEN3, name="qwen3_moe", experts="step", scoring="softmax"),
    replace(_QWEN3, name="qwen3_vl_text", window="none"),
    replace(_QWEN3, name="qwen3_vl_moe_text", window="none", experts="step", scoring="softmax"),
    _DEEPSEEK_V2,
    _DEEPSEEK_V3,
    replace(_DEEPSEEK_V3, name="kimi_k2"),
    _GEMMA,
    replace(_GEMMA, name="gemma2", norms=_FOUR_NORMS, window="alternate"),
    replace(_GEMMA, name="gemma3_text", norms=_FOUR_NORMS, window="pattern", qk_norm="head"),
    Family("gpt_oss", window="alternate", experts="fused", sinks=True, scoring="softmax", dtype="bfloat16"),
    Family("glm4_moe", output_bias=False, qk_norm="config", experts="first_dense", correction_bias=True, scoring="sigmoid"),
    Family("minimax_m2", qkv_bias=False, output_bias=False, qk_norm="full", experts="mixtral", correction_bias=True,
           scoring="sigmoid"),
)  # fmt: skip

FAMILIES: Mapping[str, Family] = {family.name: family for family in _ALL}
"""Families by the model type of the language model's configuration."""
