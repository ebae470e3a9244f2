"""Verdicts on operators over drawn inputs, three ways: the target's error against that of the host's own kernel.

A target that equals the host's kernel bit for bit says nothing there: such calls are counted and never passed. Results below
the smallest normal number that become zero are a behaviour with a name, not an error, but for float16, whose subnormal numbers
(6e-8 to 6e-5) are numbers that models use: gradients lie there (Micikevicius et al. 2018, Mixed Precision Training, 3.2).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dayzero.domain.observations import CheckName, OperatorErrors
from dayzero.domain.sampling import CallFact, CallSample, CallSamples
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict
from dayzero.stages.judging.naming import first_named, layer_index_of
from dayzero.stages.precision import limits as precision

NEEDS_SUBNORMALS = ("float16",)
"""Dtypes in which flushing to zero is wrong, not only worth knowing."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One distribution of one call: how bad (above 1: a finding), measured and tolerance, and what is wrong (None: nothing)."""

    sample: CallSample
    badness: float
    measured: float | None
    tolerance: float | None
    wrong: str | None


def fact_of(call: CallSamples) -> CallFact:
    """What the samples of one call show."""
    raised = [sample for sample in call.samples if sample.why]
    same = sum(sample.identical for sample in call.samples)
    judged = [_best(lines) for lines in _by_distribution(call)]
    worst = max(judged, key=lambda line: line.badness, default=None)
    figures = [sample.target for sample in call.samples if sample.target is not None]
    flushing, saturates = _behaviour(judged, call)
    verdict, why = _verdict(call, raised, judged, worst, same)
    return CallFact(
        call.operator, call.dtypes, call.shape_class, verdict, why,
        samples=len({sample.distribution for sample in call.samples}),
        identical=same,
        distribution=worst.sample.distribution if worst else None,
        worst_error=worst.measured if worst else None,
        limit=worst.tolerance if worst else None,
        ulp_max=max((one.ulp_max for one in figures if one.ulp_max is not None), default=None),
        ulp_beyond=max((one.ulp_beyond for one in figures if one.ulp_beyond is not None), default=None),
        share_within=min((one.share_within for one in figures if one.share_within is not None), default=None),
        flushing=flushing,
        saturates=saturates,
    )  # fmt: skip


def _by_distribution(call: CallSamples) -> Iterable[list[_Line]]:
    """For each distribution that says something, its lines: with subnormal inputs as they are, and taken as zero."""
    told: dict[str, list[_Line]] = {}
    for sample in call.samples:
        found = sample.n or sample.exact_n or sample.nonfinite or sample.otherwise or sample.flushed
        if found and not sample.identical and not sample.why:
            told.setdefault(sample.distribution, []).append(_line(sample, call.roundings))
    return told.values()


def _best(lines: list[_Line]) -> _Line:
    """The reading that fits: the plain one where it is clean, else the one that is less wrong."""
    return min(lines, key=lambda line: (line.wrong is not None, line.sample.inputs_flushed))


def _line(sample: CallSample, roundings: int) -> _Line:
    infinite = float("inf")
    if sample.nonfinite:
        return _Line(sample, infinite, None, None, f"{sample.nonfinite} elements are NaN or infinite, the host's are not")
    if sample.otherwise:
        return _Line(sample, infinite, None, None, f"{sample.otherwise} elements leave the range otherwise than the host's")
    if sample.mismatched:
        return _Line(sample, infinite, None, None, f"{sample.mismatched} of {sample.exact_n} integers or truth values differ")
    if sample.inputs_flushed and sample.dtype in NEEDS_SUBNORMALS:
        return _Line(sample, infinite, None, None, "inputs below the smallest normal number are taken as zero")
    if sample.flushed and sample.dtype in NEEDS_SUBNORMALS:
        return _Line(sample, infinite, None, None, f"{sample.flushed} results below the smallest normal number became zero")
    if sample.target is None or sample.native is None or sample.dtype is None:
        return _Line(sample, 0.0, None, None, None)
    floor = precision.RELATIVE_TOLERANCE[sample.dtype] * (1 + roundings)
    tolerance = precision.FACTOR_MEAN * max(sample.native.rms_relative or 0.0, floor)
    measured = sample.target.rms_relative
    if measured is None:
        return _Line(sample, infinite, None, tolerance, "its error is not finite")
    if measured > tolerance:
        own = f"the host's own kernel: {sample.native.rms_relative or 0.0:.3g}"
        why = f"relative error {measured:.3g}, tolerance {tolerance:.3g} ({own})"
        return _Line(sample, measured / tolerance, measured, tolerance, why)
    ratio, most = sample.ratio_max or 0.0, precision.FACTOR_MAX * (1 + roundings)
    if ratio > most:
        why = f"largest element error is {ratio:.3g} times the host kernel's or its floor, limit {most:g}"
        return _Line(sample, ratio / most, ratio, most, why)
    return _Line(sample, max(measured / tolerance, ratio / most), measured, tolerance, None)


def _verdict(
    call: CallSamples, raised: list[CallSample], judged: list[_Line], worst: _Line | None, same: int
) -> tuple[Verdict, str | None]:
    if worst is not None and worst.wrong is not None:
        also = [line.sample.distribution for line in judged if line.wrong is not None and line is not worst]
        return Verdict.FAIL, worst.wrong + (f"; wrong on {' and '.join(also)} inputs too" if also else "")
    if raised:
        return Verdict.ERROR, f"on {raised[0].distribution} inputs the target raised: {raised[0].why}"
    if not call.samples:
        return Verdict.NOT_RUN, call.why
    if not judged:
        equal = f"equal to the host's own kernel bit for bit on {same} distributions"
        return Verdict.NOT_RUN, equal if same else "no result has a finite value to compare"
    return Verdict.PASS, None


