"""10,000 events to 20 subscribers while everything is killed. Figures go to docs/proofs/delivery.json."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from delivery_proof import prove
from proofs import write_series

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(2 * 3600)]
MOODS = [*[""] * 14, "slow 10", "slow 20", "flaky 0.05", "flaky 0.05", "broken", "mute"]


def test_ten_thousand_events_reach_twenty_subscribers() -> None:
    with TemporaryDirectory(prefix="dayzero-delivery-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)
        figures = prove(folder, MOODS, receivers=5, events=10_000, subjects=2000, kills=40, seed=7)
    assert figures.events >= 10_000 and figures.dead_letters > 0
    assert figures.replayed == figures.dead_letters
    write_series("delivery.json", "dayzero.proof.delivery/1", "twenty subscribers", dict(figures.document()))
