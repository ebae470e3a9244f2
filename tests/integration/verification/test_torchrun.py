"""Ranks that torchrun starts find each other by its environment, and the first of them judges all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from verification_shards import shard_model

from dayzero.demo_models.make import make
from dayzero.domain.planning import Degrees

pytestmark = [pytest.mark.torch, pytest.mark.slow]
MODULE = "dayzero.adapters.runners.torchrun_rank"


def test_two_ranks_of_one_node_agree(tmp_path: Path) -> None:
    model = make("llama-tiny", tmp_path / "model")
    shard_model(model, tmp_path / "shards", Degrees(tp=2))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", "127.0.0.1:0", "-m", MODULE, str(model), str(tmp_path / "shards"), str(tmp_path / "out")]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert found["schema"] == "dayzero.torchrun/1"
    assert [check["verdict"] for check in found["checks"]] == ["pass"] * 3
    assert (tmp_path / "out" / "prints-1.json").is_file()


def test_a_rank_that_torchrun_did_not_start_says_so() -> None:
    command = [sys.executable, "-m", MODULE, "model", "shards", "out"]
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=200)
    assert done.returncode == 2
    assert "Start this module with torchrun" in done.stderr
