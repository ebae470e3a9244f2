"""SIGKILL at every stage of an adaptation, of each part: the same end. Figures go to docs/proofs/kills.json."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.killing import EACH_ONCE, Figures, Kill, kill_at, killed
from e2e.scenario import ORPHAN_AFTER_S, STAGES, scenario

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
PROOF = Path(__file__).parents[2] / "docs" / "proofs" / "kills.json"
REPO_ID = "demo/killed"


SERIES = {"each once": EACH_ONCE, **{kind.value: tuple((kind, stage) for stage in STAGES) for kind in Kill}}


@pytest.mark.parametrize("series", list(SERIES))
def test_killed_again_and_again_it_ends_all_the_same(series: str, small_model: Path) -> None:
    figures = Figures(series)
    with scenario() as group:
        group.begin()
        group.watch_and_subscribe()
        killed(group, small_model, REPO_ID, figures, lambda: kill_at(group, REPO_ID, SERIES[series], figures))
    assert [(kill["what"], kill["stage"]) for kill in figures.kills] == [(kind.value, at) for kind, at in SERIES[series]]
    write_proof(figures)


def write_proof(figures: Figures) -> None:
    """Put the figures of this series beside those of the others."""
    try:
        known = json.loads(PROOF.read_text())["series"]
    except FileNotFoundError:
        known = {}
    conditions = {
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "model": "llama-tiny",
        "orphan_after_s": ORPHAN_AFTER_S,
    }
    known[figures.series] = {**conditions, **figures.document()}
    PROOF.parent.mkdir(parents=True, exist_ok=True)
    PROOF.write_text(json.dumps({"schema": "dayzero.proof.kills/1", "series": known}, indent=2) + "\n")
