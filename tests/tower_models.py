"""Tiny multimodal checkpoints, drawn by a seed: language models with encoders of images or sound beside them."""

from pathlib import Path
from typing import Any

TEXT: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
CLIP = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "image_size": 48,
    "patch_size": 8, "projection_dim": 32,
}  # fmt: skip
TOWERS: dict[str, dict[str, Any]] = {
    "llava": {
        "text_config": {"model_type": "llama", **TEXT},
        "vision_config": {"model_type": "clip_vision_model", "hidden_act": "silu", **CLIP},
        "image_token_index": 127,
    },
    "qwen2_5_vl": {
        "text_config": {**TEXT, "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}},
        "vision_config": {
            "depth": 4, "hidden_size": 32, "num_heads": 4, "intermediate_size": 64, "out_hidden_size": 32, "patch_size": 8,
            "window_size": 32, "fullatt_block_indexes": [3], "spatial_merge_size": 2, "temporal_patch_size": 2,
        },
    },
    "gemma3": {
        "text_config": {**TEXT, "head_dim": 8, "sliding_window": 32},
        "vision_config": {**{name: CLIP[name] for name in CLIP if name != "projection_dim"}, "vision_use_head": False},
        "mm_tokens_per_image": 9,
    },
    "gemma4": {
        "image_token_id": 125, "audio_token_id": 126, "video_token_id": 127,
        "text_config": {**TEXT, "head_dim": 8, "global_head_dim": 8, "sliding_window": 32, "vocab_size_per_layer_input": 128,
                        "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0},
        "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
                          "num_key_value_heads": 4, "head_dim": 8, "patch_size": 4, "pooling_kernel_size": 2,
                          "position_embedding_size": 64},
        "audio_config": {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "output_proj_dims": 32,
                         "subsampling_conv_channels": [8, 4], "attention_context_left": 5},
    },
    "qwen2_audio": {
        "text_config": {"model_type": "qwen2", **TEXT},
        "audio_config": {"d_model": 32, "encoder_layers": 4, "encoder_attention_heads": 4, "encoder_ffn_dim": 64,
                         "num_mel_bins": 16, "max_source_positions": 64},
    },
    "mistral3": {
        "text_config": {"model_type": "mistral", **TEXT},
        "vision_config": {"model_type": "pixtral", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
                          "num_attention_heads": 4, "image_size": 128, "patch_size": 8, "head_dim": 8},
    },
}  # fmt: skip
"""By the library's model type."""


def tower_model(family: str, into: Path, dtype: str = "bfloat16", seed: int = 0) -> str:
    """The folder of a checkpoint of the family."""
    import torch
    from transformers import AutoConfig, AutoModelForMultimodalLM

    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **TOWERS[family])
    model = AutoModelForMultimodalLM.from_config(config, dtype=getattr(torch, dtype))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 1.5 / parameter[0].numel() ** 0.5)
    model.save_pretrained(into / family)
    return str(into / family)
