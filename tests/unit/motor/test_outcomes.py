"""The table from verdict to state, exit code and entry."""

import itertools

import pytest

from dayzero.adapters.prefect.states import prefect_state, step_state
from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.domain.entry import Correctness
from dayzero.domain.outcomes import CORRECTNESS_ENDINGS, STEP_ENDINGS, SUPERSEDED, VERDICT_ENDINGS, RunState, ending
from dayzero.domain.reports import StepReport
from dayzero.domain.verdict import Verdict
from dayzero.errors import ExitCode

EVERY = list(itertools.product(Purpose, AdaptationState, Correctness))


def test_only_what_passed_or_was_staged_is_green() -> None:
    green = {case for case in EVERY if ending(*case).state is RunState.COMPLETED}
    staged = {(Purpose.PRESTAGE, AdaptationState.DONE, correctness) for correctness in Correctness}
    assert green == staged | {(Purpose.ADAPT, AdaptationState.DONE, Correctness.VERIFIED)}


def test_exit_code_zero_is_green_and_green_alone() -> None:
    for case in EVERY:
        found = ending(*case)
        assert (found.exit_code == ExitCode.OK) == (found.state is RunState.COMPLETED)
        assert found.exit_code in {ExitCode.OK, ExitCode.VERDICT_FAIL, ExitCode.NOT_MEASURED}


def test_exit_code_one_means_a_verdict_is_fail() -> None:
    failing = {case for case in EVERY if ending(*case).exit_code == ExitCode.VERDICT_FAIL}
    assert failing == {(Purpose.ADAPT, AdaptationState.DONE, Correctness.FAILING)}


@pytest.mark.parametrize(
    ("verdict", "state", "name", "exit_code", "correctness"),
    [
        (Verdict.PASS, RunState.COMPLETED, "Verified", ExitCode.OK, Correctness.VERIFIED),
        (Verdict.FAIL, RunState.FAILED, "Failing", ExitCode.VERDICT_FAIL, Correctness.FAILING),
        (Verdict.ERROR, RunState.FAILED, "Error", ExitCode.NOT_MEASURED, Correctness.UNKNOWN),
        (Verdict.NOT_RUN, RunState.FAILED, "NotMeasured", ExitCode.NOT_MEASURED, Correctness.UNKNOWN),
    ],
)
def test_the_table(verdict: Verdict, state: RunState, name: str, exit_code: ExitCode, correctness: Correctness) -> None:
    found = VERDICT_ENDINGS[verdict]
    assert (found.state, found.name, found.exit_code, found.correctness) == (state, name, exit_code, correctness)


def test_a_step_is_coloured_by_the_same_table_but_grey_where_nobody_ran_it() -> None:
    assert {verdict for verdict in Verdict if STEP_ENDINGS[verdict] is not VERDICT_ENDINGS[verdict]} == {Verdict.NOT_RUN}
    states = {verdict: step_state(StepReport("one", "why", verdict=verdict)) for verdict in Verdict}
    assert {verdict: (state.type.value, state.message) for verdict, state in states.items() if state} == {
        Verdict.PASS: ("COMPLETED", "why"),
        Verdict.FAIL: ("FAILED", "why"),
        Verdict.ERROR: ("FAILED", "why"),
        Verdict.NOT_RUN: ("CANCELLED", "why"),
    }
    assert step_state(StepReport("one", "judges nothing")) is None


def test_each_correctness_keeps_its_own_column() -> None:
    assert {correctness: found.correctness for correctness, found in CORRECTNESS_ENDINGS.items()} == {
        correctness: correctness for correctness in Correctness
    }


def test_blocked_waits_visibly_for_the_operator() -> None:
    found = ending(Purpose.ADAPT, AdaptationState.BLOCKED, Correctness.UNKNOWN)
    assert (found.state, found.name, found.exit_code) == (RunState.FAILED, "Blocked", ExitCode.NOT_MEASURED)


@pytest.mark.parametrize("case", [*(ending(*case) for case in EVERY), SUPERSEDED])
def test_prefect_shows_the_same_kind_and_name(case: object) -> None:
    state = prefect_state(case, "why")  # type: ignore[arg-type]
    assert (state.type.value, state.name, state.message) == (case.state.value, case.name, "why")  # type: ignore[attr-defined]
    assert state.is_final()
