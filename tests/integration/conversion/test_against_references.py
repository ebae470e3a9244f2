"""Conversions bit for bit against those of transformers and compressed-tensors, over shapes that Hypothesis finds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from conversion_models import converted, write_model  # noqa: E402 - after importorskip

from dayzero.adapters.conversion.four_bits import from_int4, from_mxfp4, zero_points  # noqa: E402 - after importorskip
from dayzero.adapters.conversion.fp8_blocks import from_fp8, to_fp8  # noqa: E402 - after importorskip
from dayzero.domain.conversion import WeightFormat  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
SEEDS = st.integers(0, 2**31)
OFTEN = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def bits(tensor: Any) -> Any:
    """The bytes of a tensor as unsigned integers of its elements' size."""
    return tensor.contiguous().view({1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[tensor.element_size()]).numpy()


def padded(tensor: Any, rows: int, columns: int) -> Any:
    """The matrix with zeros behind it, up to so many rows and columns."""
    return torch.nn.functional.pad(tensor, (0, columns - tensor.shape[1], 0, rows - tensor.shape[0]))


def fp8_reference() -> Any:
    """transformers' own operations on blocks of 128 by 128."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    config = SimpleNamespace(weight_block_size=(128, 128), scale_fmt=None)
    quantizer = SimpleNamespace(quantization_config=config)
    return Fp8Quantize(quantizer), Fp8Dequantize(quantizer)


@OFTEN
@given(
    rows=st.integers(1, 300), columns=st.integers(1, 400), spread=st.sampled_from([1e-30, 1e-6, 0.02, 1.0, 1e30]), seed=SEEDS
)
def test_fp8_blocks_out_of_bfloat16(rows: int, columns: int, spread: float, seed: int) -> None:
    quantize, _ = fp8_reference()
    torch.manual_seed(seed)
    weight = (torch.randn(rows, columns) * spread).to(torch.bfloat16)
    weight[:: max(1, rows // 2)] = 0
    wide = padded(weight, -(-rows // 128) * 128, -(-columns // 128) * 128)
    said = quantize._quantize_one("a.weight", wide)
    values, scales = numpy.empty((rows, columns), numpy.uint8), numpy.empty((wide.shape[0] // 128, wide.shape[1] // 128), "f4")
    assert to_fp8(bits(weight), (128, 128), values, scales)
    assert (scales.view("u4") == bits(said["a.weight_scale_inv"])).all()
    assert (values == bits(said["a.weight"])[:rows, :columns]).all()


def test_blocks_whose_factor_overflows_keep_their_values() -> None:
    weight = numpy.array([[0, 1, 0x8002, 3]], numpy.uint16)  # multiples of the least bfloat16: transformers makes NaN of them
    values, scales = numpy.empty((1, 4), numpy.uint8), numpy.empty((1, 1), numpy.float32)
    assert to_fp8(weight, (128, 128), values, scales)
    out = numpy.empty((1, 4), numpy.uint16)
    from_fp8(values, scales, (128, 128), out)
    assert out.tolist() == weight.tolist()


@pytest.mark.parametrize("wrong", [0x7F80, 0xFF80, 0x7FC0])
def test_values_that_are_not_finite_have_no_place_in_fp8(wrong: int) -> None:
    weight = numpy.full((130, 3), 0x3F80, numpy.uint16)
    weight[129, 2] = wrong
    assert not to_fp8(weight, (128, 128), numpy.empty((130, 3), numpy.uint8), numpy.empty((2, 1), numpy.float32))


@OFTEN
@given(rows=st.integers(1, 300), columns=st.integers(1, 400), exponent=st.integers(-140, 120), seed=SEEDS)
def test_fp8_blocks_into_bfloat16(rows: int, columns: int, exponent: int, seed: int) -> None:
    _, dequantize = fp8_reference()
    generator = numpy.random.default_rng(seed)
    values = generator.integers(0, 256, (rows, columns), dtype=numpy.uint8)
    grid = (-(-rows // 128), -(-columns // 128))
    scales = numpy.ldexp(generator.random(grid, dtype=numpy.float32) + numpy.float32(0.1), exponent).astype(numpy.float32)
    out = numpy.empty((rows, columns), numpy.uint16)
    from_fp8(values, scales, (128, 128), out)
    wide = padded(torch.from_numpy(values), grid[0] * 128, grid[1] * 128).view(torch.float8_e4m3fn)
    said = dequantize._dequantize_one(wide, torch.from_numpy(scales), torch.bfloat16)[:rows, :columns]
    same = bits(said) == out
    numbers = ~torch.isnan(said).numpy()
    assert same[numbers].all()
    assert numpy.isnan(torch.from_numpy(out).view(torch.bfloat16).float().numpy()[~numbers]).all()


@OFTEN
@given(experts=st.integers(1, 3), rows=st.integers(1, 40), groups=st.integers(1, 9), low=st.integers(0, 254), seed=SEEDS)
def test_mxfp4_into_bfloat16(experts: int, rows: int, groups: int, low: int, seed: int) -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    generator = numpy.random.default_rng(seed)
    blocks = generator.integers(0, 256, (experts, rows, groups, 16), dtype=numpy.uint8)
    scales = generator.integers(low, min(255, low + 12), (experts, rows, groups), dtype=numpy.uint8, endpoint=True)
    scales = numpy.minimum(scales, 254).astype(numpy.uint8)
    out = numpy.empty((experts * rows, groups * 32), numpy.uint16)
    from_mxfp4(blocks.reshape(experts * rows, -1), scales.reshape(experts * rows, groups), out)
    said = bits(convert_moe_packed_tensors(torch.from_numpy(blocks), torch.from_numpy(scales)).transpose(1, 2))
    assert (said.reshape(out.shape) == out).all()


@OFTEN
@given(
    rows=st.integers(1, 40), groups=st.integers(1, 5), size=st.sampled_from([2, 8, 32, 128]), zeros=st.booleans(),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]), seed=SEEDS,
)  # fmt: skip
def test_packed_int4_into_bfloat16(rows: int, groups: int, size: int, zeros: bool, dtype: str, seed: int) -> None:
    compressed = pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    assert compressed
    torch.manual_seed(seed)
    codes = torch.randint(-8, 8, (rows, groups * size), dtype=torch.int8)
    points = torch.randint(-8, 8, (rows, groups), dtype=torch.int8)
    scales = (torch.rand(rows, groups) * 0.1).to(getattr(torch, dtype))
    packed = pack_to_int32(codes, 4).numpy().copy().view(numpy.uint8).reshape(rows, -1)
    as_stored = pack_to_int32(points, 4, packed_dim=0).numpy().copy().view(numpy.uint8).reshape(-1, groups, 4)
    arguments = QuantizationArgs(num_bits=4, strategy="group", group_size=size, symmetric=not zeros)
    said = dequantize(codes, scales, points if zeros else None, arguments).to(torch.bfloat16)
    middle = zero_points(as_stored, rows) if zeros else numpy.full((rows, groups), 8, numpy.float32)
    out = numpy.empty((rows, groups * size), numpy.uint16)
    from_int4(packed, scales.float().numpy(), middle, size, out, dtype == "float16")
    assert (bits(said) == out).all()


def test_a_converted_model_is_what_transformers_loads(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, FineGrainedFP8Config

    model = write_model(tmp_path / "model", "dense")
    packed = converted(model, WeightFormat.FP8_BLOCK, tmp_path / "fp8")
    again = converted(packed, WeightFormat.BFLOAT16, tmp_path / "back")
    by_library = AutoModelForCausalLM.from_pretrained(
        packed, dtype=torch.bfloat16, quantization_config=FineGrainedFP8Config(dequantize=True)
    )
    ours = AutoModelForCausalLM.from_pretrained(again, dtype=torch.bfloat16)
    theirs = by_library.state_dict()
    assert set(theirs) == set(ours.state_dict())
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name
