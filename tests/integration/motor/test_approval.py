"""A run with a large transfer pauses on a real Prefect server until somebody resumes it, and says what it waits for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL, temporary_settings

from dayzero.adapters.prefect import approving
from dayzero.adapters.prefect.approving import PauseForApproval
from dayzero.adapters.prefect.artifacts import RunPlace
from dayzero.adapters.prefect.client import prefect_client
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BlockedError

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.postgres,
    pytest.mark.slow,
    # Prefect's event client leaves its socket to the garbage collector when a flow runs in our own process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
ESTIMATE = TransferEstimate("hf:a/b", 6 * 10**12, 3 * 10**12, 10**13, notes=("a/b is gated; its licence is on http://h/a/b.",))


@flow(name="fetching", persist_result=False)
def fetching(api_url: str, timeout_s: float) -> str:
    context = FlowRunContext.get()
    assert context is not None and context.flow_run is not None
    place = RunPlace(api_url, context.flow_run.id, None, "a/b cpu")
    try:
        PauseForApproval(place, timeout_s)(ESTIMATE)
    except BlockedError as error:
        return str(error)
    return "approved"


@pytest.fixture
def in_prefect(prefect_api: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(approving, "LOOK_EVERY_S", 1)
    with temporary_settings({PREFECT_API_URL: prefect_api}):
        yield prefect_api


@contextmanager
def somebody_resumes(api_url: str) -> Iterator[list[UUID]]:
    """Resumes the first run that is seen paused."""
    resumed: list[UUID] = []
    over = threading.Event()
    paused = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])))

    def look() -> None:
        while not over.wait(0.5):
            with prefect_client(api_url) as client:
                for run in client.read_flow_runs(flow_run_filter=paused):
                    client.resume_flow_run(run.id)
                    resumed.append(run.id)
                    return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield resumed
    finally:
        over.set()
        thread.join()


def test_a_paused_run_goes_on_when_it_is_resumed(in_prefect: str) -> None:
    with somebody_resumes(in_prefect) as resumed:
        assert fetching(in_prefect, 60.0) == "approved"
    assert len(resumed) == 1
    with prefect_client(in_prefect) as client:
        shown = [one for one in client.read_artifacts(artifact_filter=ArtifactFilter()) if one.key == "a-b-cpu-approval"]
    assert len(shown) == 1 and "6.0 TB to download" in str(shown[0].data) and "licence is on http://h/a/b" in str(shown[0].data)


def test_nobody_who_approves_blocks_it(in_prefect: str) -> None:
    said = fetching(in_prefect, 2.0)
    assert said.startswith("nobody approved within 2 s: hf:a/b: 6.0 TB to download") and "DAYZERO_APPROVE_BELOW_BYTES" in said
