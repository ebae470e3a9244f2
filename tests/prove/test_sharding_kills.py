"""A hundred SIGKILLs of sharding at random moments. Figures go to docs/proofs/sharding_kills.json."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sharding_kills import killed_again_and_again, most_in_flight
from wide_checkpoints import dense, weight_bytes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
PROOF = Path(__file__).parents[2] / "docs" / "proofs" / "sharding_kills.json"
CONFIG = dense(8, hidden=512)


def test_a_hundred_kills(tmp_path: Path) -> None:
    figures = killed_again_and_again(tmp_path, CONFIG, files=4, kills=100, checkpoint_bytes=8 << 20, seed=11)
    assert figures.kills == 100
    assert figures.redone_bytes <= figures.kills * most_in_flight(figures.checkpoint_bytes)
    assert figures.most_lost_bytes <= most_in_flight(figures.checkpoint_bytes)
    conditions = {
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "source_bytes": weight_bytes(CONFIG),
        "most_in_flight_bytes": most_in_flight(figures.checkpoint_bytes),
    }
    document = {"schema": "dayzero.proof.sharding-kills/1", **conditions, **figures.document()}
    PROOF.write_text(json.dumps(document, indent=2) + "\n")
