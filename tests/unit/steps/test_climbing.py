"""A climb stops at the first rung that fails, and says why for the rungs above."""

import pytest

from dayzero.domain.plan import Estimates, ParallelPlan, Rung, RungWeights
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict
from dayzero.stages.climbing.rungs import Climbed, climbed, ladder_check, parallel_rungs, stops, why_not_climbed

TP2, TP4 = Rung(Degrees(tp=2), 4, 4, RungWeights.REAL, "tp"), Rung(Degrees(tp=4), 4, 4, RungWeights.REAL, "the plan")
PASSED = Climbed("tp2", Verdict.PASS, "agrees")


def check(verdict: Verdict, reason: str = "so") -> Check:
    return Check(CheckLayer.MEMORY_PARALLELISM, "parallel.logits", "tp2", verdict, Grade.MEASURED, reason)


def plan(degrees: Degrees, *rungs: Rung) -> ParallelPlan:
    return ParallelPlan(degrees, (), (), Estimates(), None, (), rungs=rungs)


def test_the_rungs_are_those_that_the_plan_lists_and_take_several_devices() -> None:
    one = Rung(Degrees(), 4, 4, RungWeights.REAL, "one device")
    assert parallel_rungs(plan(Degrees(tp=4), one, TP2, TP4)) == (TP2, TP4)
    led = parallel_rungs(plan(Degrees(tp=4, pp=2)))
    assert [str(rung.degrees) for rung in led] == ["tp2", "tp4", "tp4-pp2"]


def test_a_rung_is_climbed_unless_one_below_failed_or_devices_are_lacking() -> None:
    assert why_not_climbed(TP4, 4, None) is None
    assert why_not_climbed(TP4, 2, None) == "tp4 takes 4 devices, there are 2 here"
    why = why_not_climbed(TP4, 4, Climbed("tp2", Verdict.FAIL, "logits are wrong"))
    assert why == "the climb stopped at tp2: logits are wrong"
    dummy = Rung(Degrees(tp=2), 2, 4, RungWeights.DUMMY, "tp")
    assert "2 of 4 layers" in (why_not_climbed(dummy, 4, None) or "")


@pytest.mark.parametrize(
    ("verdicts", "worst", "ends"),
    [
        ((Verdict.PASS, Verdict.FAIL), Verdict.FAIL, True),
        ((Verdict.ERROR, Verdict.PASS), Verdict.ERROR, True),
        ((Verdict.NOT_RUN, Verdict.PASS), Verdict.NOT_RUN, False),
        ((), Verdict.NOT_RUN, False),
    ],
)
def test_a_rung_is_as_good_as_its_worst_check(verdicts: tuple[Verdict, ...], worst: Verdict, ends: bool) -> None:
    found = climbed("tp2", [check(verdict) for verdict in verdicts])
    assert (found.verdict, stops(found)) == (worst, ends)


def test_the_whole_climb_passes_only_with_its_last_rung() -> None:
    top = Climbed("tp4", Verdict.PASS, "agrees")
    good = ladder_check(Degrees(tp=4), (Climbed("reduced", Verdict.NOT_RUN, "no"), PASSED, top))
    assert (good.verdict, good.measured, good.n, good.reason) == (Verdict.PASS, 2.0, 3, "climbed tp2, tp4")
    short = ladder_check(Degrees(tp=4), (PASSED, Climbed("tp4", Verdict.NOT_RUN, "4 devices")))
    assert (short.verdict, short.reason) == (Verdict.NOT_RUN, "tp4: 4 devices")
    bad = ladder_check(Degrees(tp=4), (Climbed("tp2", Verdict.FAIL, "wrong"), Climbed("tp4", Verdict.NOT_RUN, "stopped")))
    assert (bad.verdict, bad.reason) == (Verdict.FAIL, "stopped at tp2: wrong")
    assert bad.numbers == {"tp2": "fail", "tp4": "not_run"}
    assert ladder_check(Degrees(), ()).verdict is Verdict.NOT_RUN
