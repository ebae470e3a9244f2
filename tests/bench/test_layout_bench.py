"""Laying out DeepSeek-V3's 91,991 tensors, against the bare making of as many slices; and the table that a search asks."""

import time

import pytest

from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardTensor
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.layout.shares import weight_table
from dayzero.stages.planning.index import predicted_index
from golden_models import spec_of

ASKED = [Degrees(tp, pp, ep, ep) for tp in (1, 2, 4, 8) for pp in (1, 2, 4, 8) for ep in (8, 16, 32)]


def bare(count: int) -> float:
    """CPU seconds that so many slices take when nothing is decided."""
    began = time.process_time()
    made = [ShardTensor("name", "BF16", (1, 1), None, 0, 1, "file", at, at + 2) for at in range(count)]
    assert len(made) == count
    return time.process_time() - began


@pytest.mark.parametrize("degrees", [Degrees(tp=8), Degrees(ep=32, dp=32)], ids=str)
def test_layout_of_a_hundred_thousand_tensors(degrees: Degrees, capsys: pytest.CaptureFixture[str]) -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    index = predicted_index(spec)
    assert index is not None
    began = time.process_time()
    manifest = lay_out("bench", spec, index, degrees)
    ours = time.process_time() - began
    slices = sum(len(file.tensors) for file in manifest.files)
    floor = bare(slices)
    with capsys.disabled():
        print(f"\nlay out {len(index.tensors):,} tensors for {degrees}: {slices:,} slices in {ours:.2f} CPU s; ", end="")
        print(f"the slices alone {floor:.2f} s; ratio {ours / floor:.1f}")


@pytest.mark.parametrize("model", ["moonshotai/Kimi-K3", "deepseek-ai/DeepSeek-V4-Pro", "moonshotai/Kimi-K2-Instruct"])
def test_table_of_weights(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec = spec_of(model)
    began = time.process_time()
    table = weight_table(spec, None)
    built = time.process_time() - began
    assert table is not None
    began = time.process_time()
    for degrees in ASKED:
        table.stages(degrees)
    first = (time.process_time() - began) / len(ASKED)
    began = time.process_time()
    for degrees in ASKED:
        table.stages(degrees)
    again = (time.process_time() - began) / len(ASKED)
    with capsys.disabled():
        print(f"\nweights of {model}: table in {1e3 * built:.0f} ms; a plan {1e3 * first:.2f} ms, again {1e3 * again:.2f} ms")
