"""Sharding killed at random moments ends as if it never was; the long proof is tests/prove/test_sharding_kills.py."""

from pathlib import Path

import pytest

from sharding_kills import killed_again_and_again, most_in_flight
from wide_checkpoints import dense

pytest.importorskip("numpy")
pytestmark = pytest.mark.torch


def test_killed_at_random_moments(tmp_path: Path) -> None:
    figures = killed_again_and_again(tmp_path, dense(4, hidden=512), files=3, kills=8, checkpoint_bytes=4 << 20, seed=1)
    assert figures.kills == 8 and figures.runs_to_the_end >= 0
    assert figures.most_lost_bytes <= most_in_flight(figures.checkpoint_bytes)
    assert figures.redone_bytes <= figures.kills * most_in_flight(figures.checkpoint_bytes)
