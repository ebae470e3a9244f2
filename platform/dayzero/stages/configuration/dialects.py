"""Configurations that are not written in Hugging Face's names, put into them."""

from collections.abc import Mapping

from dayzero.domain.canonical import Json
from dayzero.stages.configuration.fields import wrong

_INFERENCE = {
    "dim": "hidden_size", "inter_dim": "intermediate_size", "moe_inter_dim": "moe_intermediate_size",
    "n_layers": "num_hidden_layers", "n_dense_layers": "first_k_dense_replace", "n_heads": "num_attention_heads",
    "n_activated_experts": "num_experts_per_tok", "n_expert_groups": "n_group", "n_limited_groups": "topk_group",
    "route_scale": "routed_scaling_factor", "score_func": "scoring_func",
}  # fmt: skip
"""DeepSeek's own inference format (deepseek-ai/DeepSeek-V3, inference/configs)."""

_GROK = {
    "emb_size": "hidden_size", "key_size": "head_dim", "num_q_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "num_layers": "num_hidden_layers", "num_selected_experts": "num_experts_per_tok", "sequence_len": "max_position_embeddings",
}  # fmt: skip
"""xAI's run.py (xai-org/grok-1)."""


def in_common_names(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """The configuration in Hugging Face's names: as it is, unless it is written in a dialect that is known."""
    if isinstance(config.get("model_type"), str):
        return config
    if "n_activated_experts" in config and "kv_lora_rank" in config:
        return _deepseek(config)
    if "emb_size" in config and "widening_factor" in config:
        return _grok(config)
    return config


def _renamed(config: Mapping[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
    return {names.get(name, name): value for name, value in config.items()}


def _deepseek(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """Without a scoring function the format means softmax, which is version 2; weights in "fp8" come in blocks of 128 × 128."""
    common = _renamed(config, _INFERENCE)
    scoring = common.setdefault("scoring_func", "softmax")
    common["model_type"] = "deepseek_v3" if scoring == "sigmoid" else "deepseek_v2"
    common.setdefault("tie_word_embeddings", False)
    if common.get("q_lora_rank") == 0:
        common["q_lora_rank"] = None
    if common.get("dtype") == "fp8":
        common["dtype"] = "bfloat16"
        common["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    return common


def _grok(config: Mapping[str, Json]) -> Mapping[str, Json]:
    """The width of an expert is two thirds of the widened embedding, rounded up to a multiple of 8 (grok-1, model.py)."""
    common = _renamed(config, _GROK)
    width, widening = config.get("emb_size"), config.get("widening_factor")
    if isinstance(width, bool) or not isinstance(width, int) or not 0 < width < 2**31:
        raise wrong("emb_size", width, "a width")
    if isinstance(widening, bool) or not isinstance(widening, int | float) or not 0 < widening < 1000:
        raise wrong("widening_factor", widening, "a factor")
    size = int(widening * width) * 2 // 3
    common["intermediate_size"] = size + (8 - size) % 8
    common["model_type"] = "grok-1"
    return common
