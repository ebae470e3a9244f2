"""Conversion of checkpoint folders: what is written is valid, matches its configuration, and is there whole or not at all."""

import json
import os
import signal
import subprocess
import sys
import time
from math import prod
from pathlib import Path
from typing import Any

import pytest

from dayzero import disk
from dayzero.codec import dump
from dayzero.domain.conversion import WeightFormat
from dayzero.errors import BadInputError, DependencyError
from dayzero.stages.configuration.quantization import quantization_of

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
from conversion_models import converted, write_model  # noqa: E402 - after importorskip
from safetensors.torch import load_file, save_file  # noqa: E402 - after importorskip

from dayzero.adapters.conversion.converting import convert_checkpoint  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def tensors_of(folder: Path) -> dict[str, Any]:
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def checkpoint(folder: Path, tensors: dict[str, Any], quantization: dict[str, Any] | None) -> Path:
    """A folder of one file with a configuration."""
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "llama", "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config | ({"quantization_config": quantization} if quantization else {})))
    return folder


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def test_partial_last_blocks_have_scales_of_their_own(tmp_path: Path) -> None:
    """C04: kv_a_proj_with_mqa of 576 rows has a grid of ceil(576 / 128) by ceil(7168 / 128)."""
    name = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
    weight = torch.randn(576, 7168, dtype=torch.bfloat16)
    packed = converted(checkpoint(tmp_path / "model", {name: weight}, None), WeightFormat.FP8_BLOCK, tmp_path / "fp8")
    made = tensors_of(packed)
    assert made[name + "_scale_inv"].shape == (5, 56)
    back = tensors_of(converted(packed, WeightFormat.BFLOAT16, tmp_path / "back"))[name]
    last = made[name][512:].float() * made[name + "_scale_inv"][4].repeat_interleave(128)
    assert torch.equal(back[512:], last.to(torch.bfloat16))
    assert (back.float() - weight.float()).abs().max() <= weight.float().abs().max() / 16


def test_experts_in_one_tensor_share_no_block(tmp_path: Path) -> None:
    """C05: [2, 192, 256] has scales [2, 2, 2], not the [3, 2] of its experts taken for one matrix."""
    name = "model.layers.0.mlp.experts.gate_up_proj"
    weight = torch.randn(2, 192, 256, dtype=torch.bfloat16)
    weight[1] *= 1000
    packed = converted(checkpoint(tmp_path / "model", {name: weight}, None), WeightFormat.FP8_BLOCK, tmp_path / "fp8")
    scales = tensors_of(packed)[name + "_scale_inv"]
    assert scales.shape == (2, 2, 2)
    assert scales[1].min() > 100 * scales[0].max()
    back = tensors_of(converted(packed, WeightFormat.BFLOAT16, tmp_path / "back"))[name]
    for expert in (0, 1):
        assert (back[expert] - weight[expert]).abs().max() <= weight[expert].abs().max() / 16


@pytest.mark.parametrize("kind", ["dense", "moe"])
def test_what_is_written_says_what_it_is(tmp_path: Path, kind: str) -> None:
    model = write_model(tmp_path / "model", kind)
    packed = converted(model, WeightFormat.FP8_BLOCK, tmp_path / "fp8")
    was, now = tensors_of(model), tensors_of(packed)
    config = json.loads((packed / "config.json").read_text())["quantization_config"]
    said = quantization_of(config)
    assert said is not None and said.groups[0].scheme == "fp8_block" and said.block_shape == (128, 128)
    eights = {name for name, tensor in now.items() if tensor.dtype is torch.float8_e4m3fn}
    assert eights and eights == {name for name in was if name.split(".")[-2].endswith("_proj")}
    for name, tensor in was.items():
        if name not in eights:
            assert torch.equal(now[name], tensor), name
    assert set(now) == set(was) | {name + "_scale_inv" for name in eights}
    left = set(config["modules_to_not_convert"])
    assert "lm_head" in left and ("mlp.gate" in left) == (kind == "moe")
    back = converted(packed, WeightFormat.BFLOAT16, tmp_path / "back")
    assert "quantization_config" not in json.loads((back / "config.json").read_text())
    assert {name: tensor.shape for name, tensor in tensors_of(back).items()} == {name: one.shape for name, one in was.items()}
    if kind == "dense":
        index = json.loads((packed / "model.safetensors.index.json").read_text())
        assert set(index["weight_map"]) == set(now)
        assert index["metadata"]["total_size"] == sum(one.numel() * one.element_size() for one in now.values())


