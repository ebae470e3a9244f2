"""Rank 0 of 512 of a repository of 2 TB, true headers over holes, fetched by ranges from our own hub: docs/proofs."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import sparse_fetch
from dayzero.domain.planning import Degrees

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PROOF = Path(__file__).parents[2] / "docs" / "proofs" / "slice_fetch.json"
DEGREES = Degrees(tp=8, pp=8, ep=64, dp=8)


def test_rank_0_of_512_is_fetched_in_bounded_memory() -> None:
    with TemporaryDirectory() as folder, sparse_fetch.serve_holes(Path(folder), 61) as hub:
        found = sparse_fetch.run(hub.url, Path(folder) / "out", DEGREES, 0)
    conditions = {"written_at": datetime.now(UTC).isoformat(timespec="seconds"), "cores": os.cpu_count(),
                  "load": os.getloadavg()[0]}  # fmt: skip
    PROOF.write_text(json.dumps({"schema": "dayzero.proof.slices/1", **conditions, **found}, indent=2) + "\n")
    assert found["weight_bytes"] > 2 * 10**12 and found["ranks"] == 512
    assert found["written_bytes"] == found["size_bytes"] and not found["verified"]
    assert found["requests_per_gib"] <= 256
    assert found["manifest_s"] < 20 and found["peak_bytes"] < 320 * 2**20, found
