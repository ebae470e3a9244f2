"""The simulated device: what is masked cannot be reached, dtypes and memory are held, and its kernels take their own path."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dayzero.demo_models.make import make

pytestmark = pytest.mark.torch


def scene(name: str, *arguments: str) -> Any:
    """A scene's document; a process has one such device."""
    script = Path(__file__).with_name("device_scenes.py")
    command = [sys.executable, str(script), name, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_a_masked_kernel_cannot_be_reached() -> None:
    seen = scene("masked")
    assert len(seen["raised"]) == 17
    for name, message in seen["raised"].items():
        assert message.startswith("NotImplementedError: Could not run 'aten::"), (name, message)
        assert "bfloat16" in message and "'simnpu'" in message
    assert not [name for name in seen["executed"] if "topk" in name or "scaled_dot" in name or "_grouped_mm" in name]
    assert seen["executed"]["aten.copy_.default"] > 0


def test_nor_beneath_another_kernel_or_in_a_composite() -> None:
    seen = scene("beneath")
    assert "aten::index_select" in seen["raised"]["embedding"]
    assert "aten::bmm" in seen["raised"]["matmul"]
    assert "aten::sort" in seen["raised"]["argsort"]
    assert seen["raised"]["mm"] == "nothing"
    assert not {"aten.index_select.default", "aten.bmm.default", "aten.sort.stable"} & set(seen["executed"])


def test_dtypes_that_it_does_not_know_raise_at_dispatch() -> None:
    seen = scene("dtypes")
    for name in ("double", "moved double", "complex", "exp in bfloat16"):
        assert seen[name].startswith("NotImplementedError"), (name, seen[name])
    assert "'aten::exp' with bfloat16" in seen["exp in bfloat16"]
    assert seen["exp in float32"] == "nothing"
    assert "same device" in seen["beside the host"]
    assert seen["a number"] == [2.5, 2.5, 2.5]


def test_memory_is_counted_and_capped() -> None:
    seen = scene("memory")
    assert (seen["shared"], seen["kept"], seen["freed"], seen["peak"]) == (4000, 4000, 0, 4000)
    assert seen["refused"] == (
        "OutOfMemoryError: simnpu out of memory: tried to allocate 8,000 bytes, 4,000 of 10,000 bytes are in use"
    )
    assert "70,368,744,177,664 bytes" in seen["absurd"]
    assert seen["again"] == "nothing"


def test_its_kernels_take_their_own_path() -> None:
    seen = scene("numerics")
    assert not seen["same bits"]
    assert seen["ours"] < 4 * seen["theirs"]
    assert seen["made on the device"] == [1.0, 2.0]
    assert seen["gradient"] == [4, 8, "simnpu"]


def test_a_model_is_loaded_whole_where_the_device_is_set_up(tmp_path: Path) -> None:
    seen = scene("loading", str(make("llama-tiny", tmp_path / "model")))
    assert seen["in a context"] == ["meta", "meta"]
    assert seen["frequencies"] < 1e-6


def test_a_model_that_the_library_leaves_unset_is_refused(tmp_path: Path) -> None:
    seen = scene("unset", str(make("llama-tiny", tmp_path / "model")))
    for message in seen["refused"].values():
        assert "left model.rotary_emb.inv_freq of LlamaForCausalLM unset" in message
    assert set(seen["refused"]) == {"loaded", "streamed"} and not seen["fills"]


def test_one_device_a_process() -> None:
    assert scene("another")["refused"] == "BadInputError"


def test_a_device_that_is_not_here_blocks_and_says_so() -> None:
    seen = scene("elsewhere")
    assert seen["host"] == "cpu"
    for name in ("mps", "nonesuch"):
        assert f"torch finds no device {name} on this host, which theirs runs on" in seen["refused"][name]
