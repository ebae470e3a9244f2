"""The memory step: a runner's figures become a check, and measurements by which the platform's error is told."""

from dataclasses import replace
from pathlib import Path

from dayzero.codec import dump
from dayzero.domain.observations import MemoryObserved, RankMemory
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunEnd
from dayzero.domain.verdict import Verdict
from dayzero.stages.memory.error import memory_error
from dayzero.steps import measuring, weights
from fakes_bench import Made, ended, make_bench

GIB = 2**30


def observed(peak_bytes: int) -> MemoryObserved:
    rank = RankMemory(0, 100, 1000, 500, peak_bytes, peak_bytes)
    return MemoryObserved(Degrees(), "bfloat16", "sdpa", 64, 4, (rank,))


def judged_though_tiny(made: Made) -> Made:
    return replace(made, bench=replace(made.bench, tiny_bytes=0))


def test_what_was_measured_is_compared_and_kept(tmp_path: Path) -> None:
    outcome = replace(ended(RunEnd.COMPLETED), document=dump(observed(GIB)))
    made = judged_though_tiny(make_bench(tmp_path, degrees=Degrees(), outcome=outcome))
    report = measuring.memory_step(made.bench, made.lease)
    (check,) = made.ledger.checks(made.lease.adaptation_id)
    # The fake's model is tiny: a run that takes a GiB was mispredicted, and that is what the check says.
    assert (check.check, check.verdict, report.verdict) == ("memory.model", Verdict.FAIL, Verdict.FAIL)
    assert made.runner.ran[0].observation is Observation.MEMORY
    plan = weights.exact_plan(made.bench, made.lease).noun.plan
    assert plan is not None
    assert check.numbers["predicted_weights_bytes"] == plan.memory[0].items_bytes["weights"]
    error = memory_error(made.ledger.measurements(made.lease.adaptation_id))
    assert error is not None and error.n == 1 and error.worst < -0.9
    again = measuring.memory_step(made.bench, made.lease)
    assert again.reused and len(made.runner.ran) == 1


def test_a_run_that_went_wrong_or_lies_is_an_error_without_measurements(tmp_path: Path) -> None:
    for number, outcome in enumerate(
        (ended(RunEnd.CRASHED, "signal 9"), replace(ended(RunEnd.COMPLETED), document=b'{"lies": true}'))
    ):
        made = judged_though_tiny(make_bench(tmp_path / str(number), degrees=Degrees(tp=3), devices=3, outcome=outcome))
        assert measuring.memory_step(made.bench, made.lease).verdict is Verdict.ERROR
        assert made.ledger.measurements(made.lease.adaptation_id) == ()
        (check,) = made.ledger.checks(made.lease.adaptation_id)
        assert check.verdict is Verdict.ERROR and check.rung == "tp3"


def test_a_model_that_could_not_be_judged_is_not_run(tmp_path: Path) -> None:
    made = make_bench(tmp_path, degrees=Degrees(tp=3), devices=3)
    assert measuring.memory_step(made.bench, made.lease).verdict is Verdict.NOT_RUN
    assert made.runner.ran == []
    (check,) = made.ledger.checks(made.lease.adaptation_id)
    plan = weights.exact_plan(made.bench, made.lease).noun.plan
    assert plan is not None
    assert check.numbers["most_weights_bytes"] == max(budget.items_bytes["weights"] for budget in plan.memory)
    assert check.rung == "tp3" and "below 134,217,728" in check.reason
