"""One rank of the collectives' measurement: `python -m … RANK RANKS BACKEND DEVICE STORE OUT`."""

import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from dayzero import codec
from dayzero.domain.manifests import CollectiveFact

SIZES_BYTES = (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
_RUNS = 7
_TIMEOUT = timedelta(seconds=60)


def main() -> None:
    """Measure every collective by size; rank 0 writes the facts."""
    rank, ranks, backend, device, store, out = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:7]
    import torch
    import torch.distributed as dist

    if device != "cpu":
        getattr(torch, device).set_device(rank)
        device = f"{device}:{rank}"
    dist.init_process_group(backend, store=dist.FileStore(store, ranks), rank=rank, world_size=ranks, timeout=_TIMEOUT)
    facts = []
    for name, prepare in _operations(dist, torch, rank, ranks).items():
        for size_bytes in SIZES_BYTES:
            elements = size_bytes // 4 // ranks * ranks
            run = prepare(torch.ones(elements, dtype=torch.float32, device=device))
            time_s = _measured(dist, run)
            if time_s is not None:
                facts.append(CollectiveFact(name, backend, ranks, elements * 4, time_s, elements * 4 / time_s))
    dist.barrier()
    if rank == 0:
        Path(out).write_bytes(codec.dump(tuple(facts)))
    dist.destroy_process_group()


def _operations(dist: Any, torch: Any, rank: int, ranks: int) -> dict[str, Callable[[Any], Callable[[], None]]]:
    """Collectives by name: given a rank's tensor, what to run. The size is that of the whole tensor on one rank."""
    return {
        "all_reduce": lambda tensor: lambda: dist.all_reduce(tensor),
        "broadcast": lambda tensor: lambda: dist.broadcast(tensor, 0),
        "all_gather": lambda tensor: (
            lambda: dist.all_gather(list(torch.empty_like(tensor).chunk(ranks)), tensor.chunk(ranks)[rank].clone())
        ),
        "reduce_scatter": lambda tensor: (
            lambda: dist.reduce_scatter(torch.empty_like(tensor.chunk(ranks)[0]), list(tensor.chunk(ranks)))
        ),
        "all_to_all": lambda tensor: (
            lambda: dist.all_to_all(list(torch.empty_like(tensor).chunk(ranks)), list(tensor.chunk(ranks)))
        ),
        "send_receive": lambda tensor: (
            lambda: dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0) if rank == 1 else None
        ),
    }


def _measured(dist: Any, run: Callable[[], None]) -> float | None:
    """The median of several runs, each from a common start; None where the backend has no such operation."""
    times = []
    for _ in range(_RUNS):
        dist.barrier()
        started = time.perf_counter()
        try:
            run()
        except (RuntimeError, NotImplementedError):
            return None
        dist.barrier()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


if __name__ == "__main__":
    main()
