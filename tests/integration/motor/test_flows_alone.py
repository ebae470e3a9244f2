"""The other flows on a real Prefect server and a real PostgreSQL: prestage, verify, watch, reconcile."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from dayzero import app
from dayzero.adapters.prefect.waiting import Progressing, Seen
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.reports import StepReport
from dayzero.domain.watching import Rule
from dayzero.errors import BlockedError, IntegrityError, UnavailableError
from dayzero.settings import Settings, load_settings
from dayzero.steps.contract import Bench, Place, Step, StepFunction
from dayzero.steps.waiting import no_worker_reason
from dayzero_flows import awaiting
from dayzero_flows.prestage import prestage
from dayzero_flows.reconcile import reconcile
from dayzero_flows.verify import verify
from dayzero_flows.watch import watch

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow]
# Prefect's event client leaves its socket to the garbage collector when a flow runs in our own process.
leaves_sockets = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("DAYZERO_DATABASE_URL", database_url)
    monkeypatch.setenv("DAYZERO_DATA_DIR", str(tmp_path / "data"))
    return load_settings()


@pytest.fixture
def plane(settings: Settings, prefect_api: str) -> Iterator[app.Plane]:
    with temporary_settings({PREFECT_API_URL: prefect_api}), app.control_plane(settings) as made:
        yield made


def requested(plane: app.Plane, stage: ReleaseStage, purpose: Purpose) -> Adaptation:
    files = [RepoFile("config.json", 2, FileRole.CONFIGURATION, sha256="c" * 64)]
    if stage is ReleaseStage.WEIGHTS:
        files.append(RepoFile("model.safetensors", 8, FileRole.WEIGHTS, sha256="a" * 64))
    release = Release(HubKind.HUGGING_FACE, "demo/tiny", "b" * 40, stage, tuple(files), content_id_of(files))
    plane.watchbook.record_release(release, ("cpu",))
    return next(item for item in plane.catalog.adaptations() if item.purpose is purpose)


def with_step(monkeypatch: pytest.MonkeyPatch, place: Place, run: StepFunction) -> None:
    made = (Step("one", "One", place, run),)
    monkeypatch.setattr(app, "steps_for", lambda purpose, asked, mode=None: made if asked is place else ())


def on_this_bench(monkeypatch: pytest.MonkeyPatch, plane: app.Plane) -> None:
    """The worker's bench without its HTTP: the ledger behind it is the same one."""
    monkeypatch.setattr(app, "worker_bench", lambda _settings: app.control_bench(plane))


def fails_with(error: Exception) -> StepFunction:
    def run(_bench: Bench, _lease: Lease) -> StepReport:
        raise error

    return run


