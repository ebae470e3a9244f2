"""The proof of slices at scale, scaled down: 240 GB of holes, rank 0 of 64."""

from pathlib import Path

import pytest

import sparse_fetch
from dayzero.domain.planning import Degrees


@pytest.mark.hub
def test_rank_0_of_64_of_a_repository_of_holes(tmp_path: Path) -> None:
    with sparse_fetch.serve_holes(tmp_path, 7) as hub:
        found = sparse_fetch.run(hub.url, tmp_path / "out", Degrees(tp=8, ep=64, dp=8), 0)
    assert found["weight_bytes"] > 2 * 10**11 and found["ranks"] == 64
    assert found["written_bytes"] == found["size_bytes"] and not found["verified"]
    assert found["read_bytes"] < 2 * found["rank_bytes"] and found["requests_per_gib"] <= 256
    assert found["peak_bytes"] < 256 * 2**20, found
