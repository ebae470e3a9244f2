"""python first_token.py MODEL SHARDS ROUNDS: seconds from the start to the first token out of cold files, three ways in turn.

Each run is a process forked from this one, which has imported what they need. A run's files are dropped from the page cache
before it, and what it read of the disk shows that they were. Prints one JSON document.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.rank import run_stage
from dayzero.adapters.runners.rank_groups import Groups
from dayzero.adapters.runners.rank_model import build_rank, load_weights
from dayzero.adapters.runners.rank_wiring import wire
from dayzero.codec import load
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.stages.layout.ranks import unfold

TOKENS = 16
DTYPE = torch.bfloat16


def by_rank(model: Path, shards: Path, *, overlap: bool) -> int:
    """The product's own path: rank 0 of 1."""
    manifest = unfold(load(ShardManifest, (shards / "manifest.json").read_bytes()))
    ranked = build_rank(model, shards, manifest, 0, DTYPE)
    groups = Groups(0, Degrees())
    wire(ranked, groups, None)
    load_weights(ranked, overlap=overlap)
    logits = run_stage(ranked, groups, tokens(), 0, DTYPE)
    assert logits is not None
    return int(logits[-1].argmax())


def by_library(model: Path, shards: Path) -> int:
    """The modelling library's own loading of the published files."""
    whole: Any = AutoModelForCausalLM.from_pretrained(model, dtype=DTYPE, attn_implementation="eager", local_files_only=True)
    with torch.no_grad():
        return int(whole(tokens(), use_cache=False).logits[0, -1].argmax())


def tokens() -> torch.Tensor:
    """A short prompt."""
    return torch.arange(3, 3 + TOKENS)[None]


WAYS: dict[str, Callable[[Path, Path], int]] = {
    "overlap": lambda model, shards: by_rank(model, shards, overlap=True),
    "no overlap": lambda model, shards: by_rank(model, shards, overlap=False),
    "from_pretrained": by_library,
}


def cold(folder: Path) -> int:
    """Drop a folder's weights from the page cache; their bytes."""
    total = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            total += os.fstat(stream.fileno()).st_size
    return total


def read_bytes() -> int:
    """What this process made the disk read."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"])


def measured(way: str, model: Path, shards: Path, answer: Path) -> dict[str, float]:
    """One run in a process of its own."""
    size = cold(model if way == "from_pretrained" else shards)
    pid = os.fork()
    if pid == 0:
        meeting = answer.with_suffix(".meeting")
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=0, world_size=1)
        before, began = read_bytes(), time.perf_counter()
        token = WAYS[way](model, shards)
        took = time.perf_counter() - began
        answer.write_text(json.dumps({"s": took, "token": token, "read": (read_bytes() - before) / size}))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"{way} failed"
    answer.with_suffix(".meeting").unlink(missing_ok=True)
    found: dict[str, float] = json.loads(answer.read_text())
    return found


def main() -> None:
    """All rounds, the ways in turn within each."""
    model, shards, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    loading.quiet()
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            runs[way].append(measured(way, model, shards, shards.parent / "answer.json"))
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
