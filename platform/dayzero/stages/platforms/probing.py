"""Verdicts on probed operators, and the measured manifest that they make."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dayzero.domain.manifests import DtypeFact, ManifestOrigin
from dayzero.domain.operators import OperatorManifest, OperatorSupport
from dayzero.domain.probing import DeviceProbe, OperatorProbe, ProbeOutcome, ProbeSample
from dayzero.domain.verdict import Grade, Verdict
from dayzero.stages.precision.limits import FACTOR_MEAN, RELATIVE_TOLERANCE

REFERENCE_DTYPE = "float64"
"""What everything is compared with; an operator in it is run and timed, and not compared with itself."""


def limit_of(dtype: str) -> float | None:
    """The largest error over rms that is no finding: factor × the dtype's relative tolerance (design, precision).

    None for dtypes whose results are compared exactly.
    """
    tolerance = RELATIVE_TOLERANCE.get(dtype)
    return None if tolerance is None else FACTOR_MEAN * tolerance


def judge_probe(probe: OperatorProbe) -> DtypeFact:
    """The verdict on one operator in one dtype."""
    if probe.outcome in (ProbeOutcome.RAISED, ProbeOutcome.KILLED):
        return DtypeFact(probe.dtype, Verdict.ERROR, why=probe.why, crashed=probe.outcome is ProbeOutcome.KILLED)
    if probe.outcome is ProbeOutcome.UNSAMPLED:
        return DtypeFact(probe.dtype, Verdict.NOT_RUN, why=probe.why)
    calls = len(probe.samples)
    if probe.outcome is ProbeOutcome.UNCOMPARED:
        return DtypeFact(probe.dtype, Verdict.NOT_RUN, calls, time_s=probe.time_s, why=probe.why)
    if probe.dtype == REFERENCE_DTYPE:
        why = f"{REFERENCE_DTYPE} is what the others are compared with"
        return DtypeFact(probe.dtype, Verdict.NOT_RUN, calls, time_s=probe.time_s, why=why)
    compared = [sample for sample in probe.samples if sample.n or sample.exact_n or sample.nonfinite]
    if not compared:
        why = "no result of it has a finite value in float64, or is a dense tensor"
        return DtypeFact(probe.dtype, Verdict.NOT_RUN, calls, time_s=probe.time_s, why=why)
    limit = limit_of(probe.dtype)
    worst = max(compared, key=lambda sample: _badness(sample, limit))
    complaint = _complaint(worst, limit)
    return DtypeFact(
        probe.dtype, Verdict.FAIL if complaint else Verdict.PASS, len(compared), worst.rms_relative, limit, worst.distribution,
        probe.time_s, complaint,
    )  # fmt: skip


def _badness(sample: ProbeSample, limit: float | None) -> float:
    """How far a call is from what it should be, to find the worst: above 1 it is a finding."""
    if sample.nonfinite or sample.mismatched:
        return float("inf")
    return (sample.rms_relative or 0.0) / (limit or 1.0)


def _complaint(sample: ProbeSample, limit: float | None) -> str | None:
    if sample.nonfinite:
        return f"{sample.nonfinite} of {sample.n} elements are NaN or infinite and are not in float64"
    if sample.mismatched:
        return f"{sample.mismatched} of {sample.exact_n} integers or truth values differ from those of float64"
    if limit is not None and sample.rms_relative is not None and sample.rms_relative > limit:
        return f"error over rms {sample.rms_relative:.3g}, limit {limit:.3g}"
    return None


def measured_manifest(declared: OperatorManifest, probe: DeviceProbe) -> OperatorManifest:
    """The declared manifest with what running showed: grade measured for an operator that ran in one dtype at least.

    What nobody could run stays declared, with the reason in its facts. Numerics worse than their limit are a constraint, in
    words and numbers; a dtype in which it raised is in the facts, and no use in it is covered.
    """
    facts: dict[str, list[DtypeFact]] = {}
    for found in probe.operators:
        facts.setdefault(found.operator, []).append(judge_probe(found))
    return replace(
        declared,
        operators=tuple(_measured(support, tuple(facts.get(support.name, ()))) for support in declared.operators),
        origin=ManifestOrigin.PROBE,
        source=f"{len(probe.operators)} operators × dtypes run on the device in {probe.took_s:.0f} s",
        collectives=probe.collectives,
        unknown=(*declared.unknown, *probe.notes, *_unreached(probe)),
    )


def _unreached(probe: DeviceProbe) -> tuple[str, ...]:
    return (f"{len(probe.skipped)} operators were not reached in the time given",) if probe.skipped else ()


def _measured(support: OperatorSupport, facts: tuple[DtypeFact, ...]) -> OperatorSupport:
    ran = any(fact.time_s is not None for fact in facts)
    worse = tuple(f"numerics in {fact.dtype}: {fact.why}" for fact in facts if fact.verdict is Verdict.FAIL)
    return replace(
        support,
        grade=Grade.MEASURED if ran else support.grade,
        constraints=(*support.constraints, *worse),
        facts=facts,
    )


@dataclass(frozen=True, slots=True)
class ProbeSummary:
    """A probing in numbers: operators, operators × dtypes, by verdict, those worse than their limit, why others were not."""

    operators: int
    pairs: int
    verdicts: Mapping[str, int]
    worse: tuple[tuple[str, DtypeFact], ...]
    not_run: Mapping[str, int]


def summary_of(manifest: OperatorManifest) -> ProbeSummary:
    """The numbers of a measured manifest, the worst numerics first."""
    pairs = [(support.name, fact) for support in manifest.operators for fact in support.facts]
    worse = [(name, fact) for name, fact in pairs if fact.verdict is Verdict.FAIL]
    worse.sort(key=lambda pair: (-((pair[1].worst_error or float("inf")) / (pair[1].limit or 1.0)), pair[0], pair[1].dtype))
    return ProbeSummary(
        operators=len({name for name, _ in pairs}),
        pairs=len(pairs),
        verdicts={verdict.value: sum(fact.verdict is verdict for _, fact in pairs) for verdict in Verdict},
        worse=tuple(worse),
        not_run=_counted(fact.why or "" for _, fact in pairs if fact.verdict is Verdict.NOT_RUN),
    )


def _counted(reasons: Iterable[str]) -> dict[str, int]:
    """Reasons with their numbers, the most frequent first; figures and quotes in them do not make another reason."""
    counts: dict[str, int] = {}
    for reason in reasons:
        short = reason.partition(":")[0]
        counts[short] = counts.get(short, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
