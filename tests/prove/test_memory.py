"""Predicted memory against what models with a GiB of weights take: docs/proofs/memory_cpu.json and the benchmarks."""

import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import memory_proof
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.domain.observations import MemoryObserved
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunRequest
from dayzero.stages.judging.memory import predicted_memory
from dayzero.stages.structure.reading import read_spec
from integration.verification.verification_shards import shard_model

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[2]
PROOF, TABLE = ROOT / "docs" / "proofs" / "memory_cpu.json", ROOT / "docs" / "benchmarks.md"
GIB = 2**30
RUNS = (("dense", 4096), ("moe", 4096), ("mla", 2048))
"""Kinds and their prompts. Keys of MLA are wider than its values, for which torch keeps scores: a shorter prompt will do."""

TWO = Degrees(tp=2)


@pytest.fixture(scope="module")
def rows() -> Iterator[list[dict[str, Any]]]:
    """What was measured, written down when all is done."""
    found: list[dict[str, Any]] = []
    yield found
    if len(found) == len(RUNS) + TWO.world:
        write_proof(found)


@pytest.mark.parametrize(("kind", "prompt"), RUNS)
def test_a_model_takes_what_is_predicted(rows: list[dict[str, Any]], kind: str, prompt: int) -> None:
    found = memory_proof.run(kind, prompt)
    rows.append(found)
    assert found["weights_bytes"] >= GIB
    assert found["state_bytes"] == found["predicted_items_bytes"]["state"]
    assert abs(found["error"]) <= memory_proof.TOLERANCE, found


def test_each_of_two_ranks_takes_what_is_predicted(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        found = two_ranks(Path(folder))
    rows.extend(found)
    assert sum(one["weights_bytes"] for one in found) >= GIB
    for one in found:
        assert one["state_bytes"] == one["predicted_items_bytes"]["state"]
        assert abs(one["error"]) <= memory_proof.TOLERANCE, one


def two_ranks(folder: Path) -> list[dict[str, Any]]:
    """The dense model on two tensor-parallel ranks over gloo, each from its own shards."""
    memory_proof.save("dense", folder / "model")
    manifest = shard_model(folder / "model", folder / "shards", TWO)
    runner = SubprocessRunner(folder / "work")
    try:
        asked = RunRequest(Observation.MEMORY, "cpu", str(folder / "model"), str(folder / "shards"), TWO,
                           options={"prompt_tokens": 2048})  # fmt: skip
        outcome = runner.run(asked, RunLimits(timeout_s=1800, memory_bytes=12 * GIB))
    finally:
        runner.close()
    assert outcome.end is RunEnd.COMPLETED, outcome.reason + outcome.log_tail
    observed = load(MemoryObserved, outcome.document)
    spec = read_spec((folder / "model" / "config.json").read_bytes(), None)
    weights = tuple(manifest.rank_weight_bytes(rank) for rank in range(TWO.world))
    return [
        {
            "kind": "dense", "model_type": spec.model_type, "parameters": spec.parameters.total, "dtype": observed.dtype,
            "plan": f"{TWO} rank {rank.rank}", "prompt_tokens": observed.prompt_tokens, "new_tokens": observed.new_tokens,
            "predicted_items_bytes": dict(items), "predicted_bytes": sum(items.values()), "measured_bytes": rank.peak_bytes,
            "peak_of": "VmHWM", "baseline_bytes": rank.baseline_bytes, "weights_bytes": rank.weight_bytes,
            "load_peak_bytes": rank.load_peak_bytes, "state_bytes": rank.state_bytes,
            "error": sum(items.values()) / rank.peak_bytes - 1,
        }
        for rank, items in zip(
            observed.ranks, predicted_memory(spec, PlatformProfile("cpu", "CPU", "cpu"), observed, weights), strict=True
        )
    ]  # fmt: skip


def write_proof(rows: list[dict[str, Any]]) -> None:
    """The figures, and the table made from them."""
    conditions = {
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
    }
    PROOF.write_text(json.dumps({"schema": "dayzero.proof.memory/1", **conditions, "rows": rows}, indent=2) + "\n")
    text = TABLE.read_text()
    before, _, rest = text.partition(memory_proof.BEGIN)
    _, _, after = rest.partition(memory_proof.END)
    TABLE.write_text(before + memory_proof.table(rows) + after)
