"""A small configuration, its headers, and how tests read them."""

import json
from typing import Any

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.stages.structure.reading import read_spec

Row = tuple[str, str, tuple[int, ...]]
_BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4, "U32": 4}

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def read(config: dict[str, Any], index: CheckpointIndex | None = None, side: dict[str, Any] | None = None) -> ModelSpec:
    """The structure of a configuration, with headers and a side file where there are any."""
    return read_spec(json.dumps(config).encode(), index, side=None if side is None else json.dumps(side).encode())


def headers(*rows: Row) -> CheckpointIndex:
    """Headers of tensors, one behind the other."""
    at, found = 0, []
    for name, dtype, shape in rows:
        size = _BYTES[dtype]
        for length in shape:
            size *= length
        found.append(TensorHeader(name, dtype, shape, "model.safetensors", at, at + size))
        at += size
    return CheckpointIndex(tuple(found), ())


def llama_headers(*, layers: int = 2, head: bool = True) -> list[Row]:
    """What a checkpoint of LLAMA holds."""
    rows: list[Row] = [("model.embed_tokens.weight", "BF16", (100, 64)), ("model.norm.weight", "BF16", (64,))]
    if head:
        rows.append(("lm_head.weight", "BF16", (100, 64)))
    shapes = {"q": (64, 64), "k": (32, 64), "v": (32, 64), "o": (64, 64)}
    for at in range(layers):
        below = f"model.layers.{at}"
        rows += [(f"{below}.{name}.weight", "BF16", (64,)) for name in ("input_layernorm", "post_attention_layernorm")]
        rows += [(f"{below}.self_attn.{name}_proj.weight", "BF16", shape) for name, shape in shapes.items()]
        rows += [(f"{below}.mlp.{name}_proj.weight", "BF16", (128, 64)) for name in ("gate", "up")]
        rows.append((f"{below}.mlp.down_proj.weight", "BF16", (64, 128)))
    return rows
