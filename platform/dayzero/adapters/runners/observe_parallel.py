"""PARALLEL: ranks over gloo that hold nothing but their own shard files, against one process that holds everything.

Both compute in float32 (weights are widened to it exactly), and both are judged
against float64, so that only what parallelism changes is left.
"""

import os
import signal
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from dayzero import containment
from dayzero.adapters.runners import loading
from dayzero.adapters.runners.figures import dtype_name, tensor_error
from dayzero.adapters.runners.heads import wide_logits
from dayzero.adapters.runners.rank import run_rank
from dayzero.adapters.runners.rank_task import RankTask
from dayzero.codec import load
from dayzero.domain.observations import ParallelObserved, RankObserved
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import RunRequest
from dayzero.domain.shards import ShardManifest
from dayzero.errors import BadInputError
from dayzero.forking import fork_into
from dayzero.stages.structure.families import sharding_proven
from dayzero.stages.structure.reading import read_spec

TOKENS = 24
RANK_TIMEOUT_S = 1800.0


def observe_parallel(request: RunRequest) -> ParallelObserved:
    """Logits of the packaged text's first tokens. BadInputError: no shards, or shards of another plan.

    Option `skip_all_reduce=LAYER` plants a fault, to show that the check can fail.
    """
    began = time.monotonic()
    loading.quiet()
    folder, shards = loading.model_folder(request), shards_of(request)
    config = loading.read_config(folder)
    tokens = loading.option_int(request, "tokens", TOKENS, 2)
    given = loading.text_tokens(folder, config, loading.packaged_text()[1], tokens)
    ids = tuple(int(token) for token in given.ids[0])
    planted = loading.option_int(request, "skip_all_reduce", 0, 0) if "skip_all_reduce" in request.options else None
    at = Path.cwd() / "ranks"
    at.mkdir()
    degrees = request.degrees
    _require_proven((folder / "config.json").read_bytes(), degrees)
    tasks = [
        RankTask(
            rank, degrees, str(folder.resolve()), str(shards), ids, "float32", str(at / "meeting"),
            str(at / "logits.safetensors"), str(at / f"rank-{rank}.json"), RANK_TIMEOUT_S, planted,
            request.device, request.bridges,
        )
        for rank in range(degrees.world)
    ]  # fmt: skip
    run_ranks(tasks, at)
    ranks = tuple(load(RankObserved, Path(task.answer).read_bytes()) for task in tasks)
    parallel = load_file(tasks[0].logits)["logits"]
    single = loading.load_model(folder, torch.float32)
    exact = wide_logits(single, given.ids, torch.float64)
    with torch.no_grad():
        alone = single(given.ids, use_cache=False).logits[0]
    notes: tuple[str, ...] = (f"ranks computed on {request.device.torch_device}",) if request.device else ()
    notes += ("every data-parallel rank ran the same input",) if degrees.dp > 1 else ()
    return ParallelObserved(
        degrees,
        dtype_name(torch.float32),
        dtype_name(torch.float64),
        len(ids),
        given.source,
        tensor_error(parallel, exact),
        tensor_error(alone, exact),
        tensor_error(parallel, alone),
        float((parallel.argmax(-1) == exact.argmax(-1)).to(torch.float64).mean()),
        ranks,
        notes + ((f"a sum over ranks was left out in layer {planted}",) if planted is not None else ()),
        time.monotonic() - began,
    )


def _require_proven(config: bytes, degrees: Degrees) -> None:
    """Ranks hook into modules by rules that were proven one family after the other."""
    spec = read_spec(config, None)
    if max(degrees.tp, degrees.pp, degrees.ep, degrees.etp) > 1 and not sharding_proven(spec):
        name = spec.model_type or spec.architecture or "this model"
        raise BadInputError(
            f"the sharding rules of {name} are derived from its structure; ranks run by proven rules only.",
            remedy="Run it whole on each rank (dp), or prove its rules first.",
        )


def shards_of(request: RunRequest) -> Path:
    """The shards' folder, checked against the request's degrees."""
    if request.shards_dir is None or not (Path(request.shards_dir) / "manifest.json").is_file():
        raise BadInputError(f"there are no shards at {request.shards_dir}.", remedy="Shard the model first.")
    shards = Path(request.shards_dir).resolve()
    manifest = load(ShardManifest, (shards / "manifest.json").read_bytes())
    if manifest.degrees != request.degrees:
        raise BadInputError(
            f"the shards are of {manifest.degrees}, the run of {request.degrees}.", remedy="Shard the model for this plan."
        )
    return shards


def run_ranks(tasks: list[RankTask], at: Path) -> None:
    """Fork every rank, wait for all, end all when one fails; RuntimeError names the rank and its last line.

    No large operation may have run here before: torch's threads do not survive a fork.
    """
    threads = max(1, (os.cpu_count() or 1) // len(tasks))
    running = {_fork_rank(task, at, threads): task.rank for task in tasks}
    failed: list[int] = []
    try:
        while running and not failed:
            pid, status = os.wait()
            rank = running.pop(pid, None)
            if rank is not None and status != 0:
                failed.append(rank)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    for rank in range(len(tasks)):
        print(f"--- rank {rank}\n{(at / f'rank-{rank}.log').read_text(errors='replace')[-2000:]}")
    if failed:
        lines = (at / f"rank-{failed[0]}.log").read_text(errors="replace").strip().splitlines()
        raise RuntimeError(f"rank {failed[0]} of {len(tasks)} failed: {lines[-1] if lines else 'it said nothing'}")


def _fork_rank(task: RankTask, at: Path, threads: int) -> int:
    parent = os.getpid()

    def body() -> int:
        containment.die_with_parent(parent)
        torch.set_num_threads(threads)
        run_rank(task)
        return 0

    with (at / f"rank-{task.rank}.log").open("wb") as log:
        return fork_into(log.fileno(), body, own_group=False)