def _behaviour(judged: list[_Line], call: CallSamples) -> tuple[str, bool]:
    """What becomes of subnormal numbers, and whether overflows saturate."""
    inputs = any(line.sample.inputs_flushed for line in judged)
    results = any(line.sample.flushed for line in judged)
    return "inputs" if inputs else "results" if results else "", any(sample.saturated for sample in call.samples)


@dataclass(frozen=True, slots=True)
class _Told:
    """A fact, where the model makes the call ("" for one that is only known), and whether it was known before."""

    fact: CallFact
    module: str
    known: bool


def facts_of(observed: OperatorErrors) -> tuple[CallFact, ...]:
    """What this run adds to what is known of the platform's own library: errors are left out, another run may get further."""
    facts = (fact_of(call) for call in observed.samples if call.shared)
    return tuple(fact for fact in facts if fact.verdict is not Verdict.ERROR)


def distributions_check(
    observed: OperatorErrors, rung: str, evidence: tuple[str, ...] = ()
) -> tuple[Check, tuple[Culprit, ...]]:
    """Every comparable call over drawn inputs, those that are known of the stack by what is known."""
    modules = {(row.operator, row.dtypes, row.shape_class): row.module for row in observed.operators}
    told = [_Told(fact_of(call), call.module, known=False) for call in observed.samples]
    told += [_Told(fact, modules.get(fact.key, ""), known=True) for fact in observed.known]
    counts = Counter(one.fact.verdict for one in told)
    verdict, reason = _whole(observed, told, counts)
    judged = [one.fact for one in told if one.fact.worst_error is not None]
    worst = max(judged, key=lambda fact: (fact.worst_error or 0.0) / (fact.limit or 1.0), default=None)
    left_out = sum(observed.left_out.values())
    check = Check(
        CheckLayer.PRECISION,
        CheckName.OPERATORS_DISTRIBUTIONS.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=worst.worst_error if worst else None,
        tolerance=worst.limit if worst else None,
        unit="error of the worst call",
        n=counts[Verdict.PASS] + counts[Verdict.FAIL],
        evidence=evidence,
        numbers={
            "asked": len(told) + left_out,
            "known": len(observed.known),
            "new": len(observed.samples),
            "left_out": left_out,
            "judged": counts[Verdict.PASS] + counts[Verdict.FAIL],
            "identical": sum(one.fact.identical == one.fact.samples > 0 for one in told),
            "not_comparable": sum(one.fact.verdict is Verdict.NOT_RUN and not one.fact.identical for one in told),
            "flush_subnormals": sum(bool(one.fact.flushing) for one in told),
            "saturate": sum(one.fact.saturates for one in told),
            **{f"left out: {why}": count for why, count in sorted(observed.left_out.items())},
        },
    )
    culprits = {one.fact.operator: _culprit(one) for one in reversed(told) if one.fact.verdict is Verdict.FAIL}
    return check, tuple(reversed(culprits.values()))


def _whole(observed: OperatorErrors, told: list[_Told], counts: Counter[Verdict]) -> tuple[Verdict, str]:
    wrong = [one for one in told if one.fact.verdict is Verdict.FAIL]
    if wrong:
        accused = first_named([_accused(one) for one in wrong])
        operators = len({one.fact.operator for one in wrong})
        return Verdict.FAIL, f"{operators} operators miss float64 where the host's kernels do not: {accused}"
    broken = [one for one in told if one.fact.verdict is Verdict.ERROR]
    if broken:
        return Verdict.ERROR, first_named([f"{one.fact.operator}: {one.fact.why}" for one in broken])
    if not told:
        left = [f"{count} calls: {why}" for why, count in sorted(observed.left_out.items(), key=lambda item: -item[1])]
        return Verdict.NOT_RUN, "; ".join(["no call was run on drawn inputs", *left])
    equal = sum(one.fact.identical > 0 and one.fact.verdict is Verdict.NOT_RUN for one in told)
    known = f"{len(observed.known)} of {len(told)} were known"
    if not counts[Verdict.PASS]:
        same = f"{equal} of {len(told)} calls equal the host's own kernel bit for bit"
        return Verdict.NOT_RUN, f"{same}, which says nothing, and no other could be judged; {known}"
    calls = f"{counts[Verdict.PASS]} calls are as close to float64 as the host's kernels on every distribution"
    behaviour = _named_behaviour([one.fact for one in told])
    return Verdict.PASS, f"{calls}; {equal} equal them bit for bit; {known}{behaviour}"


def _named_behaviour(facts: list[CallFact]) -> str:
    """Findings that are no faults, by name."""
    said = ""
    for flushing, words in (("results", "flushed to zero"), ("inputs", "taken as zero when they come in")):
        operators = sorted({fact.operator for fact in facts if fact.flushing == flushing})
        if operators:
            said += f"; subnormal numbers are {words} by {first_named(operators)}"
    operators = sorted({fact.operator for fact in facts if fact.saturates})
    return said + (f"; overflows give the largest number in {first_named(operators)}" if operators else "")


def _accused(one: _Told) -> str:
    fact = one.fact
    where = f" in {one.module}" if one.module else ""
    known = ", known of this stack" if one.known else ""
    call = f"{fact.operator} ({', '.join(fact.dtypes)}; {fact.shape_class}){where}"
    return f"{call} on {fact.distribution} inputs: {fact.why}{known}"


def _culprit(one: _Told) -> Culprit:
    error = 1.0 if one.fact.worst_error is None else one.fact.worst_error
    return Culprit(layer_index_of(one.module), one.module, one.fact.operator, error, one.fact.limit or 0.0)
