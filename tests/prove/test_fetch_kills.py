"""A hundred SIGKILLs of fetches over HTTP and of the hub that they fetch from. Figures go to docs/proofs/fetch_kills.json."""

from pathlib import Path

import pytest

from fetch_kills import killed_fetches, most_in_flight
from proofs import write_series
from wide_checkpoints import dense, weight_bytes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * 3600)]
CONFIG = dense(8, hidden=512)
KILLS = 60
SERIES = {"whole": "", "slices": "0"}


@pytest.mark.parametrize("series", list(SERIES))
def test_sixty_kills(tmp_path: Path, series: str) -> None:
    figures = killed_fetches(
        tmp_path, CONFIG, 3, SERIES[series], KILLS, bytes_per_s=25_000_000, checkpoint_bytes=4 << 20, seed=len(series)
    )
    assert figures.kills == KILLS and figures.of_hub == KILLS // 4
    assert figures.in_work >= 0.8 * KILLS, "most kills have to hit work"
    assert figures.redone_bytes <= figures.kills * most_in_flight(figures)
    document = {"source_bytes": weight_bytes(CONFIG), **figures.document()}
    write_series("fetch_kills.json", "dayzero.proof.fetch-kills/1", series, document)
