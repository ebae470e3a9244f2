"""The table of endings as Prefect states."""

from typing import Any

from prefect.client.schemas.objects import State, StateType

from dayzero.domain.outcomes import STEP_ENDINGS, Ending, RunState
from dayzero.domain.reports import StepReport

STATE_TYPES: dict[RunState, StateType] = {
    RunState.COMPLETED: StateType.COMPLETED,
    RunState.FAILED: StateType.FAILED,
    RunState.CANCELLED: StateType.CANCELLED,
}


def prefect_state(ending: Ending, message: str) -> State[Any]:
    """The final Prefect state of an ending, with one sentence for the person who looks at it."""
    return State(type=STATE_TYPES[ending.state], name=ending.name, message=message)


def step_state(report: StepReport) -> State[Any] | None:
    """The final Prefect state of a step that judged; None for one that judges nothing."""
    return None if report.verdict is None else prefect_state(STEP_ENDINGS[report.verdict], report.headline)
