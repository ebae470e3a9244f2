"""From what was found to the bundle, the entry and the events."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from dayzero import app
from dayzero.domain.adaptation import Adaptation, Lease, Purpose
from dayzero.steps.contract import Place
from dayzero_flows.attempts import outcome_state, run_attempt
from dayzero_flows.stepping import run_steps


@flow(name="publish", flow_run_name="publish {adaptation_id} #{attempt}", persist_result=False)
def publish(adaptation_id: str, attempt: int) -> State[Any]:
    """Publish what an attempt found and end it; a child of `adapt`, whose claim it joins."""
    return run_attempt(adaptation_id, attempt, _publish, joined=True)


def _publish(plane: app.Plane, lease: Lease, adaptation: Adaptation) -> State[Any]:
    run_steps(app.control_bench(plane), lease, adaptation, app.steps_for(Purpose.ADAPT, Place.PUBLISH))
    return outcome_state(app.conclude(plane, lease))
