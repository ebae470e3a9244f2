"""The Orchestrator port on a Prefect server."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.events.schemas.events import Event as PrefectEvent
from prefect.events.schemas.events import RelatedResource, Resource
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed, Scheduled

from dayzero.adapters.prefect.client import prefect_client
from dayzero.adapters.prefect.ensure import WITHOUT_PARAMETERS, ensure
from dayzero.adapters.prefect.names import FLOW_OF_PURPOSE, adaptation_tag, deployment_of, run_name, run_tags, start_key
from dayzero.domain.adaptation import Adaptation
from dayzero.domain.events import Event
from dayzero.errors import UnavailableError

RUNS_AT_ONCE = 5
"""Runs of one attempt that may end before they claim it; further ones are started only after a pause."""

BEGIN_WITHIN_S = 60.0
"""Time that a run which was taken up has to claim its attempt: a process that imports Prefect on a busy host is slow."""

RUN_LIMIT = 200


class PrefectOrchestrator:
    """Starts, cancels and shows flow runs; `platforms` are those whose pools it restores when Prefect lost them.

    A run that Prefect took up but that has not claimed its attempt within `unclaimed_after_s` counts as lost.
    """

    def __init__(self, api_url: str, platforms: Sequence[str] = (), *, unclaimed_after_s: float = BEGIN_WITHIN_S) -> None:
        self._api_url = api_url
        self._platforms = tuple(platforms)
        self._unclaimed_after_s = unclaimed_after_s

    def start(self, adaptation: Adaptation) -> str:
        """See Orchestrator. Runs of former attempts that Prefect still shows as alive are marked crashed."""
        with prefect_client(self._api_url) as client:
            run = self._run_of(client, adaptation)
            self._bury_former(client, adaptation)
        return str(run.id)

    def cancel(self, adaptation: Adaptation) -> None:
        """See Orchestrator."""
        with prefect_client(self._api_url) as client:
            for run in _runs(client, adaptation.id):
                if _ended(run):
                    continue
                waiting = run.state_type in {StateType.SCHEDULED, None}
                state: State[Any] = (
                    State(type=StateType.CANCELLED, name="Cancelled", message="cancelled by the operator")
                    if waiting
                    else State(type=StateType.CANCELLING, name="Cancelling", message="cancelled by the operator")
                )
                client.set_flow_run_state(run.id, state, force=waiting)

    def emit(self, event: Event) -> None:
        """See Orchestrator. The event keeps its id, so that a repeat is recognised."""
        with prefect_client(self._api_url) as client:
            document = _prefect_event(event).model_dump(mode="json")
            client.request("POST", "/events", json=[document]).raise_for_status()

    def run_url(self, adaptation: Adaptation) -> str | None:
        """See Orchestrator."""
        with prefect_client(self._api_url) as client:
            runs = [run for run in _runs(client, adaptation.id) if run.parent_task_run_id is None]
        return f"{ui_url(self._api_url)}/runs/flow-run/{runs[0].id}" if runs else None

    def _run_of(self, client: SyncPrefectClient, adaptation: Adaptation) -> FlowRun:
        try:
            return self._living_run(client, adaptation)
        except ObjectNotFound:
            ensure(self._api_url, self._platforms or (adaptation.platform,))
            return self._living_run(client, adaptation)

    def _living_run(self, client: SyncPrefectClient, adaptation: Adaptation) -> FlowRun:
        flow = FLOW_OF_PURPOSE[adaptation.purpose]
        deployment = client.read_deployment_by_name(deployment_of(flow, adaptation.platform))
        key = start_key(adaptation.id, adaptation.attempt)
        before = _runs_of_attempt(client, adaptation, deployment.id)
        if len(before) >= RUNS_AT_ONCE and all(map(_ended, before)) and _ended_within(before, self._unclaimed_after_s):
            raise UnavailableError(
                f"{len(before)} runs of {run_name(adaptation, flow, adaptation.attempt)} ended before they began;"
                f" the next one starts {self._unclaimed_after_s:.0f} s after the last.",
                remedy="Their logs in the Prefect UI say why.",
            )
        for number in range(max(len(before) - 1, 0), len(before) + 2):
            run = client.create_flow_run_from_deployment(
                deployment.id,
                parameters={"adaptation_id": adaptation.id, "attempt": adaptation.attempt},
                state=Scheduled(),
                name=run_name(adaptation, flow, adaptation.attempt),
                tags=run_tags(adaptation, flow),
                idempotency_key=key if number == 0 else f"{key}:{number}",
            )
            if self._may_still_claim(run):
                return run
            if not _ended(run):
                _bury(client, run, "never claimed its attempt: the worker that took it died")
        raise UnavailableError(
            f"runs of {run_name(adaptation, flow, adaptation.attempt)} end as fast as they start.",
            remedy="Their logs in the Prefect UI say why.",
        )

    def _may_still_claim(self, run: FlowRun) -> bool:
        if _ended(run) or run.state is None:
            return not _ended(run)
        if run.state.type is StateType.SCHEDULED:
            return True
        taken_s = (datetime.now(UTC) - run.state.timestamp).total_seconds()
        return taken_s < self._unclaimed_after_s

    def _bury_former(self, client: SyncPrefectClient, adaptation: Adaptation) -> None:
        for run in _runs(client, adaptation.id):
            attempt = run.parameters.get("attempt")
            if isinstance(attempt, int) and attempt < adaptation.attempt and not _ended(run):
                _bury(client, run, f"attempt {attempt} fell silent; attempt {adaptation.attempt} took over")


def bury_unattended(api_url: str) -> int:
    """Mark crashed what a former control plane left running or pending of its watch and reconcile flows; how many.

    For the start of a control plane, before its worker: runs of adaptations are buried when their next attempt starts.
    """
    flows = FlowFilter(name=FlowFilterName(any_=sorted(WITHOUT_PARAMETERS)))
    living = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])))
    with prefect_client(api_url) as client:
        left = client.read_flow_runs(flow_filter=flows, flow_run_filter=living, limit=RUN_LIMIT)
        for run in left:
            _bury(client, run, "its worker died with the control plane before this one")
    return len(left)


def ui_url(api_url: str) -> str:
    """The address of the Prefect UI that belongs to an API."""
    parts = urlsplit(api_url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix("/").removesuffix("/api"), "", ""))


def _runs(client: SyncPrefectClient, adaptation_id: str) -> Iterable[FlowRun]:
    wanted = FlowRunFilter(tags=FlowRunFilterTags(all_=[adaptation_tag(adaptation_id)]))
    return client.read_flow_runs(flow_run_filter=wanted, sort=FlowRunSort.START_TIME_DESC, limit=RUN_LIMIT)


def _runs_of_attempt(client: SyncPrefectClient, adaptation: Adaptation, deployment_id: UUID) -> list[FlowRun]:
    """Every run that was started for this attempt; not the verifications that they started in turn."""
    return [
        run
        for run in _runs(client, adaptation.id)
        if run.deployment_id == deployment_id and run.parameters.get("attempt") == adaptation.attempt
    ]


def _ended_within(runs: Iterable[FlowRun], seconds: float) -> bool:
    now = datetime.now(UTC)
    return any(run.state is not None and (now - run.state.timestamp).total_seconds() < seconds for run in runs)


def _ended(run: FlowRun) -> bool:
    return run.state is not None and run.state.is_final()


def _bury(client: SyncPrefectClient, run: FlowRun, why: str) -> None:
    client.set_flow_run_state(run.id, Crashed(message=why), force=True)


def _prefect_event(event: Event) -> PrefectEvent:
    subject = {"prefect.resource.id": f"dayzero.model.{event.subject}", "prefect.resource.name": event.subject}
    related = [
        RelatedResource({"prefect.resource.id": f"dayzero.{name}.{value}", "prefect.resource.role": name, "value": str(value)})
        for name, value in sorted(event.fields.items())
        if value is not None and name in {"platform", "release_id", "adaptation_id", "entry_id", "repo_id", "revision"}
    ]
    return PrefectEvent.model_validate(
        {
            "id": UUID(event.id),
            "event": event.kind.value,
            "occurred": event.occurred_at,
            "resource": Resource(subject),
            "related": related,
            "payload": dict(event.fields),
        }
    )
