"""One attempt of an adaptation on the control plane, from its claim to its end."""

from collections.abc import Callable
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Crashed

from dayzero import app
from dayzero.adapters.prefect.states import prefect_state
from dayzero.domain.adaptation import Adaptation, Lease
from dayzero.domain.entry import Correctness
from dayzero.domain.outcomes import SUPERSEDED, ending
from dayzero.errors import DayzeroError, DependencyError, StaleAttemptError
from dayzero.settings import load_settings
from dayzero.steps.concluding import Outcome

Work = Callable[[app.Plane, Lease, Adaptation], State[Any]]


class AbandonedError(DependencyError):
    """What the attempt waited for is gone; the attempt is left to the reconciler, which starts the next one."""


def run_attempt(adaptation_id: str, attempt: int, work: Work, *, joined: bool = False) -> State[Any]:
    """Claim the attempt (or join the run that holds it), do the work; the state that the flow run ends with.

    A stale attempt writes nothing and ends Superseded. When the database itself does not answer the run ends Crashed and the
    attempt is left as it is: the reconciler starts the next one.
    """
    try:
        with app.control_plane(load_settings()) as plane:
            claimant = (plane.ledger.adaptation(adaptation_id).claimant if joined else None) or str(flow_run.id)
            lease = plane.ledger.claim(adaptation_id, attempt, claimant)
            return _worked(plane, lease, plane.ledger.adaptation(adaptation_id), work)
    except StaleAttemptError as error:
        return prefect_state(SUPERSEDED, str(error))
    except DependencyError as error:
        get_run_logger().error("%s", error)
        return Crashed(message=str(error))


def _worked(plane: app.Plane, lease: Lease, adaptation: Adaptation, work: Work) -> State[Any]:
    try:
        return work(plane, lease, adaptation)
    except (StaleAttemptError, AbandonedError):
        raise
    except DayzeroError as error:
        get_run_logger().error("%s", error)
        return outcome_state(app.stop(plane, lease, error))


def outcome_state(outcome: Outcome) -> State[Any]:
    """An outcome as the final state of its run."""
    correctness = outcome.entry.correctness if outcome.entry else Correctness.UNKNOWN
    adaptation = outcome.adaptation
    return prefect_state(ending(adaptation.purpose, adaptation.state, correctness), outcome.reason or adaptation.state.value)
