"""Small configurations of real families, and the headers that a checkpoint of each has."""

import json
from math import prod

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.stages.layout.stored import stored_tensors
from dayzero.stages.structure.reading import read_spec

SMOLLM2: dict[str, object] = {
    "model_type": "llama", "hidden_size": 72, "num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3,
    "intermediate_size": 96, "vocab_size": 50, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK: dict[str, object] = {
    "model_type": "deepseek_v3", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "q_lora_rank": 12,
    "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "intermediate_size": 48,
    "moe_intermediate_size": 16, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "first_k_dense_replace": 1, "vocab_size": 40, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTRAL: dict[str, object] = {
    "model_type": "mixtral", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 30, "sliding_window": 16,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
GPT_OSS: dict[str, object] = {
    "model_type": "gpt_oss", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 24, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 30,
    "sliding_window": 16, "attention_bias": True, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def spec_for(config: dict[str, object], index: CheckpointIndex | None = None) -> ModelSpec:
    """The structure of a configuration."""
    return read_spec(json.dumps(config).encode(), index)


def names_for(config: dict[str, object]) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a checkpoint of the configuration, in checkpoint order."""
    stored = stored_tensors(spec_for(config))
    assert stored is not None
    return [(tensor.name.replace("{e}", str(expert)), tensor.shape) for tensor in stored for expert in range(tensor.experts)]


def index_for(config: dict[str, object], dtype: str = "BF16", element_bytes: int = 2) -> CheckpointIndex:
    """The headers of a one-file checkpoint of the configuration."""
    at, headers = 1000, []
    for name, shape in names_for(config):
        size = prod(shape) * element_bytes
        headers.append(TensorHeader(name, dtype, shape, "model.safetensors", at, at + size))
        at += size
    return CheckpointIndex(tuple(sorted(headers, key=lambda header: header.name)))
