"""Verdict on downstream tasks: the target's answers against the reference's, paired item by item."""

from dayzero.domain.evaluation import FindingOutcome, PairedFinding
from dayzero.domain.observations import CheckName
from dayzero.domain.observed_tasks import TasksObserved, paired
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict
from dayzero.stages.evaluation.paired import compare

SIGHT = 0.1
"""The difference of shares that a set of questions must be able to find: reported drifts of backends are that large (0.643
against 0.541 of MMMU, sglang issue 18481). A set that cannot see it shows nothing, and does not pass."""


def tasks_check(observed: TasksObserved, rung: str, evidence: tuple[str, ...] = ()) -> tuple[Check, tuple[Measurement, ...]]:
    """Fails where the target answers worse by the exact paired test, whatever every operator and layer said."""
    pairs = paired(observed.items)
    found = compare(pairs)
    verdict, reason = _verdict(observed, found)
    check = Check(
        CheckLayer.END_TO_END,
        CheckName.TASKS.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=found.p_value,
        tolerance=found.alpha,
        unit="exact paired p",
        n=pairs.n,
        evidence=evidence,
        numbers={
            "only_reference": pairs.only_reference,
            "only_target": pairs.only_target,
            "both": pairs.both,
            "neither": pairs.neither,
            "unanswered": pairs.unanswered,
            "difference": found.difference,
            "difference_low": found.difference_interval.low if found.difference_interval else None,
            "difference_high": found.difference_interval.high if found.difference_interval else None,
            "smallest_difference": found.smallest_difference,
            "largest_likelihood_difference": observed.largest_difference,
            "harness": f"{observed.harness} {observed.harness_version}",
            "tasks": ", ".join(observed.tasks),
            "target_path": observed.target_path,
        },
    )
    return check, _measurements(observed)


def _verdict(observed: TasksObserved, found: PairedFinding) -> tuple[Verdict, str]:
    lost = [item for item in observed.items if item.target is None and item.reference is not None]
    doubtful = [item for item in observed.items if item.reference is None]
    if doubtful:
        return Verdict.ERROR, f"the reference's own likelihoods of {len(doubtful)} items are no numbers"
    if lost:
        first = lost[0]
        return Verdict.FAIL, f"the target's likelihoods of {len(lost)} items are no numbers, first {first.task} {first.item}"
    if observed.identical:
        return Verdict.NOT_RUN, "every likelihood is the reference's bit for bit: the target ran the reference's own path"
    if found.outcome is FindingOutcome.UNKNOWN:
        return Verdict.NOT_RUN, found.reason
    if found.outcome is FindingOutcome.FINDING:
        worse = (found.difference or 0.0) < 0
        doubt = "" if worse else "; a target that is better than its reference puts the reference in doubt"
        return (Verdict.FAIL if worse else Verdict.ERROR), f"{found.reason}{doubt}"
    if found.smallest_difference is None or found.smallest_difference > SIGHT:
        return Verdict.NOT_RUN, f"{found.reason}; too few items to find a difference of {SIGHT:g}"
    return Verdict.PASS, found.reason


def _measurements(observed: TasksObserved) -> tuple[Measurement, ...]:
    """The share of right answers of each task, and of all, on the target and in the reference."""
    found = []
    for task in (*observed.tasks, "all"):
        pairs = paired(tuple(item for item in observed.items if task in (item.task, "all")))
        if pairs.n == 0:
            continue
        for run, right in (("target", pairs.target_right), ("reference", pairs.reference_right)):
            conditions: dict[str, int | float | str] = {"task": task, "run": run, "dtype": observed.native_dtype}
            found.append(Measurement("accuracy", right / pairs.n, "1", conditions, pairs.n))
    return tuple(found)
