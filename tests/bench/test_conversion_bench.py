"""Conversions against the references' own operations on the same bytes, one thread each, interleaved: ratios of one run."""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from dayzero.adapters.conversion.four_bits import from_int4, from_mxfp4  # noqa: E402 - after importorskip
from dayzero.adapters.conversion.fp8_blocks import from_fp8, to_fp8  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROUNDS = int(os.environ.get("DAYZERO_BENCH_ROUNDS", "5"))
ROWS, COLUMNS = 2048, 7168

Pair = tuple[int, Callable[[], object], Callable[[], object]]


def fp8() -> tuple[Pair, Pair]:
    """A matrix of DeepSeek-V3's width, out of bfloat16 and back; bytes are those of the bfloat16 side."""
    from types import SimpleNamespace

    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    quantizer = SimpleNamespace(quantization_config=SimpleNamespace(weight_block_size=(128, 128), scale_fmt=None))
    torch.manual_seed(0)
    weight = (torch.randn(ROWS, COLUMNS) * 0.02).to(torch.bfloat16)
    bits = weight.view(torch.uint16).numpy()
    values, scales = numpy.empty(bits.shape, "u1"), numpy.empty((ROWS // 128, COLUMNS // 128), "f4")
    out = numpy.empty(bits.shape, "u2")
    assert to_fp8(bits, (128, 128), values, scales)
    stored = torch.from_numpy(values.copy()).view(torch.float8_e4m3fn)
    grid = torch.from_numpy(scales.copy())
    packing: Pair = (
        bits.nbytes,
        lambda: to_fp8(bits, (128, 128), values, scales),
        lambda: Fp8Quantize(quantizer)._quantize_one("a.weight", weight),
    )
    unpacking: Pair = (
        bits.nbytes,
        lambda: from_fp8(values, scales, (128, 128), out),
        lambda: Fp8Dequantize(quantizer)._dequantize_one(stored, grid, torch.bfloat16),
    )
    return packing, unpacking


def mxfp4() -> Pair:
    """One expert of gpt-oss-120b, before it is turned on our side and turned on theirs."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    random = numpy.random.default_rng(0)
    blocks, scales = random.integers(0, 256, (1, 5760, 90, 16), "u1"), random.integers(110, 125, (1, 5760, 90), "u1")
    out = numpy.empty((5760, 2880), "u2")

    def ours() -> object:
        from_mxfp4(blocks[0].reshape(5760, -1), scales[0], out)
        return numpy.ascontiguousarray(out.T)

    return out.nbytes, ours, lambda: convert_moe_packed_tensors(torch.from_numpy(blocks), torch.from_numpy(scales))


def int4() -> Pair:
    """A matrix of groups of 128, symmetric."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    codes = torch.randint(-8, 8, (ROWS, COLUMNS), dtype=torch.int8)
    packed, scales = pack_to_int32(codes, 4), torch.rand(ROWS, COLUMNS // 128).to(torch.bfloat16)
    arguments = QuantizationArgs(num_bits=4, strategy="group", group_size=128, symmetric=True)
    raw, wide = packed.numpy().view("u1"), scales.float().numpy()
    middle, out = numpy.broadcast_to(numpy.float32(8), wide.shape), numpy.empty((ROWS, COLUMNS), "u2")
    return (
        out.nbytes,
        lambda: from_int4(raw, wide, middle, 128, out),
        lambda: dequantize(unpack_from_int32(packed, 4, codes.shape), scales, None, arguments),
    )


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def test_conversions_against_the_references(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    packing, unpacking = fp8()
    pairs = {"FP8 blocks to bfloat16": unpacking, "bfloat16 to FP8 blocks": packing, "MXFP4 to bfloat16": mxfp4(),
             "packed int4 to bfloat16": int4()}  # fmt: skip
    for what, (size, ours, theirs) in pairs.items():
        taken = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
        mine, reference = (statistics.median(column) for column in zip(*taken, strict=True))
        with capsys.disabled():
            print(f"\n{what}: {size / mine / 1e9:.2f} GB/s of bfloat16; reference {size / reference / 1e9:.2f}", end="")
            print(f"; {reference / mine:.1f} times as fast")
