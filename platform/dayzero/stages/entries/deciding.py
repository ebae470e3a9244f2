"""The decision table: what verdicts make of an entry.

| verdicts of the checks that count                                       | correctness |
|-------------------------------------------------------------------------|-------------|
| any of them fails                                                       | failing     |
| all required ones pass                                                  | verified    |
| end to end passes, a required one is not_run, error or absent           | functional  |
| end to end is not_run, error or absent                                  | unknown     |
| a check fails that somebody waived                                      | as if it had not been run, and never verified |

The image, serving, cache and (for inference) fine-tune checks do not count: they have columns of their own. The cache check of
a plan that keeps its cache in 8 bits does. A check whose
evidence is only predicted decides nothing, in either direction: it is as if it had not been run. `weights.integrity` is one of
the required ones: of weights that nobody compared with what their release states, nothing is verified.
"""

from collections.abc import Iterable

from dayzero.domain.entry import CompatibilityEntry, Correctness, DayZeroClock, EntryKey, Freshness, Lifecycle, Performance
from dayzero.domain.findings import Finding
from dayzero.domain.operators import CoverageReport
from dayzero.domain.plan import PlanReport
from dayzero.domain.verdict import Check, Culprit, Grade, Measurement, Mode, Verdict, VerificationReport
from dayzero.domain.waivers import Waiver
from dayzero.errors import BadInputError
from dayzero.stages.entries.checks import INTEGRITY, coverage_check, integrity_check, plan_check, weights_check
from dayzero.stages.entries.left import REHEARSAL, left_for_the_day, rehearsal_sentence
from dayzero.stages.entries.required import ENDS, METHODS, Requirement, requirements
from dayzero.stages.entries.waiving import applied, waived_sentence

__all__ = [
    "coverage_check",
    "derive_entry",
    "integrity_check",
    "plan_check",
    "predicted_entry",
    "weights_check",
]

PERFORMANCE_NAMES = ("ttft", "tpot", "throughput", "tokens_per_s")
"""What the name of a measurement starts with when it is about performance (memory is not)."""

NO_CLOCK = DayZeroClock()
"""A day-0 clock on which nothing has happened."""

_GRADES = (Grade.PREDICTED, Grade.DECLARED, Grade.MEASURED)
NAMED = 2
"""How many checks a sentence names before it says all."""
_BY = {Grade.DECLARED: " by the platform's operator manifest"}
ABOUT_US = ("memory.model",)
"""Checks of what dayzero predicts: a wrong prediction says nothing against the model."""

_COLUMNS = {"image": "image.", "serving": "serving.", "fine_tune": "fine_tune.", "cache": "cache."}
_UNMEASURED = (Verdict.NOT_RUN, Verdict.ERROR)


def derive_entry(
    key: EntryKey,
    *,
    mode: Mode,
    coverage: CoverageReport | None,
    report: VerificationReport | None,
    plan: PlanReport | None,
    lifecycle: Lifecycle = Lifecycle.DONE,
    blocked_reason: str | None = None,
    clock: DayZeroClock = NO_CLOCK,
    bundle: str | None = None,
    waivers: tuple[Waiver, ...] = (),
) -> CompatibilityEntry:
    """The entry that follows from the verdicts by the decision table above.

    `report` is None where nothing was verified; `blocked_reason` makes the lifecycle blocked; `waivers` are those in force.
    The grade is the weakest evidence that the correctness rests on. BadInputError when key, mode, coverage and report are not
    about the same thing.
    """
    _same_subject(key, mode, coverage, report)
    checks = _with_coverage(report.checks if report else (), coverage)
    answered = applied((check for check in checks if counts(check, key)), waivers)
    correctness, missing, deciding = _judge(key, checks, frozenset(check.check for check, _ in answered))
    measurements = report.measurements if report else ()
    culprits = report.culprits if report else ()
    reason = _reason(correctness, missing, deciding, culprits, plan)
    if answered:
        reason = f"{reason}; {waived_sentence(answered)}"
    used = tuple({one.id: one for _, one in answered}.values())
    return CompatibilityEntry(
        key=key,
        method=METHODS[mode],
        lifecycle=Lifecycle.BLOCKED if blocked_reason else lifecycle,
        correctness=correctness,
        performance=_performance(measurements),
        freshness=Freshness.CURRENT,
        grade=_weakest(deciding),
        evidence=evidence_of(deciding),
        reason=f"blocked: {blocked_reason}" if blocked_reason else f"{reason}{_unverified(correctness, missing, checks)}",
        checks=checks,
        measurements=measurements,
        culprits=culprits,
        gaps=tuple(gap.operator for gap in coverage.gaps) if coverage else (),
        missing_checks=missing,
        columns={name: _column(checks, prefix).value for name, prefix in _COLUMNS.items()},
        bundle=bundle,
        sample_text=report.sample_text if report else None,
        clock=clock,
        waivers=used,
        waived_until=min((one.until for one in used), default=None),
    )


