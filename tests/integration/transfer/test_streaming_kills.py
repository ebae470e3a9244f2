"""A fetch and its hub killed at random moments end as if they never were; the long proof is tests/prove/test_fetch_kills.py."""

from pathlib import Path

import pytest

from fetch_kills import killed_fetches, most_in_flight
from wide_checkpoints import dense

pytestmark = [pytest.mark.hub, pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("ranks", ["", "0"], ids=["whole", "slices"])
def test_kills_change_nothing(tmp_path: Path, ranks: str) -> None:
    figures = killed_fetches(
        tmp_path, dense(2, hidden=512), 3, ranks, 4, bytes_per_s=20_000_000, checkpoint_bytes=2 << 20, seed=5
    )
    assert (figures.kills, figures.of_hub) == (4, 1) and figures.in_work
    assert figures.redone_bytes <= figures.kills * most_in_flight(figures)
