"""The climb: the smallest rung first; the first that fails stops it, and says why for all above."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dayzero.domain.observations import CheckName
from dayzero.domain.plan import ParallelPlan, Rung, RungWeights
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import SEVERITY, Check, CheckLayer, Grade, Verdict
from dayzero.stages.planning.ladder import steps_to

STOPPING = (Verdict.FAIL, Verdict.ERROR)


@dataclass(frozen=True, slots=True)
class Climbed:
    """A rung, as it is called, and the worst that was found on it."""

    name: str
    verdict: Verdict
    reason: str


def parallel_rungs(plan: ParallelPlan) -> tuple[Rung, ...]:
    """The rungs of a plan that take several devices; those that lead to its degrees where the plan lists none."""
    rungs = plan.rungs or rungs_to(plan.degrees)
    return tuple(rung for rung in rungs if rung.degrees.world > 1)


def rungs_to(degrees: Degrees) -> tuple[Rung, ...]:
    """The rungs that lead to the degrees, whatever they need."""
    return tuple(Rung(step, 0, 0, RungWeights.REAL, why) for step, why in steps_to(degrees))


def why_not_climbed(rung: Rung, devices: int, stopped: Climbed | None) -> str | None:
    """Why a rung is not run; None when it is."""
    if stopped is not None:
        return f"the climb stopped at {stopped.name}: {stopped.reason}"
    if rung.degrees.world > devices:
        return f"{rung.degrees} takes {rung.degrees.world} devices, there are {devices} here"
    if rung.weights is RungWeights.DUMMY:
        return (
            f"only {rung.layers} of {rung.of_layers} layers fit {rung.degrees} here: its agreement is shown at full depth above"
        )
    return None


def climbed(name: str, checks: Iterable[Check]) -> Climbed:
    """What a rung came to: its worst check; not_run where it has none."""
    worst = min(checks, key=lambda check: SEVERITY.index(check.verdict), default=None)
    if worst is None:
        return Climbed(name, Verdict.NOT_RUN, "nothing was checked")
    return Climbed(name, worst.verdict, worst.reason)


def stops(rung: Climbed) -> bool:
    """Whether nothing above the rung is worth running."""
    return rung.verdict in STOPPING


def ladder_check(plan: Degrees, rungs: Sequence[Climbed]) -> Check:
    """The whole climb in one check: pass when every rung that counts passes, and the first reason when one does not."""
    passed = [rung for rung in rungs if rung.verdict is Verdict.PASS]
    stopped = next((rung for rung in rungs if stops(rung)), None)
    if stopped is not None:
        verdict, reason = stopped.verdict, f"stopped at {stopped.name}: {stopped.reason}"
    elif rungs and rungs[-1].verdict is Verdict.PASS:
        verdict, reason = Verdict.PASS, "climbed " + ", ".join(rung.name for rung in passed)
    else:
        verdict = Verdict.NOT_RUN
        reason = f"{rungs[-1].name}: {rungs[-1].reason}" if rungs else "there is no rung to climb"
    return Check(
        CheckLayer.MEMORY_PARALLELISM, CheckName.PARALLEL_LADDER.value, str(plan), verdict, Grade.MEASURED, reason,
        measured=float(len(passed)), tolerance=float(len(rungs)), unit="rungs", n=len(rungs),
        numbers={rung.name: rung.verdict.value for rung in rungs},
    )  # fmt: skip
