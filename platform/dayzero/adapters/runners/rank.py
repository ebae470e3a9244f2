"""One rank of a parallel run, in a process forked from the one that observes."""

from collections.abc import Mapping
from datetime import timedelta
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.measuring import Peak, parameters_of
from dayzero.adapters.runners.placing import HOST, device_for
from dayzero.adapters.runners.process_memory import own_peak_bytes
from dayzero.adapters.runners.rank_groups import Groups
from dayzero.adapters.runners.rank_memory import decode
from dayzero.adapters.runners.rank_model import RankModel, build_rank, load_weights
from dayzero.adapters.runners.rank_task import RankTask
from dayzero.adapters.runners.rank_tensors import SCALE
from dayzero.adapters.runners.rank_wiring import wire
from dayzero.adapters.runners.replaying import Keeper, shower_of, write_shown
from dayzero.adapters.runners.sketching import Part, watch
from dayzero.codec import dump, load
from dayzero.domain.observations import RankMemory
from dayzero.domain.observed_parallel import RankObserved
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.shards import ShardManifest
from dayzero.stages.layout.ranks import unfold


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
        init_method=task.meeting,
        rank=task.rank,
        world_size=task.degrees.world,
        timeout=timedelta(seconds=task.timeout_s),
    )
    groups = Groups(task.rank, task.degrees)
    shower = shower_of(task.replay, len(task.tokens), task.token_block) if task.prints else None
    wire(ranked, groups, task.planted, shower)
    load_weights(ranked, overlap=task.overlap and peak is None)
    if peak is not None:
        observed: RankObserved | RankMemory = decode(ranked, groups, task, peak)
        _answer(task, observed)
        return
    if shower is not None:
        watch(ranked.model, shower, _parts(ranked.model, manifest).get)
    if isinstance(shower, Keeper):
        shower.watch_given(ranked.model)
    width = ranked.model.config.get_text_config().hidden_size
    logits = run_stage(ranked, groups, torch.tensor([task.tokens]), width, dtype)
    if logits is not None and task.rank == groups.first_of_stage:
        save_file({"logits": logits.contiguous()}, task.logits)
    if shower is not None:
        write_shown(shower, task.rank, Path(task.prints))
    observed = RankObserved(
        task.rank, ranked.weight_bytes, ranked.tensors, own_peak_bytes(), groups.collectives,
        parameters_of(ranked.model), _planned(manifest),
    )  # fmt: skip
    _answer(task, observed)


def _planned(manifest: ShardManifest) -> int:
    """Elements of the weights in the rank's files; scales of blocks are no parameters."""
    return sum(prod(tensor.shape) for file in manifest.files for tensor in file.tensors if SCALE not in tensor.name)


def _parts(model: Any, manifest: ShardManifest) -> Mapping[str, Part]:
    """The channels that a module computes here, where one stretch of its weight's rows lies here. Embeddings and head return
    all of theirs."""
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    whole = {name for name, module in model.named_modules() if any(module is end for end in ends)}
    cut = {
        tensor.name.removesuffix(".weight"): (tensor.start, tensor.stop - tensor.start)
        for file in manifest.files
        for tensor in file.tensors
        if tensor.name.endswith(".weight") and tensor.dim == 0 and not (tensor.pieces or tensor.rows or tensor.padding_bytes)
    }
    return {name: part for name, part in cut.items() if name not in whole}


def _answer(task: RankTask, observed: RankObserved | RankMemory) -> None:
    Path(task.answer).write_bytes(dump(observed))
    if task.collected:
        _collect(task)
    dist.barrier()
    dist.destroy_process_group()


def _collect(task: RankTask) -> None:
    """What every rank wrote, at the first rank: nodes need share no disk, for fingerprints are kilobytes."""
    own = {path: Path(path).read_bytes() for path in (task.answer, task.prints, task.logits) if Path(path).is_file()}
    everyone: list[dict[str, bytes] | None] = [None] * task.degrees.world
    dist.all_gather_object(everyone, own)
    for written in everyone if task.rank == 0 else ():
        for path, data in (written or {}).items():
            Path(path).write_bytes(data)
