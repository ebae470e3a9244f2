"""Ranks of one host, each forked from the process that observes them."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from dayzero import containment
from dayzero.forking import fork_into

Body = Callable[[], None]


def run_ranks(bodies: Sequence[Body], at: Path) -> None:
    """Fork every rank, wait for all, end all when one fails; RuntimeError names the rank and its last line.

    Logs go to `at`. No large operation may have run here before: torch's threads do not survive a fork.
    """
    threads = max(1, (os.cpu_count() or 1) // len(bodies))
    running = {_fork(body, at / f"rank-{rank}.log", threads): rank for rank, body in enumerate(bodies)}
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
    for rank in range(len(bodies)):
        print(f"--- rank {rank}\n{_said(at / f'rank-{rank}.log')[-2000:]}")
    if failed:
        lines = _said(at / f"rank-{failed[0]}.log").strip().splitlines()
        raise RuntimeError(f"rank {failed[0]} of {len(bodies)} failed: {lines[-1] if lines else 'it said nothing'}")


def run_apart(body: Body, log: Path) -> None:
    """Run it in a fork and wait, so that this process may fork again; RuntimeError with its last line where it fails."""
    pid = _fork(body, log, os.cpu_count() or 1)
    _, status = os.waitpid(pid, 0)
    said = _said(log)
    print(said[-2000:])
    if status != 0:
        lines = said.strip().splitlines()
        raise RuntimeError(f"one process alone failed: {lines[-1] if lines else 'it said nothing'}")


def _said(log: Path) -> str:
    return log.read_text(errors="replace")


def _fork(run: Body, log: Path, threads: int) -> int:
    parent = os.getpid()

    def body() -> int:
        containment.die_with_parent(parent)
        torch.set_num_threads(threads)
        run()
        return 0

    with log.open("wb") as stream:
        return fork_into(stream.fileno(), body, own_group=False)
