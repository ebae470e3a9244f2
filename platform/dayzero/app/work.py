"""What flows and loops do with a plane: steps under a heartbeat, ends of attempts, and rounds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dayzero.app.hubs import hub_of
from dayzero.app.planes import Plane, control_bench, vault_of
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.reports import StepReport
from dayzero.domain.verdict import Mode
from dayzero.errors import BadInputError, DayzeroError, StaleAttemptError
from dayzero.ports.ledger import Ledger
from dayzero.ports.running import Orchestrator
from dayzero.steps import concluding, pipeline, reconciling, rehearsing, telling, watch
from dayzero.steps.contract import Bench, Place, Step
from dayzero.steps.waiting import no_worker_reason

HEARTBEAT_S = 5.0
DELIVERY_BATCH = 50
FAN_OUT_BATCH = 500
LANES_ROUND_S = 60.0


def steps_for(purpose: Purpose, place: Place, mode: Mode = Mode.INFERENCE) -> tuple[Step, ...]:
    """The steps of a purpose in that mode that run at a place, in order."""
    return tuple(step for step in pipeline.steps_of(purpose, mode) if step.place is place)


def run_step(bench: Bench, lease: Lease, step: Step) -> StepReport:
    """Run one step under a heartbeat; what it says goes to the adaptation's log."""
    bench.ledger.heartbeat(lease, step.name)
    with _heartbeat(bench.ledger, lease, step.name):
        started_s = bench.clock.monotonic_s()
        try:
            report = step.run(bench, lease)
        except StaleAttemptError:
            raise
        except DayzeroError as error:
            bench.ledger.log(lease, f"{step.name}: {error}")
            raise
    took_s = bench.clock.monotonic_s() - started_s
    how = "re-used" if report.reused else f"{took_s:.1f} s"
    bench.ledger.log(lease, f"{step.name} ({how}): {report.headline}")
    return report


