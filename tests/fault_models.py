"""Small models of six architectures whose weights let a fault show: attention that is peaked, experts far apart, a residual
stream so small that an epsilon matters. Each is written as a checkpoint from a seed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    GptOssConfig,
    JambaConfig,
    LlamaConfig,
    Qwen3Config,
    Qwen3NextConfig,
)

RESIDUAL, RESIDUAL_LATENT = 8e-4, 4e-4
"""Scale of the residual stream: its mean square, about 1e-6 at the first layer, is near an epsilon of 1e-6. Of latent
attention half as much, for choices of experts make its native error large."""
COMMON = 1.0
"""A direction that all tokens share, in units of what tells them apart: real models have one (massive activations)."""
ROUTER_OFFSET = -80.0
"""Where logits of the sigmoid router lie through that direction: far below zero, where bfloat16 has steps of 1/8 and more."""
BLOCK = 32
LARGEST_E4M3 = 448.0
WINDOW = 16

_SIZES: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 96, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": True,
}  # fmt: skip


def _dense() -> Any:
    return Qwen3Config(**_SIZES, tie_word_embeddings=True)


def _latent() -> Any:
    sizes = {**_SIZES, "num_key_value_heads": 4, "head_dim": 8}
    return DeepseekV3Config(
        **sizes, moe_intermediate_size=64, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, n_group=2,
        topk_group=1, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
        v_head_dim=16, routed_scaling_factor=1.0, num_nextn_predict_layers=0, tie_word_embeddings=False,
    )  # fmt: skip


def _window() -> Any:
    return GptOssConfig(
        **_SIZES, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 150000.0},
        layer_types=["sliding_attention", "full_attention"] * 2,
    )  # fmt: skip


def _delta() -> Any:
    return Qwen3NextConfig(
        **_SIZES, moe_intermediate_size=48, num_experts=4, num_experts_per_tok=2, shared_expert_intermediate_size=48,
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16, linear_value_head_dim=16,
        linear_conv_kernel_dim=4, full_attention_interval=2, decoder_sparse_step=1, norm_topk_prob=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        tie_word_embeddings=True,
    )  # fmt: skip


def _mamba() -> Any:
    return JambaConfig(
        **_SIZES, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, num_experts=4,
        num_experts_per_tok=2, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=8, use_mamba_kernels=False,
        tie_word_embeddings=False,
    )  # fmt: skip


def _quantized() -> Any:
    return LlamaConfig(**_SIZES, tie_word_embeddings=False)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A kind of model in words, how its configuration is made, and whether its matrices are stored in FP8 by blocks."""

    words: str
    config: Callable[[], Any]
    fp8: bool = False


ARCHITECTURES: Mapping[str, Architecture] = {
    "dense": Architecture("dense GQA (Qwen3)", _dense),
    "mla_moe": Architecture("MLA + MoE (DeepSeek-V3)", _latent),
    "window_sinks": Architecture("window with sinks, MoE (gpt-oss)", _window),
    "gated_delta": Architecture("gated delta hybrid, MoE (Qwen3-Next)", _delta),
    "mamba": Architecture("Mamba hybrid, MoE (Jamba)", _mamba),
    "fp8_block": Architecture("FP8 by blocks (Llama)", _quantized, fp8=True),
}


def write_model(kind: str, folder: Path, seed: int) -> Path:
    """The checkpoint of a kind, the same for the same seed; in float32 (or FP8), from which both dtypes are cut."""
    config = ARCHITECTURES[kind].config()
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = values_of(name, tuple(parameter.shape), seed, kind)
            if values is not None:
                parameter.copy_(values)
    model.generation_config.do_sample = False
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    if ARCHITECTURES[kind].fp8:
        quantize(folder)
    return folder


def values_of(name: str, shape: tuple[int, ...], seed: int, kind: str) -> torch.Tensor | None:
    """What a parameter is filled with; None: it keeps what the library starts a training with."""
    residual = RESIDUAL_LATENT if kind == "mla_moe" else RESIDUAL
    parts = name.removesuffix(".weight").split(".")
    last, drawn = parts[-1], normal(name, shape, seed)
    if last in ("A_log", "D", "dt_bias") or "dt_proj" in parts:
        return None
    if "norm" in last:
        # These norms add one to their weight themselves.
        centre = 0.0 if kind == "gated_delta" and "linear_attn" not in parts else 1.0
        return centre + 0.3 * drawn
    if last == "embed_tokens":
        return residual * (drawn + COMMON * direction(shape[-1], seed))
    if last == "sinks":
        return 4.0 + drawn
    if "bias" in last:
        return 0.1 * drawn * (residual if any(word in name for word in ("o_proj", "down_proj")) else 1.0)
    if "conv1d" in parts:
        return drawn * shape[-1] ** -0.5
    if len(shape) < 2:
        return None
    inner = shape[1] if kind == "window_sinks" and len(shape) == 3 else shape[-1]
    close = kind == "mla_moe" and last == "gate"
    values = (1.0 if close else gain_of(parts, residual)) * inner**-0.5 * drawn
    if close:
        values = values + ROUTER_OFFSET * direction(shape[-1], seed) / shape[-1]
    return values


def gain_of(parts: list[str], residual: float) -> float:
    """How strongly a matrix acts on inputs of mean square one."""
    last = parts[-1]
    if last == "down_proj" and "experts" in parts:
        return 3.0 * residual
    if last in ("o_proj", "out_proj", "down_proj"):
        return 1.5 * residual
    if last in ("q_proj", "k_proj", "q_b_proj", "kv_b_proj", "kv_a_proj_with_mqa"):
        return 1.8
    if last in ("gate", "router"):
        return 2.0
    return 1.5


def direction(width: int, seed: int) -> torch.Tensor:
    """A fixed vector of ones and minus ones."""
    return normal("the common direction", (width,), seed).sign()


def normal(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Standard normal numbers that depend on the name and the seed alone."""
    drawn = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.randn(shape, generator=torch.Generator().manual_seed(int.from_bytes(drawn[:7], "big")))


def quantize(folder: Path) -> None:
    """Matrices of the layers in FP8 (E4M3) with a scale for each block, as DeepSeek-V3's checkpoints have them."""
    file = folder / "model.safetensors"
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in load_file(file).items():
        if ".layers." not in name or tensor.dim() != 2:
            tensors[name] = tensor
            continue
        blocks = tensor.unflatten(0, (-1, BLOCK)).unflatten(2, (-1, BLOCK))
        scales = blocks.abs().amax((1, 3)) / LARGEST_E4M3
        values = (blocks / scales[:, None, :, None]).reshape(tensor.shape)
        tensors[name] = values.to(torch.float8_e4m3fn)
        tensors[f"{name.removesuffix('weight')}weight_scale_inv"] = scales
    save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=2))
