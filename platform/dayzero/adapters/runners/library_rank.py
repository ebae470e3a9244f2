"""One rank of the modelling library's own parallel run: its plans, its slices, its exchanges; only the watching is ours."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.measuring import held_bytes, parameters_of
from dayzero.adapters.runners.process_memory import own_peak_bytes
from dayzero.adapters.runners.replaying import Keeper, shower_of, write_shown
from dayzero.adapters.runners.sketching import Part, watch
from dayzero.codec import dump
from dayzero.domain.observed_parallel import RankObserved
from dayzero.domain.planning import Degrees
from dayzero.errors import BadInputError

ENGINE = "transformers"


@dataclass(frozen=True, slots=True)
class LibraryTask:
    """One rank's job, as a RankTask's; `meeting` is a URL of torch.distributed."""

    rank: int
    degrees: Degrees
    model_dir: str
    tokens: tuple[int, ...]
    meeting: str
    logits: str
    answer: str
    timeout_s: float
    prints: str
    token_block: int
    replay: str = ""


def distribution(degrees: Degrees) -> Any:
    """The library's own words for the degrees; BadInputError where it has none."""
    try:
        from transformers.distributed import DistributedConfig
    except ImportError as error:
        raise BadInputError(
            "this release of the modelling library runs no ranks of its own.", remedy="Install transformers 5.20 or newer."
        ) from error
    known = (Degrees(tp=degrees.tp), Degrees(pp=degrees.pp), Degrees(tp=degrees.tp, ep=degrees.tp))
    if degrees not in known:
        raise BadInputError(
            f"{degrees}: the modelling library is run with tp or pp alone, or with experts whole on the tp ranks.",
            remedy="Ask for --tp N, --pp N, or --tp N --ep N.",
        )
    if degrees.pp > 1:
        return DistributedConfig(pp_size=degrees.pp)
    return DistributedConfig(tp_size=degrees.tp, tp_plan="auto", ep_size=degrees.ep)


def run_library_rank(task: LibraryTask) -> None:
    """Meet the others, load, run, answer."""
    loading.quiet()
    world = task.degrees.world
    os.environ.update({"RANK": str(task.rank), "LOCAL_RANK": str(task.rank), "WORLD_SIZE": str(world)})
    dist.init_process_group(
        "gloo", init_method=task.meeting, rank=task.rank, world_size=world, timeout=timedelta(seconds=task.timeout_s)
    )
    model = _load(Path(task.model_dir), distribution(task.degrees))
    shower = shower_of(task.replay, len(task.tokens), task.token_block)
    watch(model, shower, _parts(model))
    if isinstance(shower, Keeper):
        shower.watch_given(model)
    with torch.no_grad():
        logits = model(torch.tensor([task.tokens]), use_cache=False).logits
    if hasattr(logits, "full_tensor"):
        logits = logits.full_tensor()
    if task.rank == 0:
        save_file({"logits": logits[0].contiguous()}, task.logits)
    write_shown(shower, task.rank, Path(task.prints))
    local = [parameter for parameter in model.parameters() if not parameter.is_meta]
    count = parameters_of(model)
    observed = RankObserved(task.rank, count * 4 if local else held_bytes(model), len(local), own_peak_bytes(), 0, count)
    Path(task.answer).write_bytes(dump(observed))
    dist.barrier()
    dist.destroy_process_group()


def _load(folder: Path, distributed: Any) -> Any:
    """The checkpoint in float32, eager where the model takes it."""
    given = {"dtype": torch.float32, "local_files_only": True, "trust_remote_code": False, "distributed_config": distributed}
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", **given).eval()


def _parts(model: Any) -> Callable[[str], Part | None]:
    """The channels that a linear module computes here, where its weight is cut into stretches of rows."""
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    found: dict[str, Part] = {}
    for name, module in model.named_modules():
        weight = module._parameters.get("weight")
        if not isinstance(weight, DTensor) or any(module is end for end in ends):
            continue
        if isinstance(module, torch.nn.Linear) and tuple(weight.placements) == (Shard(0),):
            shape, offset = compute_local_shape_and_global_offset(weight.shape, weight.device_mesh, weight.placements)
            found[name] = int(offset[0]), int(shape[0])
    return found.get
