"""Case E06: every rotary variant is right at position 0; which one somebody took is found by trying."""

import math

import pytest

torch = pytest.importorskip("torch")
from dayzero.adapters.runners.figures import tensor_error  # noqa: E402
from dayzero.adapters.runners.rotary_variants import Rotary, frequencies, named, turned, variants  # noqa: E402

pytestmark = pytest.mark.torch
BASE, HEAD, FACTOR = 10_000.0, 8, 0.5
POSITIONS = torch.tensor([0, 1, 3000])


def right() -> Rotary:
    """Head dimension 8, of which the first half is rotated."""
    return Rotary(frequencies(BASE, int(HEAD * FACTOR)), 1.5)


def test_frequencies_are_roformers() -> None:
    assert frequencies(BASE, 8).tolist() == pytest.approx([10_000 ** (-2 * pair / 8) for pair in range(4)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_variant_is_named_from_its_tables(dtype: torch.dtype) -> None:
    names = []
    for name, variant in variants(right(), BASE, HEAD):
        tables = [table.to(dtype)[None] for table in variant.tables(POSITIONS, doubled=True)]
        truth = [table.to(dtype)[None] for table in right().tables(POSITIONS, doubled=True)]
        differs = any(not torch.equal(ours, theirs) for ours, theirs in zip(tables, truth, strict=True))
        if not differs:
            continue  # this embedding scales no frequencies, so that leaving scaling out is no mistake
        found = named(right(), BASE, HEAD, tables, POSITIONS)
        assert found is not None
        names.append(name)
        assert found == name or {found, name} <= {
            "scaling and its factor are missing",
            f"the factor {1.5:.4g} on cosine and sine is missing",
        }
    assert any("spread over the whole head" in name for name in names)
    assert any("base 1000000 instead of 10000" in name for name in names)
    assert any("side by side" in name for name in names)


def test_position_zero_tells_no_variant_apart() -> None:
    at_zero = torch.tensor([0])
    plain = Rotary(frequencies(BASE, 4))
    for name, variant in variants(plain, BASE, HEAD):
        if variant.shift == 0:
            for ours, theirs in zip(variant.tables(at_zero, True), plain.tables(at_zero, True), strict=True):
                assert torch.equal(ours, theirs), name


def test_tables_of_no_known_variant_stay_unnamed() -> None:
    tables = [table[None] for table in Rotary(frequencies(77.0, 4), 1.5).tables(POSITIONS, doubled=True)]
    assert named(right(), BASE, HEAD, tables, POSITIONS) is None


@pytest.mark.parametrize("side_by_side", [False, True])
def test_pairs_are_rotated_as_complex_numbers(side_by_side: bool) -> None:
    x = torch.arange(1.0, 9.0, dtype=torch.float64)[None]
    angle = torch.tensor([[0.3, 1.1]], dtype=torch.float64)
    out = turned(x, angle.cos(), angle.sin(), side_by_side)
    pairs = [(0, 1), (2, 3)] if side_by_side else [(0, 2), (1, 3)]
    expected = x.clone()
    for (left, right_index), turn in zip(pairs, (0.3, 1.1), strict=True):
        turned_by = complex(float(x[0, left]), float(x[0, right_index])) * complex(math.cos(turn), math.sin(turn))
        expected[0, left], expected[0, right_index] = turned_by.real, turned_by.imag
    assert torch.allclose(out, expected)
    assert torch.equal(out[:, 4:], x[:, 4:])


def test_all_nan_never_compares_as_equal() -> None:
    nan = torch.full((3, 4), math.nan)
    error = tensor_error(nan, nan)
    assert (error.n, error.rms_relative, error.cosine) == (0, None, None)
