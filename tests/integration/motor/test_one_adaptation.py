"""Events repeated and lost, and two watchers at once, on a real PostgreSQL, a real hub and a real Prefect: one adaptation."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags

from dayzero import app
from dayzero.adapters.hubs.serving.server import HubServer
from dayzero.adapters.prefect.client import prefect_client
from dayzero.adapters.prefect.ensure import AUTOMATION, ensure
from dayzero.adapters.prefect.names import adaptation_tag
from dayzero.adapters.prefect.orchestrator import PrefectOrchestrator
from dayzero.domain.adaptation import Adaptation, Purpose
from dayzero.domain.events import Event, EventKind
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.release import HubKind
from dayzero.domain.watching import Rule
from dayzero.errors import StaleAttemptError
from dayzero.settings import Settings, load_settings
from hub_models import REPO, fill, repo_files

pytestmark = [pytest.mark.postgres, pytest.mark.hub]
WATCHERS = 4


@dataclass
class Starts:
    """An orchestrator that only notes what it is asked for."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def start(self, adaptation: Adaptation) -> str:
        self.asked.append((adaptation.id, adaptation.attempt))
        return "run"

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def cancel(self, adaptation: Adaptation) -> None:
        raise NotImplementedError

    def run_url(self, adaptation: Adaptation) -> str | None:
        return None


@pytest.fixture
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of a control plane that watches a hub with one live release, and whose worker has joined."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    folder = tmp_path / "hub"
    fill(folder, REPO, repo_files())
    with HubServer(folder) as hub:
        made = load_settings(database_url=database_url, data_dir=tmp_path / "data", hf_endpoint=hub.url)
        with app.control_plane(made) as plane:
            plane.watchbook.add_source(HubKind.HUGGING_FACE, hub.url, Rule(platforms=("cpu",)), None)
            plane.ledger.put_manifest(OperatorManifest("cpu", "test", "1", ()), Stack("cpu", {}))
            plane.workforce.worker_seen("worker", "cpu", "stack", 2)
        yield made


def together(number: int, act: Callable[[], None]) -> None:
    """Do the same thing in several threads that start together; the first failure is raised."""
    gate = threading.Barrier(number)

    def run() -> None:
        gate.wait()
        act()

    with ThreadPoolExecutor(number) as threads:
        for running in [threads.submit(run) for _ in range(number)]:
            running.result()


def poll(settings: Settings) -> None:
    """What one watcher does in a round, with connections of its own."""
    with app.control_plane(settings) as plane:
        (report,) = app.poll_once(plane)
        assert report.error is None, report


def rows(settings: Settings, query: str) -> list[tuple[object, ...]]:
    assert settings.database_url is not None
    url = settings.database_url.get_secret_value().replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(query.encode())
        return done.fetchall() if done.description else []


def test_watchers_at_once_make_one_adaptation(settings: Settings) -> None:
    together(WATCHERS, lambda: poll(settings))
    assert rows(settings, "SELECT purpose, count(*) FROM adaptations GROUP BY purpose") == [("adapt", 1)]
    assert rows(settings, "SELECT count(*) FROM releases") == [(1,)]
    assert rows(settings, "SELECT count(*) FROM outbox WHERE kind = 'dayzero.release.weights-live'") == [(1,)]


def test_reconcilers_at_once_ask_for_one_attempt_and_one_run_claims_it(settings: Settings) -> None:
    poll(settings)
    starts = Starts()

    def round_of_one() -> None:
        with app.control_plane(settings) as plane:
            app.reconcile_once(plane, starts)

    together(WATCHERS, round_of_one)
    ((adaptation_id, attempt),) = set(starts.asked)
    claims: list[str] = []
    refused: list[str] = []

    def claim() -> None:
        me = threading.current_thread().name
        with app.control_plane(settings) as plane:
            try:
                claims.append(plane.ledger.claim(adaptation_id, attempt, me).claimant)
            except StaleAttemptError as error:
                refused.append(str(error))

    together(WATCHERS, claim)
    assert (len(claims), len(refused)) == (1, WATCHERS - 1)
    assert rows(settings, "SELECT attempt, claimant FROM adaptations") == [(1, claims[0])]


def test_an_event_that_nobody_heard_makes_no_difference(settings: Settings) -> None:
    poll(settings)
    rows(settings, "UPDATE outbox SET emitted_at = now()")
    starts = Starts()
    with app.control_plane(settings) as plane:
        app.dispatch_once(plane, starts)
        assert starts.events == []
        app.reconcile_once(plane, starts)
    assert [attempt for _, attempt in starts.asked] == [1]


def test_a_dispatcher_that_dies_before_noting_tells_the_same_event_again(settings: Settings) -> None:
    poll(settings)
    starts = Starts()
    with app.control_plane(settings) as plane:
        app.dispatch_once(plane, starts)
        rows(settings, "UPDATE outbox SET emitted_at = NULL, hidden_until = NULL")
        app.dispatch_once(plane, starts)
        app.reconcile_once(plane, starts)
    told = [event.id for event in starts.events if event.kind is EventKind.RELEASE_WEIGHTS_LIVE]
    assert len(told) == 2
    assert len(set(told)) == 1
    assert [attempt for _, attempt in starts.asked] == [1]


@pytest.mark.prefect
@pytest.mark.slow
def test_prefect_hears_twice_or_has_no_automation_and_holds_one_run(settings: Settings, prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    poll(settings)
    with prefect_client(prefect_api) as client:
        for automation in client.read_automations_by_name(AUTOMATION):
            client.delete_automation(automation.id)
    orchestrator = PrefectOrchestrator(prefect_api, ("cpu",))
    with app.control_plane(settings) as plane:
        app.dispatch_once(plane, orchestrator)
        rows(settings, "UPDATE outbox SET emitted_at = NULL, hidden_until = NULL")
        app.dispatch_once(plane, orchestrator)
        (adaptation,) = [one for one in plane.catalog.adaptations() if one.purpose is Purpose.ADAPT]
    reports = []

    def round_of_one() -> None:
        with app.control_plane(settings) as plane:
            reports.append(app.reconcile_once(plane, PrefectOrchestrator(prefect_api, ("cpu",))))

    together(2, round_of_one)
    assert [report.started for report in reports] == [(adaptation.id,)] * 2
    wanted = FlowRunFilter(tags=FlowRunFilterTags(all_=[adaptation_tag(adaptation.id)]))
    with prefect_client(prefect_api) as client:
        assert len(client.read_flow_runs(flow_run_filter=wanted)) == 1
