"""Both real models through all layers that apply, by the command that people use: docs/proofs/real_models.json."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proofs import write_series
from real_models import minilm, smollm2

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(3600)]
KEPT = ("operators.float64", "layers.three_way", "model.perplexity", "model.embeddings", "end_to_end.generation",
        "end_to_end.reference_text", "end_to_end.embedding", "application.tasks")  # fmt: skip
TIMES = ("ttft", "tpot", "throughput", "throughput_texts", "latency", "perplexity", "accuracy", "load", "peak_memory")


@pytest.mark.parametrize(
    ("name", "made", "applies"),
    [
        ("SmolLM2-135M-Instruct", smollm2, {"model.perplexity", "end_to_end.generation", "end_to_end.reference_text"}),
        ("all-MiniLM-L6-v2", minilm, {"model.embeddings", "end_to_end.embedding"}),
    ],
)
def test_a_real_model_goes_through_all_layers_that_apply(
    name: str, made: Callable[[Path], Path], applies: set[str], tmp_path: Path
) -> None:
    folder = made(tmp_path / name)
    environment = {**os.environ, "DAYZERO_DATA_DIR": str(tmp_path / "data"), "DAYZERO_CPU_DEVICES": "1"}
    command = [sys.executable, "-m", "dayzero.cli.main", "verify", str(folder), "--platform", "cpu", "--json"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    document = json.loads(ended.stdout)
    checks: dict[str, dict[str, Any]] = {check["check"]: check for check in document["checks"]}
    passed = {check for check, row in checks.items() if row["verdict"] == "pass"}
    assert {"operators.float64", "layers.three_way", "memory.peak", *applies} <= passed, document["entry"]
    assert not [check for check, row in checks.items() if row["verdict"] in ("fail", "error")], document["entry"]
    rows = {kept: checks[kept] for kept in KEPT if kept in checks}
    write_series("real_models.json", "dayzero.proof.real-models/1", name, {
        "entry": document["entry"],
        "checks": {check: {field: row[field] for field in ("verdict", "measured", "tolerance", "n", "reason")}
                   for check, row in rows.items()},
        "measured": [[row["name"], row["value"], row["unit"], row["conditions"].get("task"), row["conditions"].get("run")]
                     for row in document["measurements"] if row["name"] in TIMES],
    })  # fmt: skip
