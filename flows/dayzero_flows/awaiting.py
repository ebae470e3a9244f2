"""Waiting on the control pool for what runs on the platform's own, so that that pool has its place free for the work itself."""

import time
from uuid import UUID

from prefect import get_run_logger

from dayzero import app
from dayzero.adapters.prefect.waiting import Progressing, Seen, seen, start_verification
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease
from dayzero.domain.outcomes import STATE_ENDINGS
from dayzero.errors import BlockedError, MeasurementError, StaleAttemptError, UnavailableError
from dayzero_flows.attempts import AbandonedError
from dayzero_flows.stepping import prefect_api_url

LOOK_EVERY_S = 2.0


def run_on_platform(plane: app.Plane, lease: Lease, adaptation: Adaptation) -> None:
    """Start the attempt's run on its platform and wait for its end; raises what stopped it."""
    _raise_what_stopped_it(_await_verification(plane, lease, adaptation), adaptation)


def _await_verification(plane: app.Plane, lease: Lease, adaptation: Adaptation) -> Seen:
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
