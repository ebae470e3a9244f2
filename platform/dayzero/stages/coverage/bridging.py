"""From a gap to what is asked of a runner, and from what was observed to the bridge, or to the reason why there is none."""

from collections.abc import Iterable, Mapping, Sequence

from dayzero.domain.bridges import Bridge, BridgeCase, BridgesObserved, CallShape, Candidate, GapTask
from dayzero.domain.observations import TensorError
from dayzero.domain.operators import Gap, OperatorInventory
from dayzero.domain.verdict import Verdict
from dayzero.stages.precision import limits as precision

LARGEST_CALLS = 8
"""Different calls of one operator that a candidate is verified on; each is drawn from several distributions."""


def task_for(gap: Gap, inventory: OperatorInventory) -> GapTask:
    """The operator with the model's own calls of it, the most frequent first."""
    counts: dict[CallShape, int] = {}
    for use in inventory.graph:
        if use.name == gap.operator:
            call = CallShape(use.dtypes, use.shape_class)
            counts[call] = counts.get(call, 0) + use.count
    ordered = sorted(counts, key=lambda call: (-counts[call], call.shape_class))
    return GapTask(gap.operator, tuple(ordered[:LARGEST_CALLS]), dict(inventory.symbols))


def bridgeable(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Gaps that are single operators of torch: kernels of libraries and the backward of a composite are none."""
    return tuple(gap for gap in gaps if gap.operator.startswith("aten.") and gap.operator.count(".") == 2)


def judge_bridges(observed: BridgesObserved, platform: str, evidence: tuple[str, ...]) -> Bridge:
    """The first candidate that is as close to float64 as the host's own operator is on every input; else all the reasons."""
    tried: list[str] = []
    failed = False
    for candidate in observed.candidates:
        name = f"{candidate.recipe.kind.value} ({candidate.recipe.origin})"
        problem = candidate.why_not or _problem(candidate)
        if problem is None:
            return _bridge(candidate, platform, evidence, (*tried, f"{name}: verified"))
        failed = failed or not candidate.why_not
        tried.append(f"{name}: {problem}")
    reason = "; ".join(tried) or "nothing was found to be tried"
    verdict = Verdict.FAIL if failed else Verdict.NOT_RUN
    return Bridge(observed.operator, platform, verdict, f"no bridge: {reason}", evidence=evidence, tried=tuple(tried))


def verified(bridges: Iterable[Bridge]) -> Mapping[str, Bridge]:
    """Those that passed, by operator."""
    return {bridge.operator: bridge for bridge in bridges if bridge.verdict is Verdict.PASS}


def _bridge(candidate: Candidate, platform: str, evidence: tuple[str, ...], tried: tuple[str, ...]) -> Bridge:
    worst = max(candidate.cases, key=_excess)
    line = _line(worst)
    dtypes = tuple(sorted({dtype for case in candidate.cases for dtype in case.dtypes}))
    figures = f"largest error {line.measured or 0.0:.3g}, tolerance {line.tolerance:.3g}" if line else "integers equal"
    reason = f"{len(candidate.cases)} inputs agree with float64 ({figures})"
    return Bridge(
        candidate.recipe.operator, platform, Verdict.PASS, reason, candidate.recipe, candidate.source, dtypes,
        line.measured if line else None, line.tolerance if line else None, len(candidate.cases),
        sum(case.n for case in candidate.cases), candidate.bridge_s, candidate.composite_s, evidence, tried,
    )  # fmt: skip


def _problem(candidate: Candidate) -> str | None:
    """What is wrong with it, with the numbers of the worst input; None when nothing is."""
    if not candidate.cases:
        return "no input could be made for it"
    wrong = [(case, why) for case in candidate.cases if (why := _wrong(case)) is not None]
    if not wrong:
        return None
    case, why = max(wrong, key=lambda pair: _excess(pair[0]))
    return f"{len(wrong)} of {len(candidate.cases)} inputs fail; {case.inputs} {case.shapes} in {', '.join(case.dtypes)}: {why}"


def _wrong(case: BridgeCase) -> str | None:
    if case.raised:
        return f"it raised {case.raised}"
    if case.exact is False:
        return "an integer result differs"
    line = _line(case)
    if line is None:
        return None
    if line.stands_out:
        return line.why
    if case.ratio_max is not None and case.ratio_max > precision.FACTOR_MAX:
        return f"largest element error is {case.ratio_max:.3g} times the native one, limit {precision.FACTOR_MAX:g}"
    return None


def _line(case: BridgeCase) -> precision.Line | None:
    """The mean line of a floating result; None where the results are integers alone."""
    dtype = next((name for name in case.dtypes if name in precision.RELATIVE_TOLERANCE), None)
    if dtype is None or case.native_error is None:
        return None
    target = TensorError(case.n, case.error, None, None, case.nonfinite)
    return precision.mean_line(target, TensorError(case.n, case.native_error, None, None), dtype)


def _excess(case: BridgeCase) -> float:
    """How far a case is beyond its tolerance, for choosing the worst."""
    line = _line(case)
    if case.raised or case.exact is False:
        return float("inf")
    return 0.0 if line is None else (line.measured or 0.0) / line.tolerance


def bridge_rows(bridges: Sequence[Bridge]) -> tuple[dict[str, str | int | float | None], ...]:
    """Bridges as table rows."""
    return tuple(
        {
            "operator": bridge.operator,
            "verdict": bridge.verdict.value,
            "kind": bridge.recipe.kind.value if bridge.recipe else None,
            "error": bridge.worst_error,
            "tolerance": bridge.tolerance,
            "inputs": bridge.cases,
            "time": bridge.bridge_s,
            "composite": bridge.composite_s,
            "reason": bridge.reason,
        }
        for bridge in bridges
    )
