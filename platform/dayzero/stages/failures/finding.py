"""The failures of one entry: gaps, culprits, and checks that fail or err for no culprit."""

from collections.abc import Iterable, Iterator, Sequence

from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.failures import FailureKind, Symptom
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict

COVERAGE = "operators.coverage"
_BAD = {Verdict.FAIL: FailureKind.FAIL, Verdict.ERROR: FailureKind.ERROR}


def failures_of(entry: CompatibilityEntry, sampled: Sequence[CallFact] = ()) -> tuple[Symptom, ...]:
    """Every failure once; `sampled` (of the stack's manifest) tells dtypes and shapes of operators that are wrong on drawn
    inputs. What was only predicted is no failure, but for an operator that the platform does not offer."""
    found = [*_gaps(entry), *_culprits(entry, sampled), *_checks(entry)]
    return tuple(dict.fromkeys(found))


def _gaps(entry: CompatibilityEntry) -> Iterator[Symptom]:
    for operator in entry.gaps:
        yield _symptom(entry, FailureKind.MISSING, COVERAGE, operator, f"{entry.key.platform} does not offer {operator}")


def _culprits(entry: CompatibilityEntry, sampled: Sequence[CallFact]) -> Iterator[Symptom]:
    """Where faults start, an operator each; with what drawn inputs showed of it."""
    wrong = {fact.operator: fact for fact in sampled if fact.verdict in _BAD}
    for culprit in entry.culprits:
        if culprit.operator is None:
            continue
        said = f"error {culprit.error:.3g}, allowed {culprit.tolerance:.3g} in {culprit.module}"
        fact = wrong.get(culprit.operator)
        if fact is None:
            yield _symptom(entry, FailureKind.FAIL, "", culprit.operator, said)
            continue
        said = f"{said}; on {fact.distribution or 'drawn'} inputs: {fact.why}"
        yield _symptom(entry, FailureKind.FAIL, "", culprit.operator, said, fact.dtypes, fact.shape_class)


def _checks(entry: CompatibilityEntry) -> Iterator[Symptom]:
    culprits = [culprit.operator for culprit in entry.culprits if culprit.operator]
    for check in entry.checks:
        kind = _BAD.get(check.verdict)
        if kind is None or check.grade is Grade.PREDICTED or (check.check == COVERAGE and entry.gaps):
            continue
        lacking = _named(check)
        if lacking:
            yield from (_symptom(entry, kind, check.check, operator, check.reason) for operator in lacking)
        elif not _explained(check, culprits):
            yield _symptom(entry, kind, check.check, None, check.reason)


def _explained(check: Check, culprits: Sequence[str]) -> bool:
    """Whether a failing check says no more than which operator is wrong."""
    inherits = check.layer is CheckLayer.PRECISION and bool(culprits)
    return check.verdict is Verdict.FAIL and (inherits or any(operator in check.reason for operator in culprits))


def _named(check: Check) -> Sequence[str]:
    """Operators that a check itself names as those that do not run on the target."""
    missing = check.numbers.get("missing")
    return [name.strip() for name in missing.split(",")] if isinstance(missing, str) else []


def _symptom(
    entry: CompatibilityEntry,
    kind: FailureKind,
    check: str,
    operator: str | None,
    said: str,
    dtypes: Iterable[str] = (),
    shape_class: str = "",
) -> Symptom:
    key = entry.key
    return Symptom(kind, check, operator, tuple(dtypes), shape_class, key.platform, key.stack_fingerprint, said)