def predicted_entry(
    key: EntryKey,
    *,
    coverage: CoverageReport | None,
    plan: PlanReport | None,
    lifecycle: Lifecycle = Lifecycle.PREDICTED,
    blocked_reason: str | None = None,
    clock: DayZeroClock = NO_CLOCK,
    recorded: tuple[Check, ...] = (),
    left_out: tuple[Finding, ...] = (),
) -> CompatibilityEntry:
    """What can be said before the weights: coverage, plan and rehearsal, correctness unknown, the grade predicted.

    `recorded` are the pre-stage's own checks (its rehearsal, and coverage where it is not known); `left_out` tells what the
    rehearsal could not have. What is left for the day follows from all of them.
    """
    rehearsed = tuple(check for check in recorded if check.check.startswith(REHEARSAL))
    unknown = tuple(check for check in recorded if check not in rehearsed)
    known = unknown if coverage is None else (coverage_check(coverage),)
    planned = () if plan is None else (plan_check(plan),)
    required = tuple(requirement.name for requirement in requirements(key))
    checks = (*known, *planned, *rehearsed)
    said = [rehearsal_sentence(rehearsed), *(check.reason for check in (*known, *planned))]
    return CompatibilityEntry(
        key=key,
        method=METHODS[key.mode],
        lifecycle=Lifecycle.BLOCKED if blocked_reason else lifecycle,
        correctness=Correctness.UNKNOWN,
        performance=Performance.UNMEASURED,
        freshness=Freshness.CURRENT,
        grade=Grade.PREDICTED,
        evidence=evidence_of(()),
        reason=f"blocked: {blocked_reason}" if blocked_reason else "; ".join(said),
        checks=checks,
        left=left_for_the_day(required, checks, coverage, plan, left_out),
        gaps=tuple(gap.operator for gap in coverage.gaps) if coverage else (),
        missing_checks=required,
        columns=dict.fromkeys(_COLUMNS, Verdict.NOT_RUN.value),
        clock=clock,
    )


def _same_subject(key: EntryKey, mode: Mode, coverage: CoverageReport | None, report: VerificationReport | None) -> None:
    modes = {key.mode, mode} | ({report.mode} if report else set())
    platforms = {key.platform} | ({report.platform} if report else set()) | ({coverage.platform} if coverage else set())
    for what, names in (("modes", modes), ("platforms", platforms)):
        if len(names) > 1:
            raise BadInputError(
                f"one entry of {key.model} cannot be derived from results of several {what}: {', '.join(sorted(names))}."
            )


def _with_coverage(checks: tuple[Check, ...], coverage: CoverageReport | None) -> tuple[Check, ...]:
    if coverage is None or any(check.check == "operators.coverage" for check in checks):
        return checks
    return (coverage_check(coverage), *checks)


def counts(check: Check, key: EntryKey) -> bool:
    """Whether the check decides about correctness of such an entry: of the columns' checks only those that it requires."""
    if check.check in ABOUT_US or check.grade is Grade.PREDICTED:
        return False
    if not check.check.startswith(tuple(_COLUMNS.values())):
        return True
    return any(check.check in requirement.any_of for requirement in requirements(key))


def _judge(
    key: EntryKey, checks: tuple[Check, ...], waived: frozenset[str] = frozenset()
) -> tuple[Correctness, tuple[str, ...], tuple[Check, ...]]:
    """The correctness, the names of requirements that are not shown, and the checks it rests on."""
    counting = tuple(check for check in checks if counts(check, key))
    shown = {requirement: _shown(requirement, counting) for requirement in requirements(key)}
    missing = tuple(requirement.name for requirement, by in shown.items() if not by)
    failed = tuple(check for check in counting if check.verdict is Verdict.FAIL and check.check not in waived)
    if failed:
        return Correctness.FAILING, missing, failed
    passed = tuple(check for by in shown.values() for check in by)
    if not missing and not waived:
        return Correctness.VERIFIED, (), passed
    if any(check.check in ENDS for check in passed):
        return Correctness.FUNCTIONAL, missing, passed
    return Correctness.UNKNOWN, missing, ()


