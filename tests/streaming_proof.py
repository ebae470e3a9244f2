"""Checkpoints with weights from a seed, of any size, and their observation within a memory limit beside that from memory."""

import json
import subprocess
import sys
import time
from math import prod
from pathlib import Path
from typing import Any

from checkpoints import names_for

CHILD = Path(__file__).with_name("streaming_run.py")
GIB = 2**30
Config = dict[str, object]


def dense(layers: int, hidden: int = 2048, vocabulary: int = 32_000) -> Config:
    """A llama: 91 MB a layer at the usual width."""
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": hidden * 11 // 4, "vocab_size": vocabulary,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip


def mixture(layers: int, hidden: int = 1024, experts: int = 64, vocabulary: int = 32_000) -> Config:
    """A Qwen3 mixture, of 64 experts with 310 MB a layer at the usual width."""
    return {
        "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": hidden // 16, "intermediate_size": hidden * 3,
        "moe_intermediate_size": hidden * 3 // 4, "num_experts": experts, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "norm_topk_prob": True, "vocab_size": vocabulary, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }  # fmt: skip


def write(folder: Path, config: Config, per_file_bytes: int = GIB, seed: int = 5) -> int:
    """Write the checkpoint, file by file; the bytes of its tensors. Tensors of one shape are one noise, each turned further."""
    import torch
    from safetensors.torch import save_file

    from dayzero.adapters.runners.dummy_weights import weights_of

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    parts: list[list[tuple[str, tuple[int, ...]]]] = [[]]
    held = total = 0
    for name, shape in names_for(config):
        size = 2 * prod(shape)
        if held + size > per_file_bytes and parts[-1]:
            parts.append([])
            held = 0
        parts[-1].append((name, shape))
        held, total = held + size, total + size
    index: dict[str, str] = {}
    noises: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}
    turns: dict[tuple[str, tuple[int, ...]], int] = {}
    for number, part in enumerate(parts):
        file = f"model-{number + 1:05d}-of-{len(parts):05d}.safetensors"
        made = {}
        for name, shape in part:
            kind = (name.split(".")[-2], shape)
            if kind not in noises:
                noises[kind] = weights_of(name, shape, seed).to(torch.bfloat16)
            turns[kind] = turns.get(kind, -1) + 1
            made[name] = noises[kind].roll(turns[kind] * 4099)
        save_file(made, folder / file, {"format": "pt"})
        index |= dict.fromkeys(made, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": index}))
    return total


def plain_read_s(folder: Path) -> float:
    """Seconds to read every byte of the weights once, in stretches of 16 MiB."""
    buffer = bytearray(16 << 20)
    began = time.monotonic()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass
    return time.monotonic() - began


def observe(folder: Path, observation: str, limit_bytes: int, where: str, work: Path, tokens: int = 96) -> dict[str, Any]:
    """One observation in a process of its own."""
    command = [sys.executable, str(CHILD), str(folder), observation, str(limit_bytes), where, str(work), str(tokens)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def figures(written: int, read_s: float, streamed: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    """What a proof writes down of both."""
    source = streamed["source"]
    return {
        "checkpoint_bytes": written, "limit_bytes": source["limit_bytes"], "cgroup_limit_bytes": streamed["cgroup_limit_bytes"],
        "layers": source["reads"], "largest_layer_bytes": source["largest_layer_bytes"],
        "streamed_peak_rss_bytes": streamed["peak_rss_bytes"], "streamed_cgroup_peak_bytes": streamed["cgroup_peak_bytes"],
        "in_memory_peak_rss_bytes": held["peak_rss_bytes"], "read_bytes": source["read_bytes"],
        "experts_read": source["experts_read"], "experts": source["experts"], "plain_read_s": round(read_s, 2),
        "layers_read_s": round(source["read_s"], 2), "streamed_s": round(streamed["wall_s"], 1),
        "in_memory_s": round(held["wall_s"], 1), "equal_to_the_last_bit": streamed["digest"] == held["digest"],
    }  # fmt: skip
