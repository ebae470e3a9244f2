"""E02 with real files: what is loaded for verification has its scales, and a conversion multiplies by weight_scale_inv."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from safetensors.torch import load_file, save_file  # noqa: E402 - after importorskip

from dayzero.adapters.conversion.converting import convert_checkpoint  # noqa: E402
from dayzero.adapters.runners import loading  # noqa: E402
from dayzero.adapters.runners.layer_sources import open_source  # noqa: E402
from dayzero.adapters.runners.scaled import require_scales  # noqa: E402
from dayzero.domain.conversion import WeightFormat  # noqa: E402
from dayzero.domain.runs import Observation, RunRequest  # noqa: E402
from dayzero.errors import BadInputError  # noqa: E402

pytestmark = pytest.mark.torch
WEIGHT = "model.layers.0.mlp.up_proj.weight"
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 256,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 8, "dtype": "bfloat16",
    "max_position_embeddings": 64, "tie_word_embeddings": False,
}  # fmt: skip
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def checkpoint(folder: Path, scale: str | None, stated: dict[str, Any] | None = None) -> tuple[Path, dict[str, Any]]:
    """A folder with one weight in 8-bit floats, and its tensors."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **({"quantization_config": stated} if stated else {})}))
    generator = torch.Generator().manual_seed(0)
    tensors = {WEIGHT: (torch.randn(256, 256, generator=generator) * 100).to(torch.float8_e4m3fn)}
    if scale:
        tensors[WEIGHT.removesuffix("weight") + scale] = torch.tensor([[1e-3, 2e-3], [3e-3, 4e-3]])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder, tensors


def test_e02_weights_without_scales_are_not_loaded(tmp_path: Path) -> None:
    folder, _ = checkpoint(tmp_path / "bare", None, BLOCKS)
    with pytest.raises(BadInputError, match="1 of 1 tensors in 8-bit floats have no scale"):
        loading.load_model(folder, torch.bfloat16)


def test_e02_weights_without_scales_are_not_streamed(tmp_path: Path) -> None:
    folder, _ = checkpoint(tmp_path / "bare", None, BLOCKS)
    request = RunRequest(Observation.LAYERS, "cpu", str(folder), options={"layers_from": "stream"})
    with pytest.raises(BadInputError, match="1 of 1 tensors in 8-bit floats have no scale"):
        open_source(request, folder, loading.read_config(folder), torch.bfloat16)


def test_e02_scales_that_nobody_would_multiply_by_are_refused(tmp_path: Path) -> None:
    folder, _ = checkpoint(tmp_path / "silent", "weight_scale")
    with pytest.raises(BadInputError, match="states no quantization"):
        loading.load_model(folder, torch.bfloat16)


def test_e02_scaled_weights_whose_configuration_says_so_may_be_loaded(tmp_path: Path) -> None:
    folder, _ = checkpoint(tmp_path / "right", "weight_scale_inv", BLOCKS)
    require_scales(folder, loading.read_config(folder))


@pytest.mark.parametrize("spelling", ["weight_scale_inv", "weight_scale", "scale_weight"])
def test_e02_values_are_multiplied_by_the_scale_whatever_it_is_called(tmp_path: Path, spelling: str) -> None:
    folder, tensors = checkpoint(tmp_path / "in", spelling, BLOCKS)
    convert_checkpoint(folder, WeightFormat.BFLOAT16, tmp_path / "out")
    scale = tensors[WEIGHT.removesuffix("weight") + spelling].repeat_interleave(128, 0).repeat_interleave(128, 1)
    expected = (tensors[WEIGHT].float() * scale).to(torch.bfloat16)
    (file,) = (tmp_path / "out").glob("*.safetensors")
    assert torch.equal(load_file(file)[WEIGHT], expected)
