"""Pools, deployments and starts on a real Prefect server."""

import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import StateType
from prefect.states import Crashed, Running

from dayzero.adapters.prefect.client import prefect_client
from dayzero.adapters.prefect.ensure import AUTOMATION, ensure, is_complete
from dayzero.adapters.prefect.names import CONTROL_POOL, adaptation_tag, pool_of
from dayzero.adapters.prefect.orchestrator import PrefectOrchestrator, bury_unattended
from dayzero.adapters.processes.folder import write_addresses
from dayzero.cli.run import stop_runs
from dayzero.domain.adaptation import Adaptation, AdaptationState, Purpose
from dayzero.domain.events import Event, EventKind
from dayzero.domain.verdict import Mode
from dayzero.errors import UnavailableError
from dayzero.settings import load_settings

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow]


def an_adaptation(attempt: int = 1, adaptation_id: str | None = None, platform: str = "cpu") -> Adaptation:
    return Adaptation(
        id=adaptation_id or str(uuid.uuid4()),
        purpose=Purpose.ADAPT,
        release_id=str(uuid.uuid4()),
        content_id="c" * 64,
        model="demo/tiny",
        platform=platform,
        mode=Mode.INFERENCE,
        state=AdaptationState.REQUESTED,
        attempt=attempt,
        requested_at=datetime.now(UTC),
    )


def runs_of(api: str, adaptation_id: str):
    wanted = FlowRunFilter(tags=FlowRunFilterTags(all_=[adaptation_tag(adaptation_id)]))
    with prefect_client(api) as client:
        return client.read_flow_runs(flow_run_filter=wanted)


def what_is_there(api: str):
    with prefect_client(api) as client:
        pools = {pool.name: pool.id for pool in client.read_work_pools()}
        deployments = {(item.flow_id, item.name): (item.id, item.entrypoint) for item in client.read_deployments()}
        automations = {item.id for item in client.read_automations_by_name(AUTOMATION)}
    return pools, deployments, automations


def test_ensure_again_changes_nothing(prefect_api: str) -> None:
    ensured = ensure(prefect_api, ("cpu",))
    first = what_is_there(prefect_api)
    assert ensure(prefect_api, ("cpu",)) == ensured
    assert what_is_there(prefect_api) == first
    pools, deployments, automations = first
    assert {CONTROL_POOL, pool_of("cpu")} <= set(pools)
    assert "dayzero_flows.adapt.adapt" in {entrypoint for _, entrypoint in deployments.values()}
    assert len(automations) == 1
    assert is_complete(prefect_api, ("cpu",))
    assert not is_complete(prefect_api, ("cpu", "h100"))


