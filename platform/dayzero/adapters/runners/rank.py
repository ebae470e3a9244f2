"""One rank of a parallel run, in a process forked from the one that observes."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.measuring import Peak
from dayzero.adapters.runners.placing import HOST, device_for
from dayzero.adapters.runners.process_memory import own_peak_bytes
from dayzero.adapters.runners.rank_groups import Groups
from dayzero.adapters.runners.rank_memory import decode
from dayzero.adapters.runners.rank_model import HeldExperts, RankModel, build_rank, load_weights
from dayzero.adapters.runners.rank_task import RankTask
from dayzero.adapters.runners.rank_vocabulary import wire_vocabulary
from dayzero.codec import dump, load
from dayzero.domain.observations import RankMemory, RankObserved
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.shards import ShardManifest
from dayzero.stages.layout.ranks import unfold


def wire(ranked: RankModel, groups: Groups, skip_layer: int | None) -> None:
    """Sum partial results over ranks; a planted fault leaves out the first sum in one layer."""
    skipped = False
    for path in [*ranked.summed, *(path for path in ranked.expert_parallel if path not in ranked.summed)]:
        if skip_layer is not None and not skipped and f"layers.{skip_layer}." in path:
            skipped = True
            continue
        module = ranked.model.get_submodule(path)
        routed = path.endswith(".experts")
        if path in ranked.summed:
            _add_bias_once(module, groups.slice_index if routed else groups.tp_index, ranked.weights.device)
        group = groups.ep if routed else groups.tp
        module.register_forward_hook(lambda _module, _args, out, group=group: groups.sum(out, group))
    for path, experts in ranked.expert_parallel.items():
        ranked.model.get_submodule(path).register_forward_pre_hook(_only_own(experts))
    for path, width in ranked.normed.items():
        _sum_norm(ranked.model.get_submodule(path), width, groups)
    wire_vocabulary(ranked, groups)


def _add_bias_once(module: Any, part: int, device: torch.device) -> None:
    """What is added after a cut input stands whole on every rank; only the first one of those that are summed adds it."""
    if part == 0:
        return
    if getattr(module, "bias", None) is not None:
        module.bias = None
    if getattr(module, "down_proj_bias", None) is not None:
        bias = torch.zeros(module.down_proj_bias.shape, dtype=module.down_proj_bias.dtype, device=device)
        module.down_proj_bias = torch.nn.Parameter(bias, requires_grad=False)


def _only_own(experts: HeldExperts) -> Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]:
    """A token's experts by the rank's own numbers; those of other ranks become the first one with a weight of zero."""
    table = torch.full((experts.of,), -1)
    for number, expert in enumerate(experts.numbers):
        if expert in experts.own:
            table[expert] = number

    def hook(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, chosen, weights, *rest = args
        local = table.to(chosen.device)[chosen]
        return (hidden, local.clamp(min=0), weights.masked_fill(local < 0, 0), *rest)

    return hook


def _sum_norm(norm: Any, width: int, groups: Groups) -> None:
    """A root-mean-square norm over all heads, of which the rank has some: squares are summed over ranks. Heads that lie on
    several ranks count once."""
    epsilon = getattr(norm, "variance_epsilon", None) or norm.eps
    copies = norm.weight.shape[0] * groups.tp_size // width

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        wide = hidden.to(torch.float32)
        squares = groups.sum(wide.pow(2).sum(-1, keepdim=True), groups.tp) / copies
        normed = wide * torch.rsqrt(squares / width + epsilon)
        return norm.weight * normed.to(hidden.dtype)

    norm.forward = forward


def run_stage(ranked: RankModel, groups: Groups, ids: torch.Tensor, width: int, dtype: torch.dtype) -> torch.Tensor | None:
    """Logits [tokens, vocabulary] on the last stage, None before it."""
    model = ranked.model
    device = ranked.weights.device
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
    peak = Peak() if task.decode_tokens is not None else None
    loading.quiet()
    dtype = loading.DTYPES[task.dtype]
    shards = Path(task.shards_dir)
    manifest = unfold(load(ShardManifest, (shards / "manifest.json").read_bytes()), (task.rank,))
    device = device_for(RunRequest(Observation.PARALLEL, "", device=task.device))
    install(task.bridges, device)
    ranked = build_rank(Path(task.model_dir), shards, manifest, task.rank, dtype, device)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{task.meeting}",
        rank=task.rank,
        world_size=task.degrees.world,
        timeout=timedelta(seconds=task.timeout_s),
    )
    groups = Groups(task.rank, task.degrees)
    wire(ranked, groups, task.skip_all_reduce)
    load_weights(ranked, overlap=task.overlap and peak is None)
    if peak is not None:
        observed: RankObserved | RankMemory = decode(ranked, groups, task, peak)
        _answer(task, observed)
        return
    width = ranked.model.config.get_text_config().hidden_size
    logits = run_stage(ranked, groups, torch.tensor([task.tokens]), width, dtype)
    if logits is not None and task.rank == groups.first_of_stage:
        save_file({"logits": logits.contiguous()}, task.logits)
    observed = RankObserved(task.rank, ranked.weight_bytes, ranked.tensors, own_peak_bytes(), groups.collectives)
    _answer(task, observed)


def _answer(task: RankTask, observed: RankObserved | RankMemory) -> None:
    Path(task.answer).write_bytes(dump(observed))
    dist.barrier()
    dist.destroy_process_group()
