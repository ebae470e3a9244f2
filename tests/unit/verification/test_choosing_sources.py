"""Where layers come from follows from sizes and the limit alone; a refusal has the numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.errors import BadInputError, BlockedError
from dayzero.stages.streaming.choosing import (
    WORKING_BYTES,
    WeightSizes,
    choose_source,
    held_need_bytes,
    roomy,
    streamed_need_bytes,
)

GIB = 2**30
SIX = WeightSizes(6 * GIB, GIB // 4, GIB // 8, GIB // 10, 6 * GIB, merged=False)
HELD = GIB // 2


def test_a_model_that_fits_is_held_and_a_larger_one_streamed() -> None:
    assert not choose_source("auto", SIX, 16 * GIB, HELD).streamed
    chosen = choose_source("auto", SIX, 2 * GIB, HELD)
    assert chosen.streamed and f"the limit is {2 * GIB:,}" in chosen.why
    assert not choose_source("auto", SIX, None, HELD).streamed
    assert choose_source("stream", SIX, None, HELD).streamed


def test_too_little_memory_is_refused_with_the_numbers() -> None:
    with pytest.raises(BlockedError, match="even one layer") as refused:
        choose_source("auto", SIX, GIB, HELD)
    for number in (streamed_need_bytes(SIX, HELD), GIB, HELD, WORKING_BYTES, GIB // 4, GIB // 10):
        assert f"{number:,}" in str(refused.value)
    with pytest.raises(BlockedError, match=f"the whole model takes {held_need_bytes(SIX, HELD):,} bytes"):
        choose_source("memory", SIX, 2 * GIB, HELD)
    with pytest.raises(BadInputError, match="layers_from='tape'"):
        choose_source("tape", SIX, None, HELD)


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 41))
def test_what_is_roomy_would_be_held_after_a_closer_look_too(checkpoint: int, limit: int) -> None:
    # Four bits that become sixteen, in one layer, is the least favourable checkpoint.
    worst = WeightSizes(4 * checkpoint, 4 * checkpoint, 4 * checkpoint, 4 * checkpoint, checkpoint, merged=True)
    quick = roomy(checkpoint, limit, HELD)
    if quick is not None:
        assert not quick.streamed
        assert not choose_source("auto", worst, limit, HELD).streamed
