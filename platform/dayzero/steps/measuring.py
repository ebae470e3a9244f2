"""The memory model against what a run takes, rank by rank."""

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.observations import MemoryObserved
from dayzero.domain.reports import StepReport
from dayzero.domain.runs import Observation, RunEnd, RunOutcome
from dayzero.domain.verdict import Measurement, worst_of
from dayzero.errors import BadInputError
from dayzero.ports.catalog import Catalog
from dayzero.ports.ledger import Ledger
from dayzero.stages.judging import checks as judging
from dayzero.stages.judging.memory import Predicted, memory_check, predicted_memory, too_small_to_run
from dayzero.stages.memory.error import ModelError, memory_error
from dayzero.steps.contract import Bench
from dayzero.steps.prestaging import subject_of
from dayzero.steps.verifying import check_row, evidence_of, headless, key_of, not_applicable, outcome_of, request_for
from dayzero.steps.weights import agreed_plan, chosen_degrees, full_structure


def error_on(catalog: Catalog, ledger: Ledger, platform: str) -> ModelError | None:
    """The error of predicted peaks over every measured run on the platform; None where there is none."""
    here = (adaptation for adaptation in catalog.adaptations() if adaptation.platform == platform)
    return memory_error(one for adaptation in here for one in ledger.measurements(adaptation.id))


def memory_step(bench: Bench, lease: Lease) -> StepReport:
    """Run the plan's ranks on one sequence, compare what can be measured with its prediction, and record the errors; a model
    too small to be judged is not run."""
    small = too_small_to_run(_weights(bench, lease), str(chosen_degrees(bench, lease)), bench.tiny_bytes)
    if small is not None:
        bench.ledger.put_check(small, lease)
        return StepReport("memory", f"{small.verdict.value}: {small.reason}", False, (check_row(small),), verdict=small.verdict)
    reason = headless(bench, lease)
    if reason is not None:
        return not_applicable(bench, lease, Observation.MEMORY, str(chosen_degrees(bench, lease)), reason)
    request = request_for(bench, lease, Observation.MEMORY)
    outcome, reused = outcome_of(bench, lease, request, key_of(bench, lease, request))
    evidence = evidence_of(bench, lease, request, outcome)
    observed = _read(outcome)
    measurements: tuple[Measurement, ...] = ()
    if observed is None:
        checks = judging.judge(request, outcome, load, bench.limits, evidence).checks
        bench.ledger.log(lease, f"memory: {outcome.log_tail[-1000:]}")
    else:
        check, measurements = memory_check(observed, _predicted(bench, lease, observed), str(request.degrees), evidence)
        checks = (check,)
    for check in checks:
        bench.ledger.put_check(check, lease)
    for measurement in measurements:
        bench.ledger.put_measurement(measurement, lease)
    worst = worst_of(checks)
    rows = tuple(check_row(check) for check in checks)
    return StepReport("memory", f"{worst.verdict.value}: {worst.reason}", reused, rows, verdict=worst.verdict)


def _read(outcome: RunOutcome) -> MemoryObserved | None:
    """What was observed; None where the run did not complete, or its document is none."""
    try:
        return load(MemoryObserved, outcome.document) if outcome.end is RunEnd.COMPLETED else None
    except BadInputError:
        return None


def _predicted(bench: Bench, lease: Lease, observed: MemoryObserved) -> tuple[Predicted, ...]:
    weights = _weights(bench, lease)
    return predicted_memory(full_structure(bench, lease).noun, subject_of(bench, lease).profile, observed, weights)


def _weights(bench: Bench, lease: Lease) -> tuple[int, ...]:
    plan = agreed_plan(bench, lease).plan
    return tuple(budget.items_bytes.get("weights", 0) for budget in plan.memory) if plan is not None else ()
