"""The delivery proof, scaled down: a few kills, few events, one subscriber of each mood."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from delivery_proof import prove

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]


def test_events_reach_every_subscriber_whatever_is_killed() -> None:
    with TemporaryDirectory(prefix="dayzero-delivery-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)
        moods = ["", "", "slow 5", "flaky 0.05", "broken", "mute"]
        figures = prove(folder, moods, receivers=2, events=200, subjects=40, kills=4, seed=3)
    assert figures.events >= 200 and figures.kills.total() == 4
    assert figures.replayed == figures.dead_letters > 0
