"""The table of endings as Prefect states."""

from typing import Any

from prefect.client.schemas.objects import State, StateType

from dayzero.domain.outcomes import Ending, RunState

STATE_TYPES: dict[RunState, StateType] = {
    RunState.COMPLETED: StateType.COMPLETED,
    RunState.FAILED: StateType.FAILED,
    RunState.CANCELLED: StateType.CANCELLED,
}


def prefect_state(ending: Ending, message: str) -> State[Any]:
    """The final Prefect state of an ending, with one sentence for the person who looks at it."""
    return State(type=STATE_TYPES[ending.state], name=ending.name, message=message)
