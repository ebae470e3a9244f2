"""Ranks of a run under msprobe's debugger, each a process: clean, with one rank's sum left out, and one process alone.

    python msprobe_ranks.py MODEL SHARDS OUT TASK

Runs in msprobe's own environment. OUT/clean, OUT/faulty and OUT/alone are its dumps.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from msprobe.pytorch import PrecisionDebugger

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.rank import run_stage
from dayzero.adapters.runners.rank_groups import Groups
from dayzero.adapters.runners.rank_model import build_rank, load_weights
from dayzero.adapters.runners.rank_task import PlantedSum
from dayzero.adapters.runners.rank_wiring import wire
from dayzero.codec import load
from dayzero.domain.shards import ShardManifest
from dayzero.stages.layout.ranks import unfold

LAYER, RANK, TOKENS = 3, 1, 24


def debugger(out: Path, task: str) -> PrecisionDebugger:
    """msprobe's debugger at the level of modules."""
    out.mkdir(parents=True, exist_ok=True)
    config = out.with_suffix(f".{os.getpid()}.json")
    config.write_text(json.dumps({
        "task": task, "dump_path": str(out), "rank": [], "step": [], "level": "L0",
        "statistics": {"scope": [], "list": [], "data_mode": ["forward"], "summary_mode": "statistics"},
        "tensor": {"scope": [], "list": [], "data_mode": ["forward"]},
    }))  # fmt: skip
    return PrecisionDebugger(config_path=str(config))


def rank_body(rank: int, model: Path, shards: Path, out: Path, task: str, planted: PlantedSum | None) -> None:
    """One rank, looked at by msprobe."""
    loading.quiet()
    torch.set_num_threads(1)
    whole = load(ShardManifest, (shards / "manifest.json").read_bytes())
    ranked = build_rank(model, shards, unfold(whole, (rank,)), rank, torch.float32)
    world = whole.degrees.world
    dist.init_process_group("gloo", init_method=f"file://{out}.meeting", rank=rank, world_size=world)
    groups = Groups(rank, whole.degrees)
    wire(ranked, groups, planted)
    load_weights(ranked, overlap=False)
    looks = debugger(out, task)
    looks.start(model=ranked.model)
    run_stage(ranked, groups, ids(model), ranked.model.config.hidden_size, torch.float32)
    looks.stop()
    looks.step()
    dist.barrier()
    dist.destroy_process_group()


def alone(model: Path, out: Path, task: str) -> None:
    """One process that holds everything."""
    loading.quiet()
    single = loading.load_model(model, torch.float32)
    looks = debugger(out, task)
    looks.start(model=single)
    with torch.no_grad():
        single(inputs_embeds=single.get_input_embeddings()(ids(model)), use_cache=False)
    looks.stop()
    looks.step()


def ids(model: Path) -> torch.Tensor:
    """The packaged text's first tokens."""
    return loading.text_tokens(model, loading.read_config(model), loading.packaged_text()[1], TOKENS).ids


def main(model: Path, shards: Path, out: Path, task: str) -> None:
    """All three runs, one after the other."""
    out.mkdir(parents=True, exist_ok=True)
    context = torch.multiprocessing.get_context("spawn")
    for name, planted in (("clean", None), ("faulty", PlantedSum(LAYER, RANK))):
        ranks = [context.Process(target=rank_body, args=(rank, model, shards, out / name, task, planted)) for rank in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
            if process.exitcode:
                sys.exit(f"a rank of {name} ended with {process.exitcode}")
    process = context.Process(target=alone, args=(model, out / "alone", task))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"one process ended with {process.exitcode}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
