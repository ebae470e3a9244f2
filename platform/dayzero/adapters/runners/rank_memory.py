"""What one rank of a parallel run takes of memory while it prefills and decodes with a cache."""

from typing import Any

import torch
import torch.distributed as dist

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.measuring import Peak, cache_of, cached_tensors, held_bytes, storage_bytes, touch
from dayzero.adapters.runners.placing import HOST, peak_bytes
from dayzero.adapters.runners.rank_groups import Groups
from dayzero.adapters.runners.rank_model import RankModel
from dayzero.adapters.runners.rank_task import RankTask
from dayzero.domain.observations import RankMemory


def decode(ranked: RankModel, groups: Groups, task: RankTask, peak: Peak) -> RankMemory:
    """The rank's memory in one sequence; stages of a pipeline run one after the other."""
    ids = torch.tensor([task.tokens])
    device = next(ranked.model.parameters()).device
    touch(ranked.model)
    loaded = peak.bytes()
    peak.restart()
    cache: dict[str, Any] = {}
    for given in (ids, *([ids[:, -1:]] * (task.decode_tokens or 0))):
        cache = _step(ranked, groups, given.to(device), loading.DTYPES[task.dtype], cache)
    state = storage_bytes(cached_tensors(list(cache.values())))
    on_device = peak_bytes(device)
    most = peak.bytes() if on_device is None else on_device
    return RankMemory(task.rank, peak.baseline_bytes, held_bytes(ranked.model), state, loaded, most, peak.exact)


def _step(ranked: RankModel, groups: Groups, ids: torch.Tensor, dtype: torch.dtype, cache: dict[str, Any]) -> dict[str, Any]:
    """One step of the rank's stage; the keyword with its cache for the next one."""
    model, width = ranked.model, ranked.model.config.get_text_config().hidden_size
    with torch.no_grad():
        if ranked.first_stage:
            hidden = model.get_input_embeddings()(ids)
        else:
            hidden = torch.empty((1, ids.shape[1], width), dtype=dtype)
            dist.recv(hidden, groups.rank - groups.per_stage)
            hidden = hidden.to(ids.device)
        if ranked.last_stage:
            return cache_of(model(inputs_embeds=hidden, use_cache=True, logits_to_keep=1, **cache))
        out = model.base_model(inputs_embeds=hidden, use_cache=True, **cache)
        dist.send(out.last_hidden_state.to(HOST).contiguous(), groups.rank + groups.per_stage)
        return cache_of(out)