@leaves_sockets
def test_a_prestage_ends_staged(plane: app.Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    with_step(monkeypatch, Place.CONTROL, lambda _bench, _lease: StepReport("one", "looked"))
    adaptation = requested(plane, ReleaseStage.CONFIG, Purpose.PRESTAGE)
    state = prestage(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name) == ("COMPLETED", "Staged")
    assert plane.ledger.adaptation(adaptation.id).state is AdaptationState.DONE
    (row,) = plane.compatibility.current('model = "demo/tiny"')
    assert (row["lifecycle"], row["correctness"], row["grade"]) == ("staged", "unknown", "predicted")


@leaves_sockets
def test_a_prestage_without_a_worker_keeps_what_is_known_and_waits(plane: app.Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    with_step(monkeypatch, Place.PLATFORM, lambda _bench, _lease: StepReport("one", "never"))
    adaptation = requested(plane, ReleaseStage.CONFIG, Purpose.PRESTAGE)
    state = prestage(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name) == ("FAILED", "Blocked")
    now = plane.ledger.adaptation(adaptation.id)
    assert (now.state, now.reason) == (AdaptationState.BLOCKED, no_worker_reason("cpu"))
    (row,) = plane.compatibility.current('model = "demo/tiny"')
    assert row["lifecycle"] == "staged"
    plane.ledger.put_manifest(OperatorManifest("cpu", "test", "1", ()), Stack("cpu", {}))
    plane.workforce.worker_seen("worker", "cpu", "stack", 2)
    reconcile()
    assert plane.ledger.adaptation(adaptation.id).state is AdaptationState.REQUESTED, "the worker's joining resumes it"


@leaves_sockets
def test_a_prestage_rehearses_on_the_platform_that_has_a_worker(plane: app.Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run on the platform is asked for and awaited; here nobody takes it, and it is cancelled."""
    with_step(monkeypatch, Place.PLATFORM, lambda _bench, _lease: StepReport("one", "rehearsed"))
    adaptation = requested(plane, ReleaseStage.CONFIG, Purpose.PRESTAGE)
    plane.workforce.worker_seen("worker", "cpu", "stack", 2)
    asked: list[str] = []

    def start(_api_url: str, adaptation: Adaptation, attempt: int) -> UUID:
        asked.append(f"{adaptation.id} {attempt}")
        return UUID(int=1)

    monkeypatch.setattr(awaiting, "start_verification", start)
    monkeypatch.setattr(awaiting, "seen", lambda _api_url, _run_id: Seen(Progressing.ENDED, "Staged", "done"))
    state = prestage(adaptation.id, 1, return_state=True)
    assert asked == [f"{adaptation.id} 1"]
    assert (state.type.value, state.name) == ("COMPLETED", "Staged")


@leaves_sockets
def test_a_rehearsal_runs_as_the_platforms_part_of_a_prestage(plane: app.Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    with_step(monkeypatch, Place.PLATFORM, lambda _bench, _lease: StepReport("one", "rehearsed"))
    on_this_bench(monkeypatch, plane)
    adaptation = requested(plane, ReleaseStage.CONFIG, Purpose.PRESTAGE)
    plane.ledger.claim(adaptation.id, 1, "the parent run")
    state = verify(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name) == ("COMPLETED", "Staged")


@leaves_sockets
@pytest.mark.parametrize(
    ("run", "state_type", "state_name"),
    [
        (lambda _bench, _lease: StepReport("one", "looked"), "FAILED", "NotMeasured"),
        (fails_with(BlockedError("demo/tiny is gated.", remedy="Ask.")), "FAILED", "Blocked"),
        (fails_with(IntegrityError("model.safetensors of demo/tiny differs from its digest.")), "FAILED", "Error"),
    ],
)
def test_a_verification_ends_as_what_it_found(
    plane: app.Plane, monkeypatch: pytest.MonkeyPatch, run: StepFunction, state_type: str, state_name: str
) -> None:
    with_step(monkeypatch, Place.PLATFORM, run)
    on_this_bench(monkeypatch, plane)
    adaptation = requested(plane, ReleaseStage.WEIGHTS, Purpose.ADAPT)
    plane.ledger.claim(adaptation.id, 1, "the parent run")
    state = verify(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name) == (state_type, state_name)


@leaves_sockets
def test_a_verification_of_an_old_attempt_is_superseded(plane: app.Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    on_this_bench(monkeypatch, plane)
    adaptation = requested(plane, ReleaseStage.WEIGHTS, Purpose.ADAPT)
    state = verify(adaptation.id, 1, return_state=True)
    assert (state.type.value, state.name) == ("CANCELLED", "Superseded")


@leaves_sockets
def test_a_verification_without_its_ledger_falls_silent(plane: app.Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_settings: Settings) -> Bench:
        raise UnavailableError("the control plane does not answer.")

    monkeypatch.setattr(app, "worker_bench", unreachable)
    state = verify("nobody", 1, return_state=True)
    assert state.type.value == "CRASHED"


@leaves_sockets
def test_watch_polls_and_reconcile_holds_what_no_worker_takes(
    plane: app.Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models" / "demo" / "late"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    plane.watchbook.add_source(HubKind.DIRECTORY, str(tmp_path / "models"), Rule(platforms=("cpu",)), None)
    watch()
    (found,) = plane.catalog.adaptations()
    assert found.purpose is Purpose.PRESTAGE and found.state is AdaptationState.REQUESTED
    reconcile()
    now = plane.ledger.adaptation(found.id)
    assert (now.state, now.attempt, now.claimant) == (AdaptationState.REQUESTED, found.attempt, None)
