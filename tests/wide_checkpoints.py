"""Checkpoints of any size in several files, and their layouts: bytes from a seed, no tensor library."""

import json
import random
from dataclasses import dataclass
from math import prod
from pathlib import Path

from checkpoints import names_for, spec_for
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.stages.headers.reading import index_of, parse_header
from dayzero.stages.layout.laying import lay_out

Config = dict[str, object]
_BLOCK_BYTES = 1 << 20


def dense(layers: int, hidden: int = 2048) -> Config:
    """A llama that tp 4 cuts: 90 MB a layer at the usual width."""
    return {
        "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 16,
        "num_key_value_heads": 4, "intermediate_size": hidden * 11 // 4, "vocab_size": 32_000, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }  # fmt: skip


def experts(layers: int, hidden: int = 1024) -> Config:
    """A mixture of eight experts: 181 MB a layer at the usual width."""
    return {
        "model_type": "mixtral", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 16,
        "num_key_value_heads": 4, "intermediate_size": hidden * 7 // 2, "num_local_experts": 8, "num_experts_per_tok": 2,
        "vocab_size": 32_000, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip


def weight_bytes(config: Config) -> int:
    """Bytes of the tensors of a configuration in BF16."""
    return sum(2 * prod(shape) for _, shape in names_for(config))


@dataclass(frozen=True)
class Written:
    """A checkpoint on the disk."""

    folder: Path
    config: Config
    index: CheckpointIndex
    files: tuple[str, ...]

    def layout(self, degrees: Degrees) -> ShardManifest:
        """Its shards, not written yet."""
        return lay_out("wide", spec_for(self.config), self.index, degrees)


def write_checkpoint(folder: Path, config: Config, files: int, seed: int = 7) -> Written:
    """Write it in so many files of about the same size."""
    folder.mkdir(parents=True, exist_ok=True)
    names, share = names_for(config), weight_bytes(config) / files
    parts: list[list[tuple[str, tuple[int, ...]]]] = [[] for _ in range(files)]
    at = 0
    for name, shape in names:
        parts[min(files - 1, int(at / share))].append((name, shape))
        at += 2 * prod(shape)
    headers = {
        (file := f"model-{number + 1:05d}-of-{files:05d}.safetensors"): _write(
            folder / file, part, random.Random(seed + number)
        )
        for number, part in enumerate(parts)
    }
    return Written(folder, config, index_of(headers, None), tuple(sorted(headers)))


def _write(path: Path, names: list[tuple[str, tuple[int, ...]]], source: random.Random) -> tuple[TensorHeader, ...]:
    rows: dict[str, object] = {}
    at = 0
    for name, shape in names:
        rows[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * prod(shape)]}
        at += 2 * prod(shape)
    header = json.dumps(rows).encode()
    noise = source.randbytes(_BLOCK_BYTES)
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        for number, begin in enumerate(range(0, at, _BLOCK_BYTES)):
            # Each block is the same noise turned by another amount: cheap to make, and no two blocks are alike.
            turn = number * 4099 % _BLOCK_BYTES
            block = noise[turn:] + noise[:turn]
            stream.write(block[: at - begin])
    return parse_header(path.name, path.stat().st_size, header)
