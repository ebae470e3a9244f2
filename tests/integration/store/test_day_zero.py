"""The day-0 clock and the league of platforms, on a real PostgreSQL."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.columns import LEAGUE_COLUMNS
from dayzero.domain.entry import Correctness, DayZeroClock
from store_nouns import DAY_ZERO, entry, release
from store_scene import Store

pytestmark = pytest.mark.postgres
HOUR_S = 3600.0


class Clocks(Store):
    """A list with entries whose clocks are told."""

    def adapted(self, model: str, platform: str, correctness: Correctness = Correctness.VERIFIED, **moments: datetime) -> None:
        """An entry of that model on that platform with these moments; the release was seen when it was published."""
        live = moments.get("weights_live_at", DAY_ZERO)
        self.clock.time = live
        what = release(repo_id=model, weights=model, published_at=live)
        recorded = self.watch.record_release(what, [platform])
        lease = self.ledger.claim(recorded.adaptations[0], 1, "run")
        made = replace(entry(what.content_id, correctness, model=model, platform=platform), clock=DayZeroClock(**moments))
        self.catalog.finish(lease, AdaptationState.DONE, None, made)


def at(hours: float) -> datetime:
    return DAY_ZERO + timedelta(hours=hours)


@pytest.fixture
def store(engine: Engine, tmp_path: Path) -> Clocks:
    return Clocks(engine, tmp_path / "artifacts")


def test_the_clock_names_the_step_that_took_the_time(store: Clocks) -> None:
    store.adapted("org/a", "cpu", weights_live_at=at(0), detected_at=at(1), first_token_at=at(3), verified_at=at(9))
    (row,) = store.list.clock()
    spans = {name: row[name] for name in ("detection_s", "first_token_s", "verification_s", "notification_s")}
    assert spans == {"detection_s": HOUR_S, "first_token_s": 2 * HOUR_S, "verification_s": 6 * HOUR_S, "notification_s": None}
    assert (row["longest_step"], row["longest_step_s"]) == ("verification", 6 * HOUR_S)
    assert (row["time_to_verified_s"], row["waiting_s"], row["correctness"]) == (9 * HOUR_S, None, "verified")
    assert store.list.clock("org/a", "cpu") == (row,)
    assert store.list.clock("org/a", "h100") == store.list.clock("nobody/nothing") == ()


def test_what_is_not_verified_yet_waits(store: Clocks) -> None:
    store.adapted("org/a", "cpu", Correctness.FAILING, weights_live_at=at(0), detected_at=at(1))
    (row,) = store.list.clock()
    assert row["verified_at"] is row["time_to_verified_s"] is None
    assert isinstance(row["waiting_s"], float | int) and row["waiting_s"] > 0
    assert (row["longest_step"], row["correctness"]) == ("detection", "failing")


def test_a_clock_that_jumped_back_gives_no_seconds(store: Clocks) -> None:
    store.adapted("org/a", "cpu", weights_live_at=at(0), detected_at=at(-5), first_token_at=at(1), verified_at=at(-2))
    (row,) = store.list.clock()
    assert [row[name] for name in ("detection_s", "first_token_s", "verification_s", "time_to_verified_s")] == [
        None, 6 * HOUR_S, None, None,
    ]  # fmt: skip
    assert row["longest_step"] == "first_token"
    (line,) = store.list.league()
    assert (line["verified"], line["within_target"], line["median_s"]) == (1, 0, None)


def test_the_league_is_the_views_for_a_day_and_follows_another_target(store: Clocks) -> None:
    for hours in (2, 10, 30):
        store.adapted(f"org/m{hours}", "cpu", weights_live_at=at(0), detected_at=at(1), verified_at=at(hours))
    store.adapted("org/fast", "h100", weights_live_at=at(0), detected_at=at(0.5), verified_at=at(1))
    store.adapted("org/slow", "h100", Correctness.FUNCTIONAL, weights_live_at=at(0), detected_at=at(0.5))
    store.adapted("org/never", "b200", Correctness.UNKNOWN, weights_live_at=at(0))
    league = store.list.league()
    assert [row["platform"] for row in league] == ["cpu", "h100", "b200"]
    assert league[0] == {
        "platform": "cpu", "models": 3, "verified": 3, "within_target": 2, "waiting": 0, "late": 1,
        "median_s": 10 * HOUR_S, "p90_s": 26 * HOUR_S, "most_time_in": "detection",
    }  # fmt: skip
    names = [column.name for column in LEAGUE_COLUMNS]
    with store.engine.connect() as connection:
        view = connection.execute(text(f"SELECT {', '.join(names)} FROM day_zero_league")).mappings().all()
    assert sorted(map(dict, view), key=lambda row: row["platform"]) == sorted(league, key=lambda row: str(row["platform"]))
    assert {row["platform"]: row["within_target"] for row in store.list.league(5 * HOUR_S)} == {"cpu": 1, "h100": 1, "b200": 0}
