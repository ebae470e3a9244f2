"""SIGKILL at every stage of an adaptation, of each part: the same end. Figures go to docs/proofs/kills.json."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.killing import Figures, Kill, kill_at, killed
from e2e.scenario import ORPHAN_AFTER_S, STAGES, scenario

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
PROOF = Path(__file__).parents[2] / "docs" / "proofs" / "kills.json"
REPO_ID = "demo/killed"


@pytest.mark.parametrize("kind", list(Kill))
def test_killed_at_every_stage_it_ends_all_the_same(kind: Kill, small_model: Path) -> None:
    figures = Figures(kind.value)
    with scenario() as group:
        group.begin()
        group.watch_and_subscribe()
        each_stage = [(kind, stage) for stage in STAGES]
        killed(group, small_model, REPO_ID, figures, lambda: kill_at(group, REPO_ID, each_stage, figures))
    assert [kill["stage"] for kill in figures.kills] == list(STAGES)
    write_proof(figures)


def write_proof(figures: Figures) -> None:
    """Put the figures of this kind beside those of the others."""
    try:
        known = json.loads(PROOF.read_text())["kinds"]
    except FileNotFoundError:
        known = {}
    conditions = {
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "model": "llama-tiny",
        "orphan_after_s": ORPHAN_AFTER_S,
    }
    known[figures.kind] = {**conditions, **figures.document()}
    PROOF.parent.mkdir(parents=True, exist_ok=True)
    PROOF.write_text(json.dumps({"schema": "dayzero.proof.kills/1", "kinds": known}, indent=2) + "\n")
