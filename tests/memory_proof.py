"""Runs memory_run.py in processes of their own, and tells it in a table."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("memory_run.py")
TOLERANCE = 0.15
BEGIN, END = "<!-- memory: begin (python -m pytest tests/prove/test_memory.py) -->", "<!-- memory: end -->"


def run(kind: str, prompt: int, *, small: bool = False, timeout_s: float = 900) -> dict[str, Any]:
    """One measurement."""
    command = [sys.executable, str(CHILD), kind, str(prompt), *(["small"] if small else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as they stand in docs/benchmarks.md."""
    lines = [
        BEGIN,
        "",
        "| model | plan | weights MiB | prompt | predicted: weights + state + activations + rest, MiB | predicted MiB | "
        "measured MiB | error |",
        "|---|---|--:|--:|---|--:|--:|--:|",
    ]
    for row in rows:
        items = dict(row["predicted_items_bytes"])
        parts = [items.pop("weights"), items.pop("state"), items.pop("activations"), sum(items.values())]
        cells = [
            f"{row['kind']} ({row['model_type']}, {row['parameters'] / 1e6:.0f} M, {row['dtype']})", row.get("plan", "tp1"),
            _mib(row["weights_bytes"]), f"{row['prompt_tokens']:,}", " + ".join(_mib(part) for part in parts),
            _mib(row["predicted_bytes"]), f"{_mib(row['measured_bytes'])} ({row['peak_of']})", f"{row['error']:+.1%}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", END])


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f}"


def save(kind: str, folder: Path, timeout_s: float = 900) -> None:
    """Write the model of a kind as a checkpoint, in a process of its own."""
    command = [sys.executable, str(CHILD), kind, "0", "save", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