def _shown(requirement: Requirement, checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The checks that show the requirement; none when one of them errs, or when no alternative passes wherever it ran."""
    about = [check for check in checks if check.layer is requirement.layer and check.check in requirement.any_of]
    if any(check.verdict is Verdict.ERROR for check in about):
        return ()
    shown: list[Check] = []
    for name in requirement.any_of:
        runs = [check for check in about if check.check == name]
        at_rung = not requirement.rung or any(check.rung == requirement.rung for check in runs)
        if runs and at_rung and all(check.verdict is Verdict.PASS for check in runs):
            shown += runs
    return tuple(shown)


def _performance(measurements: tuple[Measurement, ...]) -> Performance:
    measured = any(measurement.name.startswith(PERFORMANCE_NAMES) for measurement in measurements)
    return Performance.MEASURED if measured else Performance.UNMEASURED


def _weakest(checks: Iterable[Check]) -> Grade:
    return min((check.grade for check in checks), key=_GRADES.index, default=Grade.PREDICTED)


def evidence_of(deciding: Iterable[Check]) -> str:
    """What each grade refers to: an entry that rests on one declaration and six measurements is no mere declaration."""
    by_grade: dict[Grade, list[str]] = {}
    for check in deciding:
        names = by_grade.setdefault(check.grade, [])
        names += [] if check.check in names else [check.check]
    if not by_grade:
        return "predicted: nothing that decides was run"
    strongest = max(by_grade, key=_GRADES.index)
    rest = by_grade.pop(strongest)
    weaker = [f"{' and '.join(names)} {grade.value}{_BY.get(grade, '')}" for grade, names in by_grade.items()]
    whose = "the rest" if weaker else " and ".join(rest) if len(rest) <= NAMED else "all"
    return "; ".join([*weaker, f"{whose} {strongest.value}{_BY.get(strongest, '')}"])


def _column(checks: tuple[Check, ...], prefix: str) -> Verdict:
    """One verdict for a column of its own: the worst that was found, and not_run while any of it was not run."""
    found = {check.verdict for check in checks if check.check.startswith(prefix)}
    for worst in (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_RUN):
        if worst in found:
            return worst
    return Verdict.PASS if found else Verdict.NOT_RUN


def _reason(
    correctness: Correctness,
    missing: tuple[str, ...],
    deciding: tuple[Check, ...],
    culprits: tuple[Culprit, ...],
    plan: PlanReport | None,
) -> str:
    """One sentence for people, the conclusion first; each check keeps its own reason in full."""
    listed = ", ".join(missing)
    if correctness is Correctness.FAILING:
        names = " and ".join(f"{check.check} at {check.rung}" for check in deciding)
        if culprits:
            return f"wrong at {_place(culprits[0])}; {names} {'fails' if len(deciding) == 1 else 'fail'}"
        return f"{names} {'fails' if len(deciding) == 1 else 'fail'}: {'; '.join(check.reason for check in deciding)}"
    if correctness is Correctness.VERIFIED:
        return f"all {len(deciding)} required checks pass"
    if correctness is Correctness.FUNCTIONAL:
        return f"end to end passes; not shown: {listed}" if listed else "end to end passes"
    unplanned = "; no plan fits" if plan is not None and plan.plan is None else ""
    return f"not shown: {listed}{unplanned}"


def _unverified(correctness: Correctness, missing: tuple[str, ...], checks: tuple[Check, ...]) -> str:
    """What is said beside, where nobody checked the weights that all else was measured on."""
    if correctness is Correctness.FAILING or INTEGRITY not in missing:
        return ""
    reasons = [check.reason for check in checks if check.check == INTEGRITY and check.verdict is not Verdict.PASS]
    return "".join(f"; {reason}" for reason in reasons[:1])


def _place(culprit: Culprit) -> str:
    layer = f"layer {culprit.layer_index} ({culprit.module})" if culprit.layer_index is not None else culprit.module
    operator = f", operator {culprit.operator}" if culprit.operator else ""
    operator += f", rank {culprit.rank}" if culprit.rank is not None else ""
    return f"{layer}{operator}: error {culprit.error:.3g}, allowed {culprit.tolerance:.3g}"
