"""Pools, deployments, schedule and automations: made if absent, brought up to date otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint, entry_points
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.events.actions import RunDeployment
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.workers.process import ProcessWorker

from dayzero.adapters.prefect.client import prefect_client
from dayzero.adapters.prefect.names import CONTROL_DEPLOYMENT, CONTROL_POOL, PLATFORM_FLOWS, pool_of
from dayzero.domain.events import EventKind
from dayzero.errors import DependencyError

FLOW_GROUP = "dayzero.flows"
SCHEDULED_FLOW = "watch"
RECONCILE_FLOW = "reconcile"
SHORTEST_SCHEDULE_S = 300.0
ANCHOR = datetime(2025, 1, 1, tzinfo=UTC)
RUN_COMMAND = "python -m dayzero.adapters.processes.guard prefect.engine"
"""How a worker starts a run: the run dies with its worker."""

AUTOMATION = "dayzero: reconcile at once"
STARTING_EVENTS = frozenset({EventKind.RELEASE_CONFIG_PUBLISHED, EventKind.RELEASE_WEIGHTS_LIVE, EventKind.RELEASE_ANNOUNCED})
SUBJECT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Parameters",
    "properties": {
        "adaptation_id": {"type": "string", "title": "adaptation_id", "position": 0},
        "attempt": {"type": "integer", "title": "attempt", "position": 1},
    },
    "required": ["adaptation_id", "attempt"],
}
WITHOUT_PARAMETERS = frozenset({SCHEDULED_FLOW, RECONCILE_FLOW})


@dataclass(frozen=True, slots=True)
class Ensured:
    """What is there now: names of pools, deployments (FLOW/DEPLOYMENT) and automations."""

    pools: tuple[str, ...]
    deployments: tuple[str, ...]
    automations: tuple[str, ...]


def installed_flows() -> tuple[EntryPoint, ...]:
    """Every flow that some installed distribution offers, by name; DependencyError when there is none."""
    found = {point.name: point for point in entry_points(group=FLOW_GROUP)}
    if not found:
        raise DependencyError("no flows are installed.", remedy="Install dayzero again: its flows ship in the same wheel.")
    return tuple(found[name] for name in sorted(found))


def ensure(api_url: str, platforms: Sequence[str], *, poll_interval_s: float = SHORTEST_SCHEDULE_S) -> Ensured:
    """Make or update everything that dayzero has in Prefect; running it again changes nothing.

    Losing all of it loses no result: the next call restores it. UnavailableError when the server does not answer.
    """
    flows = installed_flows()
    pools = (CONTROL_POOL, *(pool_of(platform) for platform in platforms))
    with prefect_client(api_url) as client:
        for pool in pools:
            _ensure_pool(client, pool)
        deployments: dict[str, UUID] = {}
        for flow in flows:
            places = platforms if flow.name in PLATFORM_FLOWS else (CONTROL_DEPLOYMENT,)
            for place in places:
                pool = pool_of(place) if flow.name in PLATFORM_FLOWS else CONTROL_POOL
                deployments[f"{flow.name}/{place}"] = _ensure_deployment(client, flow, place, pool, poll_interval_s)
        reconcile = deployments.get(f"{RECONCILE_FLOW}/{CONTROL_DEPLOYMENT}")
        if reconcile is not None:
            _ensure_automation(client, reconcile)
    return Ensured(pools, tuple(deployments), (AUTOMATION,) if reconcile else ())


def is_complete(api_url: str, platforms: Sequence[str]) -> bool:
    """Whether what starts need is there: pools, deployments, and the automation that makes them immediate."""
    needed = [f"adapt/{CONTROL_DEPLOYMENT}", f"prestage/{CONTROL_DEPLOYMENT}", *(f"verify/{slug}" for slug in platforms)]
    with prefect_client(api_url) as client:
        try:
            for pool in (CONTROL_POOL, *(pool_of(slug) for slug in platforms)):
                client.read_work_pool(pool)
            for name in needed:
                client.read_deployment_by_name(name)
        except ObjectNotFound:
            return False
        return bool(client.read_automations_by_name(AUTOMATION))


def _ensure_pool(client: SyncPrefectClient, name: str) -> None:
    template = ProcessWorker.get_default_base_job_template()
    template["variables"]["properties"]["command"]["default"] = RUN_COMMAND
    try:
        client.read_work_pool(name)
        client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
    except ObjectNotFound:
        pool = WorkPoolCreate(name=name, type="process", base_job_template=template)
        try:
            client.create_work_pool(pool)
        except ObjectAlreadyExists:
            client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))


def _ensure_deployment(client: SyncPrefectClient, flow: EntryPoint, place: str, pool: str, poll_interval_s: float) -> UUID:
    schedules = []
    if flow.name == SCHEDULED_FLOW:
        # A flow run is a process that costs seconds; the loop of `dayzero up` polls faster than this.
        interval = timedelta(seconds=max(poll_interval_s, SHORTEST_SCHEDULE_S))
        schedules = [DeploymentScheduleCreate(schedule=IntervalSchedule(interval=interval, anchor_date=ANCHOR), slug="poll")]
    alone = flow.name in WITHOUT_PARAMETERS
    return client.create_deployment(
        flow_id=client.create_flow_from_name(flow.name),
        name=place,
        entrypoint=f"{flow.module}.{flow.attr}",
        work_pool_name=pool,
        schedules=schedules,
        concurrency_limit=1 if alone else None,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW) if alone else None,
        parameter_openapi_schema={"type": "object", "properties": {}} if alone else SUBJECT_SCHEMA,
        enforce_parameter_schema=False,
        tags=["dayzero"],
    )


def _ensure_automation(client: SyncPrefectClient, reconcile: UUID) -> None:
    wanted = AutomationCore(
        name=AUTOMATION,
        description="An event about a release starts the reconciler now instead of at its next round.",
        trigger=EventTrigger(expect={kind.value for kind in STARTING_EVENTS}, posture=Posture.Reactive, threshold=1),
        actions=[RunDeployment(source="selected", deployment_id=reconcile, parameters={}, job_variables={})],
    )
    found = client.read_automations_by_name(AUTOMATION)
    for surplus in found[1:]:
        client.delete_automation(surplus.id)
    if found:
        client.update_automation(found[0].id, wanted)
    else:
        client.create_automation(wanted)
