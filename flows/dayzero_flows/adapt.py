"""What is left to do when the weights are live: the control plane's part, then the platform's, then the entry."""

import time
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State

from dayzero import app
from dayzero.adapters.prefect.names import FLOW_OF_PURPOSE, run_name
from dayzero.adapters.prefect.waiting import Progressing, Seen, seen, start_verification
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.outcomes import STATE_ENDINGS
from dayzero.errors import BlockedError, MeasurementError, StaleAttemptError, UnavailableError
from dayzero.steps.contract import Place
from dayzero_flows.attempts import AbandonedError, run_attempt
from dayzero_flows.publish import publish
from dayzero_flows.stepping import prefect_api_url, run_steps

LOOK_EVERY_S = 2.0
ADAPT = FLOW_OF_PURPOSE[Purpose.ADAPT]


@flow(name=ADAPT, persist_result=False)
def adapt(adaptation_id: str, attempt: int) -> State[Any]:
    """Adapt one release to one platform, and publish what came of it."""
    return run_attempt(adaptation_id, attempt, _adapt)


def _adapt(plane: app.Plane, lease: Lease, adaptation: Adaptation) -> State[Any]:
    run_steps(app.control_bench(plane), lease, adaptation, app.steps_for(Purpose.ADAPT, Place.CONTROL))
    if app.steps_for(Purpose.ADAPT, Place.PLATFORM):
        ended = _await_verification(plane, lease, adaptation)
        _raise_what_stopped_it(ended, adaptation)
    named = publish.with_options(flow_run_name=run_name(adaptation, "publish", lease.attempt))
    published = named(lease.adaptation_id, lease.attempt, return_state=True)
    return State(type=published.type, name=published.name, message=published.message)


def _await_verification(plane: app.Plane, lease: Lease, adaptation: Adaptation) -> Seen:
    """Wait on the control pool, so that the platform's pool has its place free for the verification itself."""
    api_url = prefect_api_url()
    run_id = start_verification(api_url, adaptation, lease.attempt)
    waiting = _Waiting(plane, lease)
    while True:
        found = _look(api_url, run_id)
        if found is not None and found.progress in {Progressing.ENDED, Progressing.CRASHED, Progressing.CANCELLED}:
            return found
        waiting.keep_alive(found.progress if found else Progressing.RUNNING)
        time.sleep(LOOK_EVERY_S)


class _Waiting:
    """Keeps the lease alive as long as nobody else does: until the verification has had time to speak for itself.

    From then on its own heartbeats count, so that the death of its worker is noticed by silence.
    """

    def __init__(self, plane: app.Plane, lease: Lease) -> None:
        self._plane = plane
        self._lease = lease
        self._taken_at_s: float | None = None

    def keep_alive(self, progress: Progressing) -> None:
        """One round; StaleAttemptError when a newer attempt holds the adaptation or it was cancelled."""
        now_s = time.monotonic()
        if progress is Progressing.WAITING:
            self._taken_at_s = None
        elif self._taken_at_s is None:
            self._taken_at_s = now_s
        if self._taken_at_s is None or now_s - self._taken_at_s < self._plane.settings.orphan_after_s:
            self._plane.ledger.heartbeat(self._lease, "verify" if self._taken_at_s else "waiting for a worker")
            return
        adaptation = self._plane.ledger.adaptation(self._lease.adaptation_id)
        if adaptation.attempt != self._lease.attempt or adaptation.state is not AdaptationState.RUNNING:
            raise StaleAttemptError(f"attempt {self._lease.attempt} of {adaptation.model} lost its claim while it waited.")


def _look(api_url: str, run_id: UUID) -> Seen | None:
    try:
        return seen(api_url, run_id)
    except UnavailableError as error:
        get_run_logger().warning("%s", error)
        return None


def _raise_what_stopped_it(found: Seen, adaptation: Adaptation) -> None:
    if found.progress is Progressing.CRASHED:
        raise AbandonedError(f"the verification of {adaptation.model} on {adaptation.platform} died: {found.message}")
    if found.progress is Progressing.CANCELLED:
        raise StaleAttemptError(f"the verification of {adaptation.model} was cancelled: {found.message}")
    if found.name == STATE_ENDINGS[AdaptationState.BLOCKED].name:
        raise BlockedError(found.message)
    if found.name in {STATE_ENDINGS[AdaptationState.FAILED].name, "Failed", "TimedOut"}:
        raise MeasurementError(found.message or "the verification failed without a reason.")