@contextmanager
def _heartbeat(ledger: Ledger, lease: Lease, stage: str) -> Iterator[None]:
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT_S):
            try:
                ledger.heartbeat(lease, stage)
            except StaleAttemptError:
                return
            except DayzeroError:
                continue

    thread = threading.Thread(target=beat, name=f"heartbeat-{lease.adaptation_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def claimed(plane: Plane, adaptation: Adaptation, claimant: str) -> Lease:
    """The next attempt of a requested or ended adaptation for this process; StaleAttemptError when somebody else has it."""
    if adaptation.state is not AdaptationState.REQUESTED:
        adaptation = plane.catalog.retry(adaptation.id)
    return plane.ledger.claim(adaptation.id, adaptation.attempt + 1, claimant)


def ended(plane: Plane, adaptation: Adaptation) -> pipeline.Outcome:
    """How an adaptation that somebody else ran stands, with the entry that follows from what was found."""
    lease = Lease(adaptation.id, adaptation.attempt, adaptation.claimant or "")
    return pipeline.Outcome(adaptation, concluding.entry_of(control_bench(plane), lease), adaptation.reason)


def conclude(plane: Plane, lease: Lease) -> pipeline.Outcome:
    """End an attempt that ran through: derive its entry, record it, and tell the outbox."""
    return pipeline.conclude(control_bench(plane), plane.catalog, lease)


def stop(plane: Plane, lease: Lease, error: DayzeroError) -> pipeline.Outcome:
    """End an attempt that an error stopped: its entry says blocked and why."""
    return pipeline.stop(control_bench(plane), plane.catalog, lease, error)


def is_served(plane: Plane, platform: str) -> bool:
    """Whether a worker of the platform lives."""
    return plane.workforce.workers_alive(platform, plane.settings.orphan_after_s) > 0


def leave_rehearsal(plane: Plane, lease: Lease, reason: str) -> None:
    """Record that a pre-stage's rehearsal was left out, and why."""
    rehearsing.leave_rehearsal(control_bench(plane), lease, reason)


def why_no_rehearsal(plane: Plane, platform: str, *, able: bool) -> str | None:
    """Why a pre-stage has no rehearsal now; None when it has one. `able`: whether there is somebody to run it."""
    if not plane.settings.rehearse:
        return "rehearsals are switched off (DAYZERO_REHEARSE)"
    return None if able else no_worker_reason(platform)


def reconcile_once(plane: Plane, orchestrator: Orchestrator) -> reconciling.ReconcileReport:
    """One round of the reconciler."""
    settings = plane.settings
    patience = reconciling.Patience(settings.orphan_after_s, settings.orphan_after_s, settings.max_attempts)

    def has_told(platform: str) -> bool:
        return plane.ledger.manifest(platform) is not None

    return reconciling.reconcile(plane.catalog, plane.workforce, orchestrator, plane.clock, patience, has_told)


def poll_once(plane: Plane, *, all_now: bool = False) -> tuple[watch.PollReport, ...]:
    """One poll of every enabled source that is due; `all_now` polls those too that were polled a short while ago."""
    due_at = None if all_now else plane.clock.now()
    return watch.poll_all(plane.watchbook, lambda source: hub_of(source, plane.settings), plane.settings.platforms, due_at)


def emit_once(plane: Plane, orchestrator: Orchestrator) -> None:
    """One round of telling the orchestrator."""
    for event in plane.outbox.unemitted(DELIVERY_BATCH):
        orchestrator.emit(event)
        plane.outbox.emitted(event.id)


def fan_out(plane: Plane) -> int:
    """Make the deliveries of every event that has none yet; the number of events."""
    handled = 0
    while (batch := plane.outbox.fan_out(FAN_OUT_BATCH)) > 0:
        handled += batch
    return handled


def serve_lanes(plane: Plane, round_s: float = LANES_ROUND_S) -> telling.DeliveryReport:
    """Tell one subscriber after the other until nobody is due or the time is over; several may do so at once."""
    report = telling.DeliveryReport()
    ends_s = plane.clock.monotonic_s() + round_s
    while plane.clock.monotonic_s() < ends_s:
        served = telling.serve_lane(plane.outbox, plane.notifier, plane.clock)
        if served is None:
            break
        report += served
    return report


def rotate_key(plane: Plane) -> int:
    """Make a new key and lock every address and secret of subscribers with it; how many subscriptions."""
    vault_of(plane.settings).new_key()
    return plane.subscribers.lock_again()


def dispatch_once(plane: Plane, orchestrator: Orchestrator | None) -> telling.DeliveryReport:
    """One round of telling: events to the orchestrator, then deliveries to subscribers."""
    if orchestrator is not None:
        emit_once(plane, orchestrator)
    fan_out(plane)
    return serve_lanes(plane)


def verification_steps(names: tuple[str, ...], mode: Mode = Mode.INFERENCE) -> tuple[Step, ...]:
    """The steps of one `verify`: all, or those needed for the named ones; BadInputError lists what can be asked for."""
    everything = [step for step in pipeline.steps_of(Purpose.ADAPT, mode) if step.place is not Place.PUBLISH]
    asked = {step.name: step for step in pipeline.ON_REQUEST if step.name in names}
    everything = [asked.get(step.name, step) for step in everything]
    checks = {step.name for step in pipeline.OBSERVING if step.mode in (None, mode)}
    unknown = sorted(set(names) - checks)
    if unknown:
        raise BadInputError(f"no check is called {unknown[0]}.", remedy="Known ones: " + ", ".join(sorted(checks)) + ".")
    return tuple(step for step in everything if not names or step.name not in checks or step.name in names)


def library_steps() -> tuple[Step, ...]:
    """The steps of one `verify --engine`: the checkpoint on this disk, then the library's own ranks."""
    wanted = ("fetch", "parallel")
    return tuple(step for step in pipeline.STEPS[Purpose.ADAPT] if step.name in wanted)


def steps_before_checks() -> tuple[Step, ...]:
    """The steps that bring a model to the platform, without any check."""
    return tuple(
        step for step in pipeline.steps_of(Purpose.ADAPT) if step.place is not Place.PUBLISH and step not in pipeline.OBSERVING
    )