def test_gpt_oss_experts_come_out_as_the_library_multiplies_them(tmp_path: Path) -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    name = "model.layers.0.mlp.experts.gate_up_proj"
    blocks = torch.randint(0, 256, (3, 96, 5, 16), dtype=torch.uint8)
    scales = torch.randint(100, 140, (3, 96, 5), dtype=torch.uint8)
    bias = torch.randn(3, 96, dtype=torch.bfloat16)
    held = {f"{name}_blocks": blocks, f"{name}_scales": scales, f"{name}_bias": bias}
    model = checkpoint(tmp_path / "model", held, {"quant_method": "mxfp4"})
    made = tensors_of(converted(model, WeightFormat.BFLOAT16, tmp_path / "out"))
    assert torch.equal(made[name], convert_moe_packed_tensors(blocks, scales))
    assert torch.equal(made[f"{name}_bias"], bias)
    assert set(made) == {name, f"{name}_bias"}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("groups", [1, 3])
def test_packed_int4_of_compressed_tensors(tmp_path: Path, symmetric: bool, groups: int) -> None:
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    rows, size = 37, 64
    arguments = QuantizationArgs(num_bits=4, strategy="group", group_size=size, symmetric=symmetric)
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
    state = {"weight": torch.randn(rows, groups * size, dtype=torch.bfloat16),
             "weight_scale": torch.rand(rows, groups).to(torch.bfloat16) + 0.2}  # fmt: skip
    if not symmetric:
        state["weight_zero_point"] = torch.randint(-8, 8, (rows, groups), dtype=torch.int8)
    packed = PackedQuantizationCompressor.compress(state, scheme)
    said = PackedQuantizationCompressor.decompress(packed, scheme)["weight"]
    module = "model.layers.0.mlp.up_proj"
    held = {f"{module}.{part}": tensor.contiguous() for part, tensor in packed.items()}
    assert (f"{module}.weight_zero_point" in held) == (not symmetric)
    quantization = {"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                        "num_bits": 4, "type": "int", "strategy": "group", "group_size": size,
                        "symmetric": symmetric}}}}  # fmt: skip
    made = tensors_of(converted(checkpoint(tmp_path / "model", held, quantization), WeightFormat.BFLOAT16, tmp_path / "out"))
    assert set(made) == {f"{module}.weight"}
    assert torch.equal(made[f"{module}.weight"], said.to(torch.bfloat16))


