"""The reconciler: starts what is requested or orphaned, and blocks what no worker could take."""

from collections.abc import Callable
from dataclasses import dataclass

from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.errors import UnavailableError
from dayzero.ports.catalog import Catalog, Workforce
from dayzero.ports.running import Clock, Orchestrator
from dayzero.steps.waiting import no_manifest_reason, no_worker_reason


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What one round did: adaptations started, held for want of a worker, and requested again since one joined.

    An adaptation counts as started in every round until its run claims it.
    """

    started: tuple[str, ...]
    held: tuple[str, ...]
    resumed: tuple[str, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long silence is borne: of a running adaptation, of a worker, and how often an adaptation may be started."""

    orphan_after_s: float
    worker_silent_s: float
    max_attempts: int


def reconcile(
    catalog: Catalog,
    workforce: Workforce,
    orchestrator: Orchestrator,
    clock: Clock,
    patience: Patience,
    has_told: Callable[[str], bool] = lambda platform: True,
) -> ReconcileReport:
    """One round. It may run at any time, twice at once, or after any crash: starts are idempotent on (id, attempt).

    `has_told` says whether anybody told what a platform offers; a pre-stage waits for that and for a worker as long as an
    adaptation waits for a worker, then it runs all the same and says what is missing.
    """
    resumed = _resume(catalog, workforce, patience)
    started: list[str] = []
    held: list[str] = []
    problems: list[str] = []
    for adaptation in catalog.startable(patience.orphan_after_s, patience.max_attempts):
        waited_long = (clock.now() - adaptation.requested_at).total_seconds() >= patience.worker_silent_s
        served = workforce.workers_alive(adaptation.platform, patience.worker_silent_s) > 0
        if not served and adaptation.purpose is Purpose.ADAPT:
            if waited_long:
                catalog.hold(adaptation.id, no_worker_reason(adaptation.platform))
                held.append(adaptation.id)
            continue
        if not waited_long and not (served and has_told(adaptation.platform)):
            continue
        try:
            orchestrator.start(adaptation)
            started.append(adaptation.id)
        except UnavailableError as error:
            problems.append(f"{adaptation.model} on {adaptation.platform}: {error}")
    return ReconcileReport(tuple(started), tuple(held), tuple(resumed), tuple(problems))


def _resume(catalog: Catalog, workforce: Workforce, patience: Patience) -> list[str]:
    waiting = {adaptation.platform for adaptation in catalog.adaptations(state=AdaptationState.BLOCKED)}
    resumed: list[str] = []
    for platform in sorted(waiting):
        if workforce.workers_alive(platform, patience.worker_silent_s):
            # A worker first tells what it offers and then that it lives.
            for reason in (no_worker_reason(platform), no_manifest_reason(platform)):
                resumed += [adaptation.id for adaptation in catalog.resume(platform, reason)]
    return resumed
