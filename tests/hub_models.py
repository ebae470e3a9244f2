"""A small repository, and a hub over a folder that holds it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from hub_counter import CountingHub

REPO = "acme/tiny"
BIG_BYTES = 5 * (1 << 20) + 7


@dataclass(frozen=True)
class Published:
    """A folder that is served, and its hub."""

    folder: Path
    hub: CountingHub

    @property
    def url(self) -> str:
        return self.hub.url

    def path(self, name: str) -> Path:
        return self.folder / REPO / name


def fill(folder: Path, repo_id: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        place = folder / repo_id / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def noise(size_bytes: int, seed: bytes) -> bytes:
    return hashlib.shake_256(seed).digest(size_bytes)


def repo_files() -> dict[str, bytes]:
    shards = {f"model-0000{number}-of-00002.safetensors": noise(BIG_BYTES, b"%d" % number) for number in (1, 2)}
    index = {"metadata": {}, "weight_map": {f"t{number}": name for number, name in enumerate(sorted(shards))}}
    return {
        "config.json": json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "README.md": b"---\npipeline_tag: text-generation\ntags: [tiny]\n---\n# Tiny\n",
        "notes/a b.txt": b"spaces, and a folder",
        **shards,
    }
