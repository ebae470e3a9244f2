"""All that can be done before there are weights."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from dayzero import app
from dayzero.domain.adaptation import Adaptation, Lease, Purpose
from dayzero.steps.contract import Place
from dayzero_flows.attempts import outcome_state, run_attempt
from dayzero_flows.awaiting import run_on_platform
from dayzero_flows.stepping import run_steps


@flow(name="prestage", persist_result=False)
def prestage(adaptation_id: str, attempt: int) -> State[Any]:
    """Pre-stage one adaptation: structure, inventory, coverage, a first plan, and a rehearsal where the platform is there."""
    return run_attempt(adaptation_id, attempt, _prestage)


def _prestage(plane: app.Plane, lease: Lease, adaptation: Adaptation) -> State[Any]:
    run_steps(app.control_bench(plane), lease, adaptation, app.steps_for(Purpose.PRESTAGE, Place.CONTROL))
    if app.steps_for(Purpose.PRESTAGE, Place.PLATFORM):
        platform = adaptation.platform
        reason = app.why_no_rehearsal(plane, platform, able=app.is_served(plane, platform))
        if reason is None:
            run_on_platform(plane, lease, adaptation)
        else:
            app.leave_rehearsal(plane, lease, reason)
    return outcome_state(app.conclude(plane, lease))
