"""The reconciler's rounds, on fakes: what starts, what waits, what is held, and what is taken up again."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from dayzero.cli.worker import heartbeat_every_s
from dayzero.domain.adaptation import Adaptation, AdaptationState, Purpose
from dayzero.domain.verdict import Mode
from dayzero.errors import UnavailableError
from dayzero.settings import load_settings
from dayzero.steps.reconciling import Patience, ReconcileReport, reconcile
from dayzero.steps.waiting import no_manifest_reason, no_worker_reason

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PATIENCE = Patience(orphan_after_s=60, worker_silent_s=60, max_attempts=5)


def work(purpose: Purpose, *, age_s: float = 0, state: AdaptationState = AdaptationState.REQUESTED) -> Adaptation:
    asked = NOW - timedelta(seconds=age_s)
    return Adaptation(
        purpose.value, purpose, "release", "content", "demo/tiny", "cpu", Mode.INFERENCE, state, 1, asked
    )  # fmt: skip


@dataclass
class FakeCatalog:
    rows: list[Adaptation]

    def startable(self, orphan_after_s: float, max_attempts: int) -> Sequence[Adaptation]:
        return [row for row in self.rows if row.state is AdaptationState.REQUESTED]

    def adaptations(self, *, model: str | None = None, state: AdaptationState | None = None) -> Sequence[Adaptation]:
        return [row for row in self.rows if state in (None, row.state)]

    def hold(self, adaptation_id: str, reason: str) -> None:
        self._become(adaptation_id, AdaptationState.BLOCKED, reason)

    def resume(self, platform: str, reason: str) -> Sequence[Adaptation]:
        found = [row for row in self.rows if row.platform == platform and row.reason == reason]
        for row in found:
            self._become(row.id, AdaptationState.REQUESTED, None)
        return found

    def _become(self, adaptation_id: str, state: AdaptationState, reason: str | None) -> None:
        self.rows = [replace(row, state=state, reason=reason) if row.id == adaptation_id else row for row in self.rows]


@dataclass
class FakeWorkforce:
    alive: int

    def workers_alive(self, platform: str, within_s: float) -> int:
        return self.alive


@dataclass
class FakeOrchestrator:
    fails: bool = False
    started: list[str] = field(default_factory=list)

    def start(self, adaptation: Adaptation) -> str:
        if self.fails:
            raise UnavailableError("the Prefect server does not answer.")
        self.started.append(adaptation.id)
        return "run"


class FakeClock:
    def now(self) -> datetime:
        return NOW


def one_round(*rows: Adaptation, alive: int = 1, told: bool = True, fails: bool = False) -> tuple[ReconcileReport, FakeCatalog]:
    catalog = FakeCatalog(list(rows))
    report = reconcile(
        catalog,  # type: ignore[arg-type]
        FakeWorkforce(alive),  # type: ignore[arg-type]
        FakeOrchestrator(fails),  # type: ignore[arg-type]
        FakeClock(),  # type: ignore[arg-type]
        PATIENCE,
        lambda platform: told,
    )
    return report, catalog


@pytest.mark.parametrize("purpose", list(Purpose))
def test_what_is_requested_starts(purpose: Purpose) -> None:
    report, _ = one_round(work(purpose))
    assert report.started == (purpose.value,)


@pytest.mark.parametrize("purpose", list(Purpose))
def test_nothing_starts_before_its_platform_told_what_it_offers(purpose: Purpose) -> None:
    report, catalog = one_round(work(purpose, age_s=59), alive=0, told=False)
    assert report == ReconcileReport((), (), ())
    assert catalog.rows[0].state is AdaptationState.REQUESTED


def test_when_nobody_tells_a_prestage_runs_and_an_adaptation_is_held() -> None:
    report, catalog = one_round(work(Purpose.PRESTAGE, age_s=61), work(Purpose.ADAPT, age_s=61), alive=0, told=False)
    assert report.started == ("prestage",)
    assert report.held == ("adapt",)
    assert catalog.rows[1].reason == no_worker_reason("cpu")


def test_a_worker_that_joins_takes_up_what_waited_for_it() -> None:
    blocked = AdaptationState.BLOCKED
    waiting = [
        replace(work(Purpose.ADAPT, age_s=900, state=blocked), reason=no_worker_reason("cpu")),
        replace(work(Purpose.PRESTAGE, age_s=900, state=blocked), reason=no_manifest_reason("cpu")),
        replace(work(Purpose.ADAPT, age_s=900, state=blocked), id="gated", reason="demo/tiny is gated."),
    ]
    report, catalog = one_round(*waiting, alive=0)
    assert report == ReconcileReport((), (), ())
    report, catalog = one_round(*waiting, alive=1)
    assert sorted(report.resumed) == ["adapt", "prestage"]
    assert sorted(report.started) == ["adapt", "prestage"]
    assert [row.state for row in catalog.rows if row.id == "gated"] == [blocked]


def test_an_orchestrator_that_is_down_is_a_problem_with_its_reason() -> None:
    report, _ = one_round(work(Purpose.ADAPT), fails=True)
    assert report.started == ()
    assert "demo/tiny on cpu: the Prefect server does not answer." in report.problems[0]


@pytest.mark.parametrize(("orphan_after_s", "expected_s"), [(60, 10), (12, 3), (4, 1)])
def test_a_worker_speaks_often_before_its_silence_counts_as_death(orphan_after_s: float, expected_s: float) -> None:
    assert heartbeat_every_s(load_settings(orphan_after_s=orphan_after_s)) == expected_s
