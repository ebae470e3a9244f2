"""Flows on a real Prefect server and a real PostgreSQL, with small steps of our own."""

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.settings import PREFECT_API_URL, temporary_settings

from dayzero import app
from dayzero.adapters.prefect.client import prefect_client
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.reports import StepReport
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict
from dayzero.errors import BlockedError, UnavailableError
from dayzero.settings import Settings, load_settings
from dayzero.steps.contract import Bench, Place, Step, StepFunction
from dayzero_flows import stepping
from dayzero_flows.adapt import adapt

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow]
# Prefect's event client leaves its socket to the garbage collector when a flow runs in our own process.
leaves_sockets = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("DAYZERO_DATABASE_URL", database_url)
    monkeypatch.setenv("DAYZERO_DATA_DIR", str(tmp_path / "data"))
    return load_settings()


@pytest.fixture
def in_prefect(prefect_api: str) -> Iterator[None]:
    with temporary_settings({PREFECT_API_URL: prefect_api}):
        yield


def requested(settings: Settings) -> Adaptation:
    files = (RepoFile("model.safetensors", 8, FileRole.WEIGHTS, sha256="a" * 64),)
    release = Release(HubKind.HUGGING_FACE, "demo/tiny", "b" * 40, ReleaseStage.WEIGHTS, files, content_id_of(files))
    with app.control_plane(settings) as plane:
        plane.watchbook.record_release(release, ("cpu",))
        (found,) = [item for item in plane.catalog.adaptations() if item.purpose is Purpose.ADAPT]
    return found


def with_steps(monkeypatch: pytest.MonkeyPatch, **steps: StepFunction) -> None:
    made = tuple(Step(name, name.title(), Place.CONTROL, run) for name, run in steps.items())
    monkeypatch.setattr(app, "steps_for", lambda purpose, place, mode=None: made if place is Place.CONTROL else ())


def standing(settings: Settings, adaptation_id: str) -> tuple[Adaptation, list[str]]:
    with app.control_plane(settings) as plane:
        lines = [line for _, _, line in plane.catalog.log_lines(adaptation_id)]
        return plane.ledger.adaptation(adaptation_id), lines


def says(headline: str) -> StepFunction:
    def run(_bench: Bench, _lease: Lease) -> StepReport:
        return StepReport("one", headline, table=({"what": "x", "value": 1},), notes=("a note",))

    return run


@leaves_sockets
def test_an_attempt_runs_to_its_end_and_nothing_measured_is_not_green(
    settings: Settings, in_prefect: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_steps(monkeypatch, one=says("all is well"))
    adaptation = requested(settings)
    state = adapt(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name) == ("FAILED", "NotMeasured")
    now, lines = standing(settings, adaptation.id)
    assert now.state is AdaptationState.DONE
    assert any("all is well" in line for line in lines)


def judged(verdict: Verdict | None, headline: str) -> StepFunction:
    return lambda _bench, _lease: StepReport("one", headline, verdict=verdict)


def shown_tasks(api: str, run_id: str, names: set[str]) -> dict[str, tuple[str, str]]:
    """Type and name of each task's state, as the server keeps them; it learns them by events, a little later."""
    give_up_s = time.monotonic() + 60
    only = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(run_id)]))
    while True:
        with prefect_client(api) as client:
            runs = client.read_task_runs(flow_run_filter=only)
        final = {run.name: (run.state.type.value, run.state.name) for run in runs if run.state and run.state.is_final()}
        if names <= set(final) or time.monotonic() > give_up_s:
            return {name: state for name, state in final.items() if name in names}
        time.sleep(0.5)


