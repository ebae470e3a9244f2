"""A tiny configuration of every family that the modelling library builds, so that its real caches can be measured."""

from typing import Any

_USUAL: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 96, "moe_intermediate_size": 32, "vocab_size": 128, "max_position_embeddings": 512,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "shared_expert_intermediate_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "tie_word_embeddings": False,
}  # fmt: skip
_LATENT = {"head_dim": 8, "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16,
           "qk_rope_head_dim": 8, "v_head_dim": 12, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}  # fmt: skip
_INDEXED = {**_LATENT, "index_n_heads": 4, "index_head_dim": 16, "index_topk": 8}
_WINDOW = {"sliding_window": 16}
_DELTA = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 12,
          "linear_conv_kernel_dim": 4, "full_attention_interval": 2}  # fmt: skip
_HALVES = {"layer_types": ["linear_attention", "full_attention"] * 2}

DIFFERENT: dict[str, dict[str, Any]] = {
    "cwm": _WINDOW, "deepseek_v2": _LATENT, "deepseek_v3": _LATENT, "deepseek_v32": _INDEXED, "ernie4_5": {}, "exaone": {},
    "exaone4": _WINDOW, "gemma": {}, "gemma2": _WINDOW, "gemma3_text": _WINDOW, "glm": {},
    "gemma4_text": {**_WINDOW, "global_head_dim": 32, "num_global_key_value_heads": 1, "vocab_size_per_layer_input": 128,
                    "hidden_size_per_layer_input": 8},
    "glm4_moe": {"first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}, "glm4_moe_lite": _LATENT, "glm_moe_dsa": _INDEXED,
    "gpt_oss": _WINDOW, "granite": {}, "granitemoe": {}, "internlm3": {}, "iquestcoder": {}, "llama": {},
    "deepseek_v4": {**_WINDOW, "num_key_value_heads": 1, "q_lora_rank": 24, "qk_rope_head_dim": 8, "o_groups": 2,
                    "o_lora_rank": 8, "index_n_heads": 4, "index_head_dim": 16, "index_topk": 8,
                    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16},
                    "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention",
                                    "compressed_sparse_attention"], "mlp_layer_types": ["moe"] * 4},
    "falcon_h1": {"mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 32, "mamba_n_groups": 1,
                  "mamba_d_conv": 4},
    "jamba": {"num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 2, "mamba_d_state": 8, "mamba_d_conv": 4,
              "mamba_expand": 2, "mamba_dt_rank": 4, "use_mamba_kernels": False},
    "kimi_linear": {**_LATENT, "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
                    "linear_attn_config": {"head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4,
                                           "kda_layers": [1, 2, 4], "full_attn_layers": [3]}},
    "llama4_text": {"attention_chunk_size": 16, "intermediate_size_mlp": 96,
                    "layer_types": ["chunked_attention"] * 3 + ["full_attention"]},
    "longcat_flash": {**_LATENT, "num_layers": 2, "ffn_hidden_size": 96, "expert_ffn_hidden_size": 32, "zero_expert_num": 2,
                      "moe_topk": 2},
    "mellum": {}, "minicpm3": _LATENT, "minimax": {"block_size": 16, **_HALVES}, "minimax_m2": {}, "ministral3": _WINDOW,
    "minimax_m3_vl_text": {"sparse_attention_config": {
        "use_sparse_attention": True, "sparse_num_index_heads": 2, "sparse_index_dim": 16, "sparse_topk_blocks": 2,
        "sparse_block_size": 8, "sparse_local_block": 1, "sparse_attention_freq": [0, 1, 1, 1]}},
    "mistral": _WINDOW, "mixtral": _WINDOW, "olmo2": {}, "olmo3": _WINDOW, "olmoe": {}, "phi3": _WINDOW,
    "nemotron_h": {"hybrid_override_pattern": "M*ME", "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 32,
                   "n_groups": 2, "conv_kernel": 4},
    "qwen2": {}, "qwen2_moe": {}, "qwen3": {}, "qwen3_moe": {}, "qwen3_5_moe_text": _DELTA, "qwen3_5_text": _DELTA,
    "qwen3_next": _DELTA, "qwen3_vl_moe_text": {}, "qwen3_vl_text": {}, "sarvam_mla": _LATENT, "seed_oss": {}, "smollm3": {},
    "youtu": _LATENT,
}  # fmt: skip
"""What each family's configuration has beside the usual sizes."""

GPT2: dict[str, Any] = {"n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 128, "n_positions": 512}

FAMILIES: dict[str, dict[str, Any]] = {
    **{name: {**_USUAL, **different} for name, different in DIFFERENT.items()},
    "gpt2": GPT2,
}
"""Arguments of each family's configuration class in the modelling library."""

NOT_BUILT = {
    "bert": "an encoder: it keeps no cache",
    "grok-1": "not in the modelling library", "kimi_k2": "not in the modelling library: its checkpoints say deepseek_v3",
    "kimi_k25": "a wrapper around kimi_k2", "mimo": "not in the modelling library: Qwen2 with a draft layer",
    "minimax_m1": "not in the modelling library: minimax under another name", "minimax_m3": "minimax_m3_vl_text there",
    "minimax_m3_vl": "a wrapper around minimax_m3_vl_text", "minimax_text_01": "minimax under another name",
    "qwen3_5": "a wrapper around qwen3_5_text", "qwen3_5_moe": "a wrapper around qwen3_5_moe_text",
}  # fmt: skip
"""Families whose cache is not measured, and why."""
