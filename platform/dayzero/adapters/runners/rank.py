"""One rank of a parallel run, in a process forked from the one that observes."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.placing import HOST, device_for
from dayzero.adapters.runners.process_memory import own_peak_bytes
from dayzero.adapters.runners.rank_model import RankModel, build_rank
from dayzero.adapters.runners.rank_task import RankTask
from dayzero.codec import dump, load
from dayzero.domain.observations import RankObserved
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.shards import ShardManifest


class Groups:
    """The rank's groups, by the layout's order: rank = (pp × dp degree + dp) × tp degree + tp; ep runs over tp and dp."""

    def __init__(self, rank: int, degrees: Degrees) -> None:
        self.rank = rank
        self.per_stage = degrees.tp * degrees.dp
        self.first_of_stage = rank // self.per_stage * self.per_stage
        self.tp_index = rank % degrees.tp
        self.collectives = 0
        self.tp = self._group(degrees.tp, degrees.world)
        self.ep = self._group(degrees.ep, degrees.world) if degrees.ep > 1 else self.tp

    def _group(self, size: int, world: int) -> Any:
        """Every rank makes every group, as torch wants it; blocks of `size` neighbours."""
        mine = None
        for first in range(0, world, size):
            group = dist.new_group(list(range(first, first + size)))
            if first <= self.rank < first + size:
                mine = group
        return mine

    def sum(self, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        """The sum over the group's ranks."""
        summed = tensor.to(HOST).contiguous()
        dist.all_reduce(summed, group=group)
        self.collectives += 1
        return summed.to(tensor.device)


def wire(ranked: RankModel, groups: Groups, skip_layer: int | None) -> None:
    """Sum partial results over ranks; a planted fault leaves out the first sum in one layer."""
    skipped = False
    for path in [*ranked.summed, *(path for path in ranked.expert_parallel if path not in ranked.summed)]:
        if skip_layer is not None and not skipped and f"layers.{skip_layer}." in path:
            skipped = True
            continue
        module = ranked.model.get_submodule(path)
        if getattr(module, "bias", None) is not None and groups.tp_index != 0:
            module.bias = None
        group = groups.ep if path in ranked.expert_parallel else groups.tp
        module.register_forward_hook(lambda _module, _args, out, group=group: groups.sum(out, group))
    for path, (first, count) in ranked.expert_parallel.items():
        ranked.model.get_submodule(path).register_forward_pre_hook(
            lambda _module, args, first=first, count=count: (args[0], _own(args[1], first, count), *args[2:])
        )


def _own(chosen: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """Experts of other ranks become the number after the last, which the library's experts pass over."""
    local = chosen - first
    return torch.where((local >= 0) & (local < count), local, count)


def run_stage(ranked: RankModel, groups: Groups, ids: torch.Tensor, width: int, dtype: torch.dtype) -> torch.Tensor | None:
    """Logits [tokens, vocabulary] on the last stage, None before it."""
    model = ranked.model
    device = next(model.parameters()).device
    with torch.no_grad():
        if ranked.first_stage:
            hidden = model.get_input_embeddings()(ids.to(device))
        else:
            hidden = torch.empty((1, ids.shape[1], width), dtype=dtype)
            dist.recv(hidden, groups.rank - groups.per_stage)
            hidden = hidden.to(device)
        if ranked.last_stage:
            logits: torch.Tensor = model(inputs_embeds=hidden, use_cache=False).logits[0]
            return logits.to(HOST)
        hidden = model.base_model(inputs_embeds=hidden, use_cache=False).last_hidden_state
        dist.send(hidden.to(HOST).contiguous(), groups.rank + groups.per_stage)
    return None


def run_rank(task: RankTask) -> None:
    """Load, meet the others, run, answer."""
    loading.quiet()
    dtype = loading.DTYPES[task.dtype]
    shards = Path(task.shards_dir)
    manifest = load(ShardManifest, (shards / "manifest.json").read_bytes())
    device = device_for(RunRequest(Observation.PARALLEL, "", device=task.device))
    install(task.bridges, device)
    ranked = build_rank(Path(task.model_dir), shards, manifest, task.rank, dtype)
    ranked.model.to(device)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{task.meeting}",
        rank=task.rank,
        world_size=task.degrees.world,
        timeout=timedelta(seconds=task.timeout_s),
    )
    groups = Groups(task.rank, task.degrees)
    wire(ranked, groups, task.skip_all_reduce)
    width = ranked.model.config.get_text_config().hidden_size
    logits = run_stage(ranked, groups, torch.tensor([task.tokens]), width, dtype)
    if logits is not None and task.rank == groups.first_of_stage:
        save_file({"logits": logits.contiguous()}, task.logits)
    observed = RankObserved(task.rank, ranked.weight_bytes, ranked.tensors, own_peak_bytes(), groups.collectives)
    Path(task.answer).write_bytes(dump(observed))
    dist.barrier()
    dist.destroy_process_group()