def test_what_prefect_lost_is_restored(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    with prefect_client(prefect_api) as client:
        for deployment in client.read_deployments():
            client.delete_deployment(deployment.id)
        client.request("DELETE", f"/work_pools/{CONTROL_POOL}")
        for automation in client.read_automations_by_name(AUTOMATION):
            client.delete_automation(automation.id)
    assert not is_complete(prefect_api, ("cpu",))
    adaptation = an_adaptation()
    PrefectOrchestrator(prefect_api, ("cpu",)).start(adaptation)
    assert is_complete(prefect_api, ("cpu",))
    assert len(runs_of(prefect_api, adaptation.id)) == 1


def test_a_lost_automation_or_pool_alone_is_noticed(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    with prefect_client(prefect_api) as client:
        for automation in client.read_automations_by_name(AUTOMATION):
            client.delete_automation(automation.id)
    assert not is_complete(prefect_api, ("cpu",))
    ensure(prefect_api, ("cpu",))
    with prefect_client(prefect_api) as client:
        client.delete_work_pool(pool_of("cpu"))
    assert not is_complete(prefect_api, ("cpu",))
    ensure(prefect_api, ("cpu",))
    assert is_complete(prefect_api, ("cpu",))


def test_a_start_is_idempotent_on_id_and_attempt(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    orchestrator = PrefectOrchestrator(prefect_api, ("cpu",))
    adaptation = an_adaptation()
    assert orchestrator.start(adaptation) == orchestrator.start(adaptation)
    (run,) = runs_of(prefect_api, adaptation.id)
    assert run.name == "demo/tiny · cpu · adapt #1"
    assert {"model:demo/tiny", "platform:cpu", "stage:adapt"} <= set(run.tags)
    assert run.parameters == {"adaptation_id": adaptation.id, "attempt": 1}
    assert str(run.id) in (orchestrator.run_url(adaptation) or "")


def test_a_new_attempt_buries_the_former_runs(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    orchestrator = PrefectOrchestrator(prefect_api, ("cpu",))
    first = an_adaptation()
    former = orchestrator.start(first)
    with prefect_client(prefect_api) as client:
        client.set_flow_run_state(uuid.UUID(former), Running(), force=True)
    orchestrator.start(an_adaptation(2, first.id))
    states = {str(run.id): run.state_type for run in runs_of(prefect_api, first.id)}
    assert states.pop(former) is StateType.CRASHED
    assert list(states.values()) == [StateType.SCHEDULED]


def test_a_run_that_crashed_before_its_claim_is_started_again(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    orchestrator = PrefectOrchestrator(prefect_api, ("cpu",))
    adaptation = an_adaptation()
    with prefect_client(prefect_api) as client:
        crashed = orchestrator.start(adaptation)
        client.set_flow_run_state(uuid.UUID(crashed), Crashed(), force=True)
        again = orchestrator.start(adaptation)
        assert again != crashed
        assert orchestrator.start(adaptation) == again
        for _ in range(4):
            client.set_flow_run_state(uuid.UUID(orchestrator.start(adaptation)), Crashed(), force=True)
    with pytest.raises(UnavailableError, match=r"5 runs of .* ended before they began; the next one starts 60 s after"):
        orchestrator.start(adaptation)
    known = {str(run.id) for run in runs_of(prefect_api, adaptation.id)}
    assert PrefectOrchestrator(prefect_api, ("cpu",), unclaimed_after_s=0.0).start(adaptation) not in known


def test_a_run_that_never_claimed_is_replaced(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    adaptation = an_adaptation()
    patient = PrefectOrchestrator(prefect_api, ("cpu",))
    taken = patient.start(adaptation)
    with prefect_client(prefect_api) as client:
        client.set_flow_run_state(uuid.UUID(taken), Running(), force=True)
    assert patient.start(adaptation) == taken
    assert PrefectOrchestrator(prefect_api, ("cpu",), unclaimed_after_s=0.0).start(adaptation) != taken


def test_what_died_with_a_former_control_plane_is_buried(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    with prefect_client(prefect_api) as client:
        deployment = client.read_deployment_by_name("watch/dayzero")
        run = client.create_flow_run_from_deployment(deployment.id)
        client.set_flow_run_state(run.id, Running(), force=True)
        assert bury_unattended(prefect_api) >= 1
        assert client.read_flow_run(run.id).state_type is StateType.CRASHED
    assert bury_unattended(prefect_api) == 0


def test_cancel_ends_what_waits(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    orchestrator = PrefectOrchestrator(prefect_api, ("cpu",))
    adaptation = an_adaptation()
    orchestrator.cancel(adaptation)
    orchestrator.start(adaptation)
    orchestrator.cancel(adaptation)
    (run,) = runs_of(prefect_api, adaptation.id)
    assert run.state_type is StateType.CANCELLED


def test_the_command_cancels_the_runs_of_the_group_on_its_folder(prefect_api: str, tmp_path: Path) -> None:
    ensure(prefect_api, ("cpu",))
    adaptation = an_adaptation()
    PrefectOrchestrator(prefect_api, ("cpu",)).start(adaptation)
    write_addresses(tmp_path, {"prefect_api": prefect_api})
    stop_runs(load_settings(data_dir=tmp_path), adaptation)
    (run,) = runs_of(prefect_api, adaptation.id)
    assert run.state_type is StateType.CANCELLED


def test_the_command_says_when_prefect_is_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stop_runs(load_settings(data_dir=tmp_path), an_adaptation())
    assert capsys.readouterr().err == ""
    stop_runs(load_settings(data_dir=tmp_path, prefect_api_url="http://127.0.0.1:9/api"), an_adaptation())
    assert "could not be cancelled: the Prefect server at http://127.0.0.1:9/api does not answer" in capsys.readouterr().err


def test_an_event_starts_the_reconciler(prefect_api: str) -> None:
    ensure(prefect_api, ("cpu",))
    fields = {"platform": "cpu", "revision": "a" * 40, "nothing": None}
    event = Event(str(uuid.uuid4()), EventKind.RELEASE_WEIGHTS_LIVE, "demo/tiny", datetime.now(UTC), fields)
    orchestrator = PrefectOrchestrator(prefect_api, ("cpu",))
    orchestrator.emit(event)
    orchestrator.emit(event)
    assert reconciles_within(prefect_api, 60)


def reconciles_within(api: str, limit_s: float) -> bool:
    import time

    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        with prefect_client(api) as client:
            deployment = client.read_deployment_by_name("reconcile/dayzero")
            runs = [run for run in client.read_flow_runs(limit=200) if run.deployment_id == deployment.id]
        if runs:
            return True
        time.sleep(0.5)
    return False


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        PrefectOrchestrator("http://127.0.0.1:9/api").start(an_adaptation())
