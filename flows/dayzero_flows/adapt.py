"""What is left to do when the weights are live: the control plane's part, then the platform's, then the entry."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from dayzero import app
from dayzero.adapters.prefect.names import FLOW_OF_PURPOSE, run_name
from dayzero.domain.adaptation import Adaptation, Lease, Purpose
from dayzero.steps.contract import Place
from dayzero_flows.attempts import run_attempt
from dayzero_flows.awaiting import run_on_platform
from dayzero_flows.publish import publish
from dayzero_flows.stepping import run_steps

ADAPT = FLOW_OF_PURPOSE[Purpose.ADAPT]


@flow(name=ADAPT, persist_result=False)
def adapt(adaptation_id: str, attempt: int) -> State[Any]:
    """Adapt one release to one platform, and publish what came of it."""
    return run_attempt(adaptation_id, attempt, _adapt)


def _adapt(plane: app.Plane, lease: Lease, adaptation: Adaptation) -> State[Any]:
    run_steps(app.control_bench(plane), lease, adaptation, app.steps_for(Purpose.ADAPT, Place.CONTROL))
    if app.steps_for(Purpose.ADAPT, Place.PLATFORM):
        run_on_platform(plane, lease, adaptation)
    named = publish.with_options(flow_run_name=run_name(adaptation, "publish", lease.attempt))
    published = named(lease.adaptation_id, lease.attempt, return_state=True)
    return State(type=published.type, name=published.name, message=published.message)
