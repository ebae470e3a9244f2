"""The verification of an attempt: one run of the platform's deployment, started once and read until it ends."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, StateType
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound

from dayzero.adapters.prefect.client import prefect_client
from dayzero.adapters.prefect.ensure import ensure
from dayzero.adapters.prefect.names import deployment_of, run_name, run_tags, verify_key
from dayzero.domain.adaptation import Adaptation


class Progressing(StrEnum):
    """How far a run has come."""

    WAITING = "waiting"
    TAKEN = "taken"
    RUNNING = "running"
    ENDED = "ended"
    CRASHED = "crashed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as Prefect shows it: how far it is, and the name and message of its state."""

    progress: Progressing
    name: str
    message: str


def start_verification(api_url: str, adaptation: Adaptation, attempt: int) -> UUID:
    """Start the verification of an attempt as a child of the current flow run; again: the same run."""
    try:
        return _start(adaptation, attempt)
    except ObjectNotFound:
        ensure(api_url, (adaptation.platform,))
        return _start(adaptation, attempt)


def _start(adaptation: Adaptation, attempt: int) -> UUID:
    started = run_deployment(
        deployment_of("verify", adaptation.platform),
        parameters={"adaptation_id": adaptation.id, "attempt": attempt},
        flow_run_name=run_name(adaptation, "verify", attempt),
        tags=run_tags(adaptation, "verify"),
        idempotency_key=verify_key(adaptation.id, attempt),
        timeout=0,
    )
    assert isinstance(started, FlowRun), "run_deployment is synchronous in a synchronous flow"
    return started.id


def seen(api_url: str, run_id: UUID) -> Seen:
    """The run now; UnavailableError when Prefect does not answer or has lost it."""
    with prefect_client(api_url) as client:
        run = client.read_flow_run(run_id)
    state = run.state
    if state is None:
        return Seen(Progressing.WAITING, "", "")
    return Seen(_PROGRESS.get(state.type, Progressing.ENDED), state.name or "", state.message or "")


_PROGRESS = {
    StateType.SCHEDULED: Progressing.WAITING,
    StateType.PENDING: Progressing.TAKEN,
    StateType.PAUSED: Progressing.WAITING,
    StateType.RUNNING: Progressing.RUNNING,
    StateType.CANCELLING: Progressing.RUNNING,
    StateType.CRASHED: Progressing.CRASHED,
    StateType.CANCELLED: Progressing.CANCELLED,
}
