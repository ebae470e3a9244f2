"""Layers read one by one from a checkpoint's files give what a model in memory gives, to the last bit."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from safetensors import safe_open  # noqa: E402 - after importorskip
from safetensors.torch import load_file, save_file  # noqa: E402 - after importorskip

import streamed_families  # noqa: E402 - after importorskip
import streaming_proof  # noqa: E402 - after importorskip
from dayzero.adapters.conversion.converting import convert_checkpoint  # noqa: E402 - after importorskip
from dayzero.adapters.runners import loading  # noqa: E402 - after importorskip
from dayzero.adapters.runners.layer_sources import open_source  # noqa: E402 - after importorskip
from dayzero.adapters.runners.observe_layers import observe_layers  # noqa: E402 - after importorskip
from dayzero.adapters.runners.three_ways import widened  # noqa: E402 - after importorskip
from dayzero.domain.conversion import WeightFormat  # noqa: E402 - after importorskip
from dayzero.domain.runs import RunRequest  # noqa: E402 - after importorskip
from dayzero.errors import BadInputError, BlockedError  # noqa: E402 - after importorskip
from streamed_families import figures, from_where  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


SLOWER = [pytest.param(family, marks=pytest.mark.slow) for family in streamed_families.SHOWN]


@pytest.mark.parametrize("family", [*streamed_families.OFTEN, *SLOWER])
def test_a_streamed_family_gives_the_same_bits(family: str) -> None:
    both = streamed_families.observe_family(family)
    assert both.equal and not both.why, both
    assert both.layers >= 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRequest]:
    yield streamed_families.checkpoint("llama", tmp_path_factory.mktemp("llama"))


def test_only_one_layer_is_there_at_a_time(made: RunRequest) -> None:
    folder = Path(str(made.model_dir))
    source = open_source(from_where(made, "stream"), folder, loading.read_config(folder), torch.bfloat16)
    layers = loading.decoder_layers(source.model)[1]
    with source.layer(2) as layer:
        assert not any(tensor.is_meta for tensor in layer.parameters())
        assert [index for index, one in enumerate(layers) if not next(one.parameters()).is_meta] == [2]
    assert all(tensor.is_meta for one in layers for tensor in one.parameters())
    told = source.told()
    held = sum(tensor.numel() * 2 for name, tensor in _stored(folder).items() if ".layers.2." in name)
    outside = sum(tensor.numel() * 2 for name, tensor in _stored(folder).items() if ".layers." not in name)
    assert (told.streamed, told.reads, told.read_bytes, told.largest_layer_bytes) == (True, 1, held + outside, held)


def test_experts_are_gone_with_their_layer(tmp_path: Path) -> None:
    made = streamed_families.checkpoint("qwen3_moe", tmp_path)
    folder = Path(str(made.model_dir))
    source = open_source(from_where(made, "stream"), folder, loading.read_config(folder), torch.bfloat16)
    gc.disable()
    try:
        with source.layer(1) as layer:
            wide = widened(layer, torch.float32)
            hidden = torch.ones((1, 1, 64), dtype=torch.bfloat16)
            layer.mlp(hidden)
            assert torch.isfinite(wide.mlp(hidden.float())).all()
            kept = weakref.ref(layer.mlp.experts.gate_up_proj), weakref.ref(wide.mlp.experts.gate_up_proj)
            assert torch.isnan(layer.mlp.experts.gate_up_proj).any()
            assert source.read_rest() and not torch.isnan(layer.mlp.experts.gate_up_proj).any()
            del layer, wide
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


def _stored(folder: Path) -> dict[str, Any]:
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def test_float32_is_compared_with_float64_in_both_ways(tmp_path: Path) -> None:
    held, streamed = streamed_families.layers_both(streamed_families.checkpoint("qwen3_moe", tmp_path, "float32"))
    assert held.reference_dtype == "float64"
    assert figures(held) == figures(streamed)


def test_blocks_of_fp8_are_dequantized_in_both_ways(tmp_path: Path) -> None:
    request = streamed_families.checkpoint("llama", tmp_path)
    convert_checkpoint(Path(str(request.model_dir)), WeightFormat.FP8_BLOCK, tmp_path / "fp8")
    quantized = RunRequest(request.observation, "cpu", str(tmp_path / "fp8"), dtype="bfloat16", options=request.options)
    with safe_open(next((tmp_path / "fp8").glob("*.safetensors")), "pt") as file:
        assert any(name.endswith("_scale_inv") for name in file.keys())  # noqa: SIM118 - no mapping
    held, streamed = streamed_families.layers_both(quantized)
    assert figures(held) == figures(streamed)
    plain = observe_layers(from_where(request, "memory"))
    assert figures(plain) != figures(held)


@pytest.mark.slow
def test_a_compiled_target_gives_the_same_bits(made: RunRequest) -> None:
    compiled = from_where(made, "auto", compile=True)
    held, streamed = streamed_families.layers_both(compiled)
    assert held.target_path.startswith("compiled layer by layer")
    assert figures(held) == figures(streamed)


def test_the_memory_limit_decides_and_its_numbers_are_told(made: RunRequest) -> None:
    roomy = observe_layers(from_where(made, "auto", memory_limit_bytes=64 << 30))
    assert roomy.source is not None and not roomy.source.streamed
    with pytest.raises(BlockedError, match=r"too little memory for even one layer.*limit is 1,000,000") as refused:
        observe_layers(from_where(made, "auto", memory_limit_bytes=1_000_000))
    assert "largest layer" in str(refused.value)
    with pytest.raises(BlockedError, match="the whole model takes"):
        observe_layers(from_where(made, "memory", memory_limit_bytes=1_000_000))
    with pytest.raises(BadInputError, match="layers_from='disk'"):
        observe_layers(from_where(made, "disk"))


def test_a_checkpoint_without_a_tensor_is_refused_in_both_ways(tmp_path: Path) -> None:
    request = streamed_families.checkpoint("llama", tmp_path)
    (file,) = Path(str(request.model_dir)).glob("*.safetensors")
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, file, {"format": "pt"})
    for where in ("memory", "stream"):
        with pytest.raises(BadInputError, match=r"lacks model\.layers\.1\.mlp\.up_proj\.weight"):
            observe_layers(from_where(request, where))


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    request = streamed_families.checkpoint("llama", tmp_path)
    (file,) = Path(str(request.model_dir)).glob("*.safetensors")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(BadInputError, match=r"places tensor .* up to byte"):
        observe_layers(from_where(request, "stream"))


@pytest.mark.slow
def test_a_checkpoint_larger_than_the_limit_leaves_is_streamed_by_itself(tmp_path: Path) -> None:
    """The proof in tests/prove, scaled down: here the limit is not the kernel's, and what is asserted is what was held."""
    written = streaming_proof.write(tmp_path / "model", streaming_proof.mixture(8, 512, 64, 4000), 128 << 20)
    limit = 1_400_000_000
    streamed = streaming_proof.observe(tmp_path / "model", "layers", limit, "auto", tmp_path / "work", 16)
    held = streaming_proof.observe(tmp_path / "model", "layers", 0, "memory", tmp_path / "work", 16)
    assert (streamed["end"], held["end"]) == ("completed", "completed"), (streamed, held)
    source = streamed["source"]
    assert source["streamed"] and f"the limit is {limit:,}" in source["why"]
    assert source["reads"] == 8 and source["largest_layer_bytes"] < written / 7
    assert 0 < source["experts_read"] < source["experts"] == 8 * 64
    assert streamed["peak_rss_bytes"] <= limit
    assert streamed["figures"] > 500 and streamed["digest"] == held["digest"]
