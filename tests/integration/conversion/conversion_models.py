"""Small checkpoints to convert, and their conversion."""

from pathlib import Path
from typing import Any

from dayzero.adapters.conversion.converting import convert_checkpoint
from dayzero.domain.conversion import WeightFormat


def write_model(folder: Path, kind: str) -> Path:
    """A model of random weights in bfloat16 that the modelling library builds and saves: dense (in two files) or moe."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3MoeConfig

    usual: dict[str, Any] = {
        "vocab_size": 300, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "head_dim": 32, "pad_token_id": 0, "tie_word_embeddings": False,
    }  # fmt: skip
    torch.manual_seed(0)
    if kind == "dense":
        config: Any = LlamaConfig(**usual)
    else:
        config = Qwen3MoeConfig(**usual, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="400KB" if kind == "dense" else "1GB")
    return folder


def converted(model: Path, target: WeightFormat, into: Path) -> Path:
    """The model in the format."""
    convert_checkpoint(model, target, into)
    return into
