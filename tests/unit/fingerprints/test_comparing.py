"""The first tensor that differs is named with its rank and tokens; what reordered sums may differ by is no difference."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.fingerprints import Fingerprints, Point, RankPrints, TensorPrint
from dayzero.errors import BadInputError
from dayzero.stages.fingerprints.comparing import compare, first_divergent
from dayzero.stages.fingerprints.packing import pack, unpack
from dayzero.stages.fingerprints.tolerance import CONFIDENCE, allowed

TOKENS, BLOCK, PROJECTIONS = 6, 2, 4
MODULES = ("layers.0.q", "layers.0.o", "layers.1.q", "layers.1.o")


def blocks(seed: int, scale: float = 1.0, noise: float = 0.0) -> list[list[float]]:
    """Three blocks of projections of a tensor of norm 2, times the scale, each moved by the noise."""
    drawn = random.Random(seed)
    return [
        [scale * value * (1 + noise) for value in (drawn.gauss(0, 2.0) for _ in range(PROJECTIONS))] + [2.0, 1.0, 0.0]
        for _ in range(TOKENS // BLOCK)
    ]


def printed(module: str, figures: Sequence[Sequence[float]], point: Point = Point.OUTPUT, **more: object) -> TensorPrint:
    layer = int(module.split(".")[1])
    flat = pack(value for row in figures for value in row)
    return TensorPrint(module, layer, point, 8, flat, **more)  # type: ignore[arg-type]


def run(rank: int, noise: float = 0.0, **changed: list[list[float]]) -> RankPrints:
    """All modules of a run; an o module's parts before the sum are halves."""
    rows = []
    for seed, module in enumerate(MODULES):
        figures = changed.get(module.replace(".", "_"), blocks(seed, noise=noise))
        if rank >= 0 and module.endswith("o"):
            parts = changed.get(f"{module.replace('.', '_')}_part", blocks(seed, 0.5))
            rows.append(printed(module, parts, Point.BEFORE_SUM, group=(0, 2)))
        rows.append(printed(module, figures))
    return RankPrints(rank, TOKENS, BLOCK, PROJECTIONS, 0, tuple(rows))


def prints(*ranks: RankPrints) -> Fingerprints:
    return Fingerprints("float32", run(-1), run(-1, noise=1e-7), ranks)


def test_ranks_that_agree_diverge_nowhere() -> None:
    found = compare(prints(run(0, 2e-7), run(1)))
    assert (found.divergences, found.skipped) == ((), 0)
    assert found.tensors == 2 * len(MODULES) + 2, "each rank's tensors, and the two sums of parts"
    assert found.largest_share is not None and 0 < found.largest_share < 1


def test_a_sum_that_one_rank_lost_is_named_with_the_rank() -> None:
    lost = run(1, layers_0_o=blocks(1, 0.5), layers_1_q=blocks(9), layers_1_o=blocks(8))
    first = first_divergent(prints(run(0, layers_1_o=blocks(8)), lost))
    assert first is not None
    assert (first.module, first.point, first.rank, first.layer) == ("layers.0.o", Point.OUTPUT, 1, 0)
    assert first.tokens == (0, 1)


def test_parts_that_are_wrong_come_before_their_sum() -> None:
    wrong = run(1, layers_0_o_part=blocks(7), layers_0_o=blocks(7))
    first = first_divergent(prints(run(0, layers_0_o=blocks(7)), wrong))
    assert first is not None and (first.module, first.point, first.rank) == ("layers.0.o", Point.BEFORE_SUM, None)


def test_the_block_of_tokens_is_named() -> None:
    late = blocks(0)
    late[2] = [-value for value in late[2][:PROJECTIONS]] + late[2][PROJECTIONS:]
    first = first_divergent(prints(run(0), run(1, layers_0_q=late)))
    assert first is not None and (first.rank, first.tokens) == (1, (4, 5))


def test_elements_that_are_not_finite_diverge_though_their_sketch_is_lost() -> None:
    bad = blocks(0)
    bad[1] = [float("nan")] * PROJECTIONS + [float("nan"), float("inf"), 3.0]
    first = first_divergent(prints(run(0), run(1, layers_0_q=bad)))
    assert first is not None and (first.error, first.nonfinite, first.tokens) == (None, 3, (2, 3))


def test_the_tolerance_grows_with_the_native_error_and_with_the_root_of_the_parts() -> None:
    assert allowed(0.0, "float32", 4) == pytest.approx(2 * allowed(0.0, "float32", 1))
    assert allowed(0.01, "float32", 4) == pytest.approx(0.02 * CONFIDENCE)
    assert allowed(0.0, "bfloat16", 1) > 1000 * allowed(0.0, "float32", 1)


def test_a_part_without_a_counterpart_is_counted_and_not_judged() -> None:
    cut = printed("layers.0.q", blocks(0), first=4)
    rank = run(0)
    found = compare(prints(replace(rank, prints=(cut, *rank.prints[1:])), run(1)))
    assert found.skipped == 1 and not found.divergences


def test_runs_that_were_sketched_differently_are_refused() -> None:
    with pytest.raises(BadInputError, match="different tokens"):
        compare(prints(replace(run(0), seed=1)))


@pytest.mark.parametrize("figures", ["not base64!", "", "AAAA", pack([1.0, 2.0])])
def test_figures_that_are_no_blocks_are_refused(figures: str) -> None:
    with pytest.raises(BadInputError, match="layers"):
        unpack(TensorPrint("layers.0.q", 0, Point.OUTPUT, 8, figures), PROJECTIONS)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=7, max_size=7))
def test_what_is_packed_comes_back(numbers: list[float]) -> None:
    (block,) = unpack(TensorPrint("m", None, Point.OUTPUT, 8, pack(numbers)), PROJECTIONS)
    assert [*block.sketch, block.norm, block.largest] == numbers[:6]
