"""A small model of a real family as a repository that a hub serves: several files, an index, and copies that nobody needs."""

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path

from checkpoints import DEEPSEEK, names_for, spec_for
from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.lines import LineLimits
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Degrees
from dayzero.domain.release import Release
from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.layout.laying import lay_out
from dayzero.steps.headers import checkpoint_index
from hub_models import fill, noise

REPO = "acme/moe"
CONFIG: dict[str, object] = {
    **DEEPSEEK, "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 128, "vocab_size": 1000,
    "q_lora_rank": 64, "kv_lora_rank": 64,
}  # fmt: skip
FILES = 3


def safetensors_bytes(shapes: dict[str, tuple[int, ...]], seed: bytes) -> bytes:
    """A BF16 file of these tensors with bytes from a seed."""
    rows, at = {}, 0
    for name, shape in sorted(shapes.items()):
        rows[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * prod(shape)]}
        at += 2 * prod(shape)
    header = json.dumps(rows).encode()
    return len(header).to_bytes(8, "little") + header + noise(at, seed)


def publish(folder: Path, config: dict[str, object] | None = None) -> Path:
    """Write the repository under the served folder; returns its place."""
    config = config or CONFIG
    shapes = dict(names_for(config))
    parts: dict[str, dict[str, tuple[int, ...]]] = {}
    for number, name in enumerate(sorted(shapes)):
        file = f"model-{number % FILES + 1:05d}-of-{FILES:05d}.safetensors"
        parts.setdefault(file, {})[name] = shapes[name]
    weights = {file: safetensors_bytes(part, file.encode()) for file, part in parts.items()}
    weight_map = {name: file for file, part in parts.items() for name in part}
    fill(folder, REPO, {
        "config.json": json.dumps(config).encode(),
        "model.safetensors.index.json": json.dumps({"metadata": {}, "weight_map": weight_map}).encode(),
        "original/model.safetensors": weights[min(weights)],
        "pytorch_model.bin": b"never fetched",
        **weights,
    })  # fmt: skip
    return folder / REPO


@dataclass(frozen=True)
class Known:
    """What is known of the published model from a hub: release, headers, structure."""

    hub: HuggingFaceHub
    release: Release
    index: CheckpointIndex
    spec: ModelSpec

    def layout(self, degrees: Degrees, ranks: tuple[int, ...] | None = None) -> ShardManifest:
        return lay_out(self.release.content_id, self.spec, self.index, degrees, ranks=ranks)


def known_at(url: str, *, retries: int = 2, timeout_s: float = 20.0) -> Known:
    """Ask the hub at a URL."""
    hub = hub_at(url, retries=retries, timeout_s=timeout_s)
    release = hub.release(REPO, None)
    index = checkpoint_index(hub, release)
    return Known(hub, release, index, spec_for(CONFIG, index))


def hub_at(url: str, *, retries: int = 2, timeout_s: float = 20.0) -> HuggingFaceHub:
    """The hub at a URL, impatient."""
    return HuggingFaceHub(url, None, timeout_s=timeout_s, retries=retries, first_wait_s=0.01, limits=LineLimits(connections=4))
