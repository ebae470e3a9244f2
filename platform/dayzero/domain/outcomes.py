"""One table: how work ended → what the orchestrator shows → exit code → correctness column."""

from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.domain.entry import Correctness
from dayzero.domain.verdict import Verdict


class RunState(StrEnum):
    """The orchestrator's kinds of final states; only COMPLETED is green."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run ends for people: kind and name of its final state, the command's exit code, the correctness column.

    Exit codes are those of dayzero.errors.ExitCode: 0 done and passing, 1 a verdict is fail, 3 could not be measured.
    """

    state: RunState
    name: str
    exit_code: int
    correctness: Correctness


VERDICT_ENDINGS: dict[Verdict, Ending] = {
    Verdict.PASS: Ending(RunState.COMPLETED, "Verified", 0, Correctness.VERIFIED),
    Verdict.FAIL: Ending(RunState.FAILED, "Failing", 1, Correctness.FAILING),
    Verdict.ERROR: Ending(RunState.FAILED, "Error", 3, Correctness.UNKNOWN),
    Verdict.NOT_RUN: Ending(RunState.FAILED, "NotMeasured", 3, Correctness.UNKNOWN),
}
"""A verdict over everything that is required."""

STEP_ENDINGS: dict[Verdict, Ending] = {
    **VERDICT_ENDINGS,
    Verdict.NOT_RUN: Ending(RunState.CANCELLED, "NotRun", 3, Correctness.UNKNOWN),
}
"""One step's verdict: the same table, but what nobody ran is grey. Whether it was required, the end of the whole run says."""

FUNCTIONAL = Ending(RunState.FAILED, "FunctionalOnly", 3, Correctness.FUNCTIONAL)
STAGED = Ending(RunState.COMPLETED, "Staged", 0, Correctness.UNKNOWN)
SUPERSEDED = Ending(RunState.CANCELLED, "Superseded", 3, Correctness.UNKNOWN)

STATE_ENDINGS: dict[AdaptationState, Ending] = {
    AdaptationState.REQUESTED: Ending(RunState.FAILED, "NotFinished", 3, Correctness.UNKNOWN),
    AdaptationState.RUNNING: Ending(RunState.FAILED, "NotFinished", 3, Correctness.UNKNOWN),
    AdaptationState.BLOCKED: Ending(RunState.FAILED, "Blocked", 3, Correctness.UNKNOWN),
    AdaptationState.FAILED: VERDICT_ENDINGS[Verdict.ERROR],
    AdaptationState.CANCELLED: Ending(RunState.CANCELLED, "Cancelled", 3, Correctness.UNKNOWN),
}
"""Adaptation states that no verdict decides; DONE is decided by the correctness column."""

CORRECTNESS_ENDINGS: dict[Correctness, Ending] = {
    Correctness.VERIFIED: VERDICT_ENDINGS[Verdict.PASS],
    Correctness.FAILING: VERDICT_ENDINGS[Verdict.FAIL],
    Correctness.FUNCTIONAL: FUNCTIONAL,
    Correctness.UNKNOWN: VERDICT_ENDINGS[Verdict.NOT_RUN],
}


def ending(purpose: Purpose, state: AdaptationState, correctness: Correctness) -> Ending:
    """How a run ends whose adaptation stands there.

    A pre-stage that is done is STAGED whatever it predicts: it measures nothing.
    """
    if state is AdaptationState.DONE:
        return STAGED if purpose is Purpose.PRESTAGE else CORRECTNESS_ENDINGS[correctness]
    return STATE_ENDINGS[state]
