"""MEMORY: what each rank of the plan takes, loaded from its own shards, in one sequence with a cache.

One rank takes the path of generation, without score matrices where the library's kernels allow it; several take the parallel
runner's plain path. Weights stay in the native dtype.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name
from dayzero.adapters.runners.measuring import Peak, cache_of, cached_tensors, held_bytes, storage_bytes, touch
from dayzero.adapters.runners.observe_parallel import RANK_TIMEOUT_S, shards_of
from dayzero.adapters.runners.placing import device_for, peak_bytes, placed
from dayzero.adapters.runners.rank import run_rank
from dayzero.adapters.runners.rank_forking import run_ranks
from dayzero.adapters.runners.rank_task import RankTask
from dayzero.codec import load
from dayzero.domain.observations import MemoryObserved, RankMemory
from dayzero.domain.runs import RunRequest

PROMPT_TOKENS = 512
NEW_TOKENS = 4
ATTENTION, EXPERTS = "sdpa", "grouped_mm"


def observe_memory(request: RunRequest) -> MemoryObserved:
    """The memory of every rank. BadInputError: no shards, or shards of another plan. Options: prompt_tokens, new_tokens."""
    began = time.monotonic()
    loading.quiet()
    prompt = loading.option_int(request, "prompt_tokens", PROMPT_TOKENS, 2)
    new = loading.option_int(request, "new_tokens", NEW_TOKENS)
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = dtype_name(loading.native_dtype(config, request.dtype))
    most = getattr(config.get_text_config(), "max_position_embeddings", None) or prompt + new
    prompt = max(2, min(prompt, int(most) - new))
    ids = _ids(config, prompt)
    alone = request.degrees.world == 1
    attention = ATTENTION if alone else "eager"
    ranks = (_alone(request, folder, dtype, ids, new),) if alone else _together(request, folder, dtype, ids, new)
    return MemoryObserved(request.degrees, dtype, attention, prompt, new, ranks, time.monotonic() - began)


def _ids(config: Any, prompt: int) -> torch.Tensor:
    vocabulary = int(config.get_text_config().vocab_size)
    return torch.randint(0, vocabulary, (1, prompt), generator=torch.Generator().manual_seed(0))


def _alone(request: RunRequest, folder: Path, dtype: str, ids: torch.Tensor, new_tokens: int) -> RankMemory:
    device = device_for(request)
    install(request.bridges, device)
    peak = Peak()
    model = loading.load_model(folder, loading.DTYPES[dtype], ATTENTION, EXPERTS).to(device)
    touch(model)
    loaded = peak.bytes()
    peak.restart()
    state = prefill_and_decode(model, placed(ids, device), new_tokens)
    on_device = peak_bytes(device)
    most = peak.bytes() if on_device is None else on_device
    return RankMemory(0, peak.baseline_bytes, held_bytes(model), state, loaded, most, peak.exact)


def prefill_and_decode(model: Any, ids: torch.Tensor, new_tokens: int) -> int:
    """The whole prompt at once, then token by token; bytes of storage behind the cache at the end."""
    given, cache = ids, dict[str, Any]()
    with torch.no_grad():
        for _ in range(1 + new_tokens):
            out = model(given, use_cache=True, logits_to_keep=1, **cache)
            given, cache = out.logits[:, -1:].argmax(-1), cache_of(out)
            del out
    return storage_bytes(cached_tensors(list(cache.values())))


def _together(request: RunRequest, folder: Path, dtype: str, ids: torch.Tensor, new_tokens: int) -> tuple[RankMemory, ...]:
    shards, at = shards_of(request), Path.cwd() / "ranks"
    at.mkdir()
    tokens = tuple(int(token) for token in ids[0])
    tasks = [
        RankTask(
            rank, request.degrees, str(folder.resolve()), str(shards), tokens, dtype, f"file://{at / 'meeting'}", "",
            str(at / f"rank-{rank}.json"), RANK_TIMEOUT_S, device=request.device, bridges=request.bridges,
            decode_tokens=new_tokens,
        )
        for rank in range(request.degrees.world)
    ]  # fmt: skip
    run_ranks([partial(run_rank, task) for task in tasks], at)
    return tuple(load(RankMemory, Path(task.answer).read_bytes()) for task in tasks)
