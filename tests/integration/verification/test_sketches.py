"""Sketches of parts add up: over channels that ranks share out, over parts of sums, and to the error of what differs."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dayzero.adapters.runners.sketching import CHANNELS, Sketcher, signs  # noqa: E402 - after importorskip
from dayzero.domain.fingerprints import Point, TensorPrint  # noqa: E402 - after importorskip
from dayzero.stages.fingerprints.packing import BlockPrint, unpack  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
TOKENS, WIDTH, BLOCK, PROJECTIONS = 50, 48, 16, 8


def splitmix(counter: int) -> int:
    """SplitMix64 in plain integers."""
    mask = (1 << 64) - 1
    mixed = counter * 0x9E3779B97F4A7C15 & mask
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & mask
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
    return mixed ^ mixed >> 31


def taken(tensor: Any, first: int | None = None) -> tuple[BlockPrint, ...]:
    sketcher = Sketcher(TOKENS, BLOCK, PROJECTIONS)
    sketcher.show("layers.0.m", Point.OUTPUT, tensor, None if first is None else (first, tensor.shape[-1]))
    (one,) = sketcher.prints(0).prints
    return unpack(one, PROJECTIONS)


def drawn(seed: int = 0) -> Any:
    return torch.randn((1, TOKENS, WIDTH), generator=torch.Generator().manual_seed(seed))


def added(*parts: tuple[BlockPrint, ...]) -> list[list[float]]:
    return [
        [sum(values) for values in zip(*(block.sketch for block in blocks), strict=True)] for blocks in zip(*parts, strict=True)
    ]


def close(ours: list[list[float]], whole: tuple[BlockPrint, ...]) -> None:
    for row, block in zip(ours, whole, strict=True):
        assert row == pytest.approx(block.sketch, abs=1e-5 * block.norm)


def test_signs_are_those_of_the_counter_wherever_a_rank_begins() -> None:
    whole = signs(0, CHANNELS, 0, WIDTH, PROJECTIONS)
    assert torch.equal(signs(0, CHANNELS, 17, 5, PROJECTIONS), whole[17:22])
    for index in (0, 1, 40):
        bits = splitmix(index + 1 + (CHANNELS << 40))
        assert whole[index].tolist() == [1 - 2 * (bits >> k & 1) for k in range(PROJECTIONS)]
    assert not torch.equal(signs(1, CHANNELS, 0, WIDTH, PROJECTIONS), whole)


def test_slices_of_channels_add_up_to_the_whole() -> None:
    tensor = drawn()
    parts = [taken(tensor[..., start:stop], start) for start, stop in ((0, 7), (7, 30), (30, WIDTH))]
    close(added(*parts), taken(tensor))
    for blocks in zip(taken(tensor), *parts, strict=True):
        assert blocks[0].norm == pytest.approx(sum(part.norm**2 for part in blocks[1:]) ** 0.5, rel=1e-5)
        assert blocks[0].largest == max(part.largest for part in blocks[1:])


def test_parts_of_a_sum_add_up_to_it() -> None:
    left, right = drawn(1), drawn(2)
    close(added(taken(left), taken(right)), taken(left + right))


@pytest.mark.parametrize("shape", [(1, TOKENS, 6, 8), (TOKENS, WIDTH), (1, WIDTH, TOKENS)])
def test_tokens_are_found_whatever_the_shape(shape: tuple[int, ...]) -> None:
    plain = drawn().reshape(TOKENS, WIDTH)
    given = plain.t().reshape(shape) if shape[-1] == TOKENS else plain.reshape(shape)
    close(added(taken(given)), taken(plain))


def test_an_error_is_estimated_from_the_difference_of_sketches() -> None:
    exact, noise = drawn(), 1e-3 * drawn(5)
    read = []
    for seed in range(16):
        pair = []
        for tensor in (exact, exact + noise):
            sketcher = Sketcher(TOKENS, TOKENS, PROJECTIONS, seed)
            sketcher.show("m", Point.OUTPUT, tensor)
            pair += unpack(sketcher.prints(0).prints[0], PROJECTIONS)
        read.append(sum((a - b) ** 2 for a, b in zip(pair[0].sketch, pair[1].sketch, strict=True)) / PROJECTIONS)
    true = float(noise.pow(2).sum())
    assert sum(read) / len(read) == pytest.approx(true, rel=0.25)
    assert max(read) < 9 * true, "what CONFIDENCE leaves room for"


def test_what_is_not_finite_is_counted() -> None:
    tensor = drawn()
    tensor[0, 20, 3], tensor[0, 21, 4] = float("nan"), float("inf")
    assert [block.nonfinite for block in taken(tensor)] == [0, 2, 0, 0]


def test_a_tensor_that_an_inner_module_returned_is_taken_once_and_a_sum_in_place_is_another() -> None:
    sketcher, tensor = Sketcher(TOKENS, BLOCK), drawn()
    sketcher.show("inner", Point.OUTPUT, tensor)
    sketcher.show("outer", Point.OUTPUT, (tensor, None))
    sketcher.show("next", Point.INPUT, tensor)
    sketcher.show("sum", Point.BEFORE_SUM, tensor, group=(0, 2))
    tensor += 1
    sketcher.show("sum", Point.OUTPUT, tensor)
    found: tuple[TensorPrint, ...] = sketcher.prints(0).prints
    assert [(one.module, one.point) for one in found] == [
        ("inner", Point.OUTPUT), ("next", Point.INPUT), ("sum", Point.BEFORE_SUM), ("sum", Point.OUTPUT)
    ]  # fmt: skip
    assert found[2].figures == found[0].figures != found[3].figures
    assert found[0].size_bytes == 4 * (TOKENS // BLOCK + 1) * (PROJECTIONS + 3)


def test_a_module_that_returns_several_widths_is_left_out() -> None:
    sketcher = Sketcher(TOKENS, BLOCK)
    for width in (32, 16):
        sketcher.show("layers.0.qk_norm", Point.OUTPUT, drawn()[..., :width])
    sketcher.show("layers.0.o", Point.OUTPUT, drawn())
    assert [one.module for one in sketcher.prints(0).prints] == ["layers.0.o"]
