"""Eight small architectures as their publishers store them, the degrees that each allows, and checkpoints of random bytes."""

import itertools
import json
import random
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from checkpoints import DEEPSEEK, GPT_OSS, MIXTRAL, SMOLLM2
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.stages.headers.reading import index_of, parse_header
from dayzero.stages.layout.constraints import Limits
from dayzero.stages.layout.stored import stored_tensors
from dayzero.stages.structure.reading import read_spec

QWEN3_NEXT: dict[str, Any] = {
    "model_type": "qwen3_5_moe_text", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "vocab_size": 70, "num_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24,
    "linear_num_value_heads": 8, "linear_num_key_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 4,
    "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
NEMOTRON: dict[str, Any] = {
    "model_type": "nemotron_h", "hidden_size": 32, "num_hidden_layers": 4, "hybrid_override_pattern": "M-M*",
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "vocab_size": 70,
    "mamba_num_heads": 8, "mamba_head_dim": 4, "ssm_state_size": 8, "n_groups": 4, "conv_kernel": 4, "use_conv_bias": True,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA3: dict[str, Any] = {
    "model_type": "gemma3_text", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "vocab_size": 70, "sliding_window": 8,
    "sliding_window_pattern": 3, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
FP8: dict[str, Any] = {
    **DEEPSEEK, "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32, "q_lora_rank": 24,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [8, 8]},
}  # fmt: skip
MXFP4: dict[str, Any] = {
    **GPT_OSS, "hidden_size": 64, "intermediate_size": 128,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["self_attn"]},
}  # fmt: skip
QWEN3_VL: dict[str, Any] = {
    "model_type": "qwen3_vl", "text_config": {
        "model_type": "qwen3_vl_text", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "vocab_size": 70, "dtype": "bfloat16",
        "tie_word_embeddings": False},
    "vision_config": {
        "model_type": "qwen3_vl", "hidden_size": 16, "depth": 2, "num_heads": 2, "intermediate_size": 32, "patch_size": 4,
        "temporal_patch_size": 2, "spatial_merge_size": 2, "in_channels": 3, "num_position_embeddings": 16,
        "out_hidden_size": 32, "deepstack_visual_indexes": [0]},
    "tie_word_embeddings": False,
}  # fmt: skip

EIGHT: dict[str, dict[str, Any]] = {
    "dense": {**SMOLLM2, "tie_word_embeddings": False}, "moe": MIXTRAL, "mla": {**DEEPSEEK, "num_nextn_predict_layers": 1},
    "hybrid": QWEN3_NEXT, "tied": GEMMA3, "fp8": FP8, "mxfp4": MXFP4, "multimodal": QWEN3_VL,
}  # fmt: skip
MODELS = {**EIGHT, "state space": NEMOTRON}
"""The eight, and a second hybrid whose projections are several in one."""


@cache
def spec_of(name: str) -> ModelSpec:
    """The structure of one of them, from its configuration."""
    return read_spec(json.dumps(MODELS[name]).encode(), None)


@cache
def index_of_model(name: str) -> CheckpointIndex:
    """The headers of a one-file checkpoint of it."""
    rows = checkpoint_rows(name)
    text = json.dumps(rows).encode()
    size = 8 + len(text) + max(row["data_offsets"][1] for row in rows.values())
    return index_of({"model.safetensors": parse_header("model.safetensors", size, text)}, None)


def checkpoint_rows(name: str) -> dict[str, dict[str, Any]]:
    """The header of the file as safetensors writes it."""
    stored = stored_tensors(spec_of(name))
    assert stored is not None
    rows, at = {}, 0
    headers = [tensor.header(0, expert) for tensor in stored for expert in range(tensor.experts)]
    for header in sorted(headers, key=lambda one: -DTYPE_BITS[one.dtype]):
        rows[header.name] = {"dtype": header.dtype, "shape": header.shape, "data_offsets": (at, at + header.size_bytes)}
        at += header.size_bytes
    return rows


def write_model(name: str, folder: Path, seed: int = 7) -> CheckpointIndex:
    """The file with random bytes; the index of its headers."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(checkpoint_rows(name)).encode()
    index = index_of_model(name)
    (folder / "model.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + random.Random(seed).randbytes(index.weight_bytes)
    )
    return index


@cache
def legal(name: str, most: int = 32) -> tuple[tuple[Degrees, int], ...]:
    """Every degrees that the structure allows on so many devices, with a number of redundant experts."""
    limits, found = Limits(spec_of(name)), []
    sizes = (1, 2, 3, 4, 8)
    for tp, pp, dp, cp in itertools.product(sizes, (1, 2, 3, 4), (1, 2, 4), (1, 2)):
        if tp * pp * dp * cp > most:
            continue
        for ep, etp, redundant in itertools.product((1, 2, 4, 8), (1, 2, 4), (0, 2, 4)):
            degrees = Degrees(tp, pp, ep, dp, cp, etp)
            if (ep > 1 or not redundant) and not limits.violations(degrees, redundant):
                found.append((degrees, redundant))
    return tuple(found)


def slice_of(source: bytes, header: TensorHeader, tensor: ShardTensor) -> bytes:
    """A rank's part of a tensor, cut by counting elements: no code of the sharder's."""
    data, bits = source[header.begin : header.end], DTYPE_BITS[header.dtype]
    shape = header.shape
    if tensor.rows:
        each = len(data) // shape[0]
        data = b"".join(data[first * each : last * each] for first, last in tensor.rows)
        shape = (sum(last - first for first, last in tensor.rows), *shape[1:])
    if tensor.dim is not None:
        inner = prod(shape[tensor.dim + 1 :]) * bits // 8
        row = shape[tensor.dim] * inner
        pieces = tensor.pieces or ((tensor.start, tensor.stop),)
        data = b"".join(
            data[at + start * inner : at + stop * inner] for at in range(0, len(data), row) for start, stop in pieces
        )
    return data + bytes(tensor.padding_bytes)


def cells(tensor: ShardTensor, header: TensorHeader) -> set[tuple[int, int]]:
    """Which (row, slice) cells of a tensor a rank holds: rows of the first dimension, slices of the one that is cut."""
    first = header.shape[0] if header.shape else 1
    rows = [at for begin, end in tensor.rows or ((0, first),) for at in range(begin, end)]
    if tensor.dim is None:
        return {(row, -1) for row in rows}
    pieces = tensor.pieces or ((tensor.start, tensor.stop),)
    taken = [at for start, stop in pieces for at in range(start, stop)]
    return {(-1, at) for at in taken} if tensor.dim == 0 else {(row, at) for row in rows for at in taken}
