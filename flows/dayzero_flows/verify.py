"""What runs on the platform itself, on a worker that holds no database credentials."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Crashed

from dayzero import app
from dayzero.adapters.prefect.states import prefect_state
from dayzero.domain.adaptation import AdaptationState, Lease
from dayzero.domain.outcomes import STATE_ENDINGS, SUPERSEDED, ending
from dayzero.errors import BlockedError, DayzeroError, StaleAttemptError, UnavailableError
from dayzero.settings import load_settings
from dayzero.steps.concluding import entry_of
from dayzero.steps.contract import Bench, Place
from dayzero_flows.stepping import run_steps


@flow(name="verify", persist_result=False)
def verify(adaptation_id: str, attempt: int) -> State[Any]:
    """What of one adaptation runs on this platform: fetch, shard and check, or the rehearsal of a pre-stage."""
    try:
        bench = app.worker_bench(load_settings())
        return _verify(bench, adaptation_id, attempt)
    except StaleAttemptError as error:
        return prefect_state(SUPERSEDED, str(error))
    except UnavailableError as error:
        # Without its ledger nothing can be said; the attempt falls silent and the next one takes over.
        get_run_logger().error("%s", error)
        return Crashed(message=str(error))
    except BlockedError as error:
        return prefect_state(STATE_ENDINGS[AdaptationState.BLOCKED], str(error))
    except DayzeroError as error:
        return prefect_state(STATE_ENDINGS[AdaptationState.FAILED], str(error))


def _verify(bench: Bench, adaptation_id: str, attempt: int) -> State[Any]:
    adaptation = bench.ledger.adaptation(adaptation_id)
    if adaptation.claimant is None or adaptation.attempt != attempt or adaptation.state is not AdaptationState.RUNNING:
        raise StaleAttemptError(
            f"attempt {attempt} of {adaptation.model} on {adaptation.platform} is over (it stands at {adaptation.attempt})."
        )
    lease = Lease(adaptation_id, attempt, adaptation.claimant)
    run_steps(bench, lease, adaptation, app.steps_for(adaptation.purpose, Place.PLATFORM, adaptation.mode))
    entry = entry_of(bench, lease)
    return prefect_state(ending(adaptation.purpose, AdaptationState.DONE, entry.correctness), entry.reason)