@leaves_sockets
def test_each_step_ends_in_the_colour_of_its_verdict_and_stops_nothing(
    settings: Settings, in_prefect: None, prefect_api: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    verdicts = {"fails": Verdict.FAIL, "errs": Verdict.ERROR, "waits": Verdict.NOT_RUN, "passes": Verdict.PASS, "tells": None}
    runs: list[str] = []

    def ran(name: str, verdict: Verdict | None) -> StepFunction:
        def step(bench: Bench, lease: Lease) -> StepReport:
            runs.append(name)
            if verdict is not None:
                check = Check(CheckLayer.PRECISION, f"precision.{name}", "tp1", verdict, Grade.MEASURED, f"it {name}")
                bench.ledger.put_check(check, lease)
            return judged(verdict, f"it {name}")(bench, lease)

        return step

    with_steps(monkeypatch, **{name: ran(name, verdict) for name, verdict in verdicts.items()})
    adaptation = requested(settings)
    with caplog.at_level("INFO", logger="prefect.task_runs"):
        state = adapt(adaptation.id, 1, return_state=True)
    assert runs == list(verdicts), "every step ran, once: a verdict is no error to be tried again"
    assert (state.type.value, state.name) == ("FAILED", "Failing")
    assert standing(settings, adaptation.id)[0].state is AdaptationState.DONE
    names = {name.title() for name in verdicts}
    assert shown_tasks(prefect_api, str(state.state_details.flow_run_id), names) == {
        "Fails": ("FAILED", "Failing"),
        "Errs": ("FAILED", "Error"),
        "Waits": ("CANCELLED", "NotRun"),
        "Passes": ("COMPLETED", "Verified"),
        "Tells": ("COMPLETED", "Completed"),
    }
    levels = {record.getMessage(): record.levelname for record in caplog.records}
    assert {name: levels[f"it {name}"] for name in verdicts} == {
        "fails": "ERROR",
        "errs": "ERROR",
        "waits": "WARNING",
        "passes": "INFO",
        "tells": "INFO",
    }


@leaves_sockets
def test_a_block_ends_blocked_with_its_reason(settings: Settings, in_prefect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def blocked(_bench: Bench, _lease: Lease) -> StepReport:
        raise BlockedError("demo/tiny is gated.", remedy="Ask for access.")

    with_steps(monkeypatch, one=blocked)
    adaptation = requested(settings)
    state = adapt(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name, state.message) == ("FAILED", "Blocked", "demo/tiny is gated. Ask for access.")
    assert standing(settings, adaptation.id)[0].state is AdaptationState.BLOCKED


@leaves_sockets
def test_what_may_go_away_is_tried_again(settings: Settings, in_prefect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def flaky(_bench: Bench, _lease: Lease) -> StepReport:
        tries.append(1)
        if len(tries) < 3:
            raise UnavailableError("the hub is down.")
        return StepReport("one", "it came back")

    monkeypatch.setattr(stepping, "RETRY_DELAYS_S", [0.0, 0.0, 0.0])
    with_steps(monkeypatch, one=flaky)
    adaptation = requested(settings)
    adapt(adaptation.id, 1, return_state=True)
    assert len(tries) == 3
    assert standing(settings, adaptation.id)[0].state is AdaptationState.DONE


@leaves_sockets
def test_a_stale_attempt_is_superseded_and_writes_nothing(
    settings: Settings, in_prefect: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_steps(monkeypatch, one=says("never"))
    adaptation = requested(settings)
    state = adapt(adaptation.id, 7, return_state=True)
    assert (state.type.value, state.name) == ("CANCELLED", "Superseded")
    now, lines = standing(settings, adaptation.id)
    assert (now.state, lines) == (AdaptationState.REQUESTED, [])


@leaves_sockets
def test_a_broken_step_ends_failed_with_its_name(settings: Settings, in_prefect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_bench: Bench, _lease: Lease) -> StepReport:
        raise KeyError("x")

    with_steps(monkeypatch, one=broken)
    adaptation = requested(settings)
    state = adapt(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name) == ("FAILED", "Error")
    now, _ = standing(settings, adaptation.id)
    assert now.state is AdaptationState.FAILED
    assert "step one of demo/tiny on cpu broke: KeyError" in (now.reason or "")
