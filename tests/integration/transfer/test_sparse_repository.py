"""The proof of manifests at scale, scaled down: 200 GB of holes for 64 devices."""

from pathlib import Path

import sparse_repository


def test_rank_0_of_64_of_a_repository_of_holes(tmp_path: Path) -> None:
    found = [sparse_repository.run(7, 64, tmp_path / name) for name in ("one", "two")]
    for one in found:
        assert one["weight_bytes"] > 2 * 10**11 and one["ranks"] == 64
        assert one["disk_bytes"] < 16 * 2**20
        assert one["manifest_bytes"] < 100 * one["tensors"]
        assert one["peak_bytes"] < 160 * 2**20, one
    assert found[0]["manifest_sha256"] == found[1]["manifest_sha256"]
