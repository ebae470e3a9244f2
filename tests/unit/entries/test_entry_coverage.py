"""Coverage as a check of an entry, and entries that are only predicted."""

from dayzero.domain.entry import Correctness, DayZeroClock, Lifecycle
from dayzero.domain.operators import CoverageKind, Gap
from dayzero.domain.plan import PlanReport, Rejection
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.verdict import Grade, Mode, Verdict
from dayzero.stages.entries.deciding import coverage_check, derive_entry, plan_check, predicted_entry
from dayzero.stages.entries.required import requirements
from entry_scenes import ALL_PASS, KEY, checks, coverage, planned, report


def test_a_missing_operator_is_named_and_makes_the_entry_failing() -> None:
    gap = Gap("attention.mla", "not offered", None, 0.9, 3, ("model",))
    for one, name in (
        (coverage(CoverageKind.NATIVE, CoverageKind.MISSING, graph=0.5), "aten.op1"),
        (coverage(CoverageKind.NATIVE, gaps=(gap,)), "attention.mla"),
    ):
        verdict = coverage_check(one)
        assert verdict.verdict is Verdict.FAIL
        assert name in verdict.reason
        found = tuple(found for found in checks(ALL_PASS) if found.check != "operators.coverage")
        entry = derive_entry(KEY, mode=Mode.INFERENCE, coverage=one, report=report(found), plan=None)
        assert entry.correctness is Correctness.FAILING
        assert name in entry.reason
        assert entry.gaps == tuple(gap.operator for gap in one.gaps)


def test_coverage_that_nobody_traced_is_not_run() -> None:
    assert coverage_check(coverage(CoverageKind.NATIVE, graph=None)).verdict is Verdict.NOT_RUN
    assert coverage_check(coverage()).verdict is Verdict.NOT_RUN
    passing = coverage_check(coverage(CoverageKind.NATIVE, CoverageKind.FALLBACK))
    assert passing.verdict is Verdict.PASS
    assert "1 by fallback" in passing.reason


def test_a_prediction_stays_unknown_whatever_it_predicts() -> None:
    rejected = Rejection(Degrees(), "memory", "needs 9 bytes, has 1", {})
    nothing_fits = PlanReport("cpu", Workload(), None, (), (rejected,), 7)
    for plan, words in ((planned(1, 1), "tp2 fits"), (nothing_fits, "needs 9 bytes"), (None, "nothing was run")):
        entry = predicted_entry(KEY, coverage=coverage(CoverageKind.NATIVE), plan=plan, clock=DayZeroClock())
        assert (entry.lifecycle, entry.correctness, entry.grade) == (Lifecycle.PREDICTED, Correctness.UNKNOWN, Grade.PREDICTED)
        assert words in entry.reason
        assert len(entry.missing_checks) == len(requirements(KEY))
    assert plan_check(planned(1, 1)).grade is Grade.PREDICTED
    assert predicted_entry(KEY, coverage=None, plan=None, lifecycle=Lifecycle.STAGED).lifecycle is Lifecycle.STAGED
    blocked = predicted_entry(KEY, coverage=None, plan=None, blocked_reason="no worker")
    assert (blocked.lifecycle, blocked.correctness) == (Lifecycle.BLOCKED, Correctness.UNKNOWN)