WEIGHT = "model.layers.0.mlp.up_proj.weight"
EIGHT = torch.zeros(200, 100).to(torch.float8_e4m3fn)
BAD: dict[str, tuple[dict[str, Any], dict[str, Any] | None, str]] = {
    "nothing is quantized": ({WEIGHT: torch.zeros(4, 4)}, None, "nothing to convert to bfloat16"),
    "no scales": ({WEIGHT: EIGHT}, FP8, "has no scale beside it"),
    "scales of another shape": ({WEIGHT: EIGHT, WEIGHT + "_scale_inv": torch.ones(1, 1)}, FP8, r"\[2, 1\] of blocks"),
    "scales that are no numbers": ({WEIGHT: EIGHT, WEIGHT + "_scale_inv": torch.full((2, 1), float("nan"))}, FP8, "not finite"),
    "another method": ({WEIGHT.replace("weight", "qweight"): torch.zeros(4, 4, dtype=torch.int32)}, {"quant_method": "gptq"},
                       "gptq in a way that cannot be converted here"),
    "a scale of the MX formats that is none": (
        {"a_blocks": torch.zeros(1, 2, 1, 16, dtype=torch.uint8), "a_scales": torch.full((1, 2, 1), 255, dtype=torch.uint8)},
        {"quant_method": "mxfp4"}, "255, which is no scale"),
    "int4 in an order of its own": (
        {"a.weight_packed": torch.zeros(2, 4, dtype=torch.int32), "a.weight_scale": torch.ones(2, 1),
         "a.weight_g_idx": torch.zeros(32, dtype=torch.int32)}, {"quant_method": "compressed-tensors"}, "weight_g_idx"),
    "int4 without scales": ({"a.weight_packed": torch.zeros(2, 4, dtype=torch.int32)}, None, "no weight_scale"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_and_leaves_nothing(tmp_path: Path, case: str) -> None:
    held, quantization, sentence = BAD[case]
    model = checkpoint(tmp_path / "model", held, quantization)
    with pytest.raises(BadInputError, match=sentence):
        convert_checkpoint(model, WeightFormat.BFLOAT16, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_values_that_fp8_cannot_hold_and_checkpoints_that_have_it_already(tmp_path: Path) -> None:
    infinite = checkpoint(tmp_path / "model", {WEIGHT: torch.full((2, 2), float("inf"), dtype=torch.bfloat16)}, None)
    with pytest.raises(BadInputError, match="not finite"):
        convert_checkpoint(infinite, WeightFormat.FP8_BLOCK, tmp_path / "out")
    packed = checkpoint(tmp_path / "packed", {WEIGHT: EIGHT, WEIGHT + "_scale_inv": torch.ones(2, 1)}, FP8)
    with pytest.raises(BadInputError, match="quantized already"):
        convert_checkpoint(packed, WeightFormat.FP8_BLOCK, tmp_path / "out")


def test_an_output_that_is_there_is_kept(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "dense")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(BadInputError, match="is there already"):
        convert_checkpoint(model, WeightFormat.FP8_BLOCK, tmp_path / "out")
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_model(tmp_path / "model", "dense")
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(DependencyError, match="10 are free"):
        convert_checkpoint(model, WeightFormat.FP8_BLOCK, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_killed_at_any_moment_it_shows_nothing_and_the_next_run_ends(tmp_path: Path) -> None:
    weights = {f"model.layers.{at}.mlp.up_proj.weight": torch.randn(1024, 2048, dtype=torch.bfloat16) for at in range(12)}
    model = checkpoint(tmp_path / "model", weights, None)
    code = ("from pathlib import Path; from dayzero.adapters.conversion.converting import convert_checkpoint as c; "
            "from dayzero.domain.conversion import WeightFormat as W; print('ready', flush=True); "
            f"c(Path({str(model)!r}), W.FP8_BLOCK, Path({str(tmp_path / 'out')!r}))")  # fmt: skip
    for wait_s in (0.0, 0.05, 0.1, 0.2):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        time.sleep(wait_s)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        if (tmp_path / "out").exists():
            break
    if not (tmp_path / "out").exists():
        convert_checkpoint(model, WeightFormat.FP8_BLOCK, tmp_path / "out")
    whole = converted(model, WeightFormat.FP8_BLOCK, tmp_path / "whole")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (whole / name).read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_the_same_checkpoint_gives_the_same_bytes_and_the_bytes_that_were_planned(tmp_path: Path) -> None:
    model, done = write_model(tmp_path / "model", "moe"), []
    plan = convert_checkpoint(model, WeightFormat.FP8_BLOCK, tmp_path / "a", lambda now, total: done.append((now, total)))
    assert dump(plan) == dump(convert_checkpoint(model, WeightFormat.FP8_BLOCK, tmp_path / "b"))
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()
    size = {"BF16": 2, "F8_E4M3": 1, "F32": 4}
    planned = sum(prod(new.shape) * size[new.dtype] for _, each in plan.files for one in each for new in one.outputs)
    assert done[-1] == (planned, planned)
