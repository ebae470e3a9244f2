"""How tests let a runner observe: the limits of a run, and a run that must complete."""

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.domain.runs import RunEnd, RunLimits, RunOutcome, RunRequest

LIMITS = RunLimits(timeout_s=280, memory_bytes=8 << 30)


def completed(runner: SubprocessRunner, request: RunRequest) -> RunOutcome:
    """How the run ended, which must be at its end."""
    outcome = runner.run(request, LIMITS)
    assert outcome.end is RunEnd.COMPLETED, outcome.reason + outcome.log_tail
    return outcome
