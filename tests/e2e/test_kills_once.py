"""One kill of each kind, each at another stage (the proof kills at every one), and Prefect's memory wiped twice."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.killing import EACH_ONCE, Figures, kill_at, killed
from e2e.scenario import Scenario, scenario
from e2e.wiping import drop_prefect_database, wipe_through_api

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(2400)]


@pytest.fixture
def group() -> Iterator[Scenario]:
    with scenario() as made:
        made.begin()
        made.watch_and_subscribe()
        yield made


def test_each_part_is_killed_once_and_the_end_is_the_same(group: Scenario, small_model: Path) -> None:
    figures = Figures("each once")
    killed(group, small_model, "demo/killed", figures, lambda: kill_at(group, "demo/killed", EACH_ONCE, figures))
    assert [(kill["what"], kill["stage"]) for kill in figures.kills] == [(kill.value, stage) for kill, stage in EACH_ONCE]


def test_prefect_forgets_everything_twice_and_the_end_is_the_same(group: Scenario, small_model: Path) -> None:
    def wipe() -> None:
        group.until_stage("demo/forgotten", "coverage", datetime.now(UTC))
        wiped = wipe_through_api(group.addresses["prefect_api"])
        assert all(wiped.values()), wiped
        group.until_stage("demo/forgotten", "operators", datetime.now(UTC))
        group.end()
        drop_prefect_database(group)
        group.begin()

    killed(group, small_model, "demo/forgotten", Figures("prefect wiped"), wipe)
