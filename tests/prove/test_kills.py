"""SIGKILL at every stage of an adaptation, of each part: the same end. Figures go to docs/proofs/kills.json."""

from pathlib import Path

import pytest

from e2e.killing import EACH_ONCE, Figures, Kill, kill_at, killed
from e2e.scenario import ORPHAN_AFTER_S, STAGES, scenario
from proofs import write_series

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
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
    document = {"model": "llama-tiny", "orphan_after_s": ORPHAN_AFTER_S, **figures.document()}
    write_series("kills.json", "dayzero.proof.kills/1", figures.series, document)
