"""The memory model against what a run takes, rank by rank."""

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.observations import MemoryObserved
from dayzero.domain.reports import StepReport
from dayzero.domain.runs import Observation, RunEnd
from dayzero.domain.verdict import Check, worst_of
from dayzero.stages import judging
from dayzero.stages.judging_memory import memory_check, predicted_memory
from dayzero.steps.contract import Bench
from dayzero.steps.prestaging import subject_of
from dayzero.steps.verifying import check_row, evidence_of, key_of, outcome_of, request_for
from dayzero.steps.weights import agreed_plan, full_structure


def memory_step(bench: Bench, lease: Lease) -> StepReport:
    """Run the plan's ranks on one sequence, compare what can be measured with its prediction, and record the errors."""
    request = request_for(bench, lease, Observation.MEMORY)
    outcome, reused = outcome_of(bench, lease, request, key_of(bench, lease, request))
    evidence = evidence_of(bench, lease, request, outcome)
    plan = agreed_plan(bench, lease).plan
    if outcome.end is RunEnd.COMPLETED and plan is not None:
        observed = load(MemoryObserved, outcome.document)
        weights = tuple(budget.items_bytes.get("weights", 0) for budget in plan.memory)
        spec, profile = full_structure(bench, lease).noun, subject_of(bench, lease).profile
        check, measurements = memory_check(
            observed, predicted_memory(spec, profile, observed, weights), str(request.degrees), evidence
        )
        checks: tuple[Check, ...] = (check,)
        for measurement in measurements:
            bench.ledger.put_measurement(measurement, lease)
    else:
        checks = judging.judge(request, outcome, load, bench.limits, evidence).checks
        bench.ledger.log(lease, f"memory: {outcome.log_tail[-1000:]}")
    for check in checks:
        bench.ledger.put_check(check, lease)
    worst = worst_of(checks)
    rows = tuple(check_row(check) for check in checks)
    return StepReport("memory", f"{worst.verdict.value}: {worst.reason}", reused, rows, verdict=worst.verdict)
