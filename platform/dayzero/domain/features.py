"""What an entry proves: its four layers in a line each, and the features that were shown."""

from dataclasses import dataclass

from dayzero.domain.verdict import CheckLayer, Grade, Verdict


@dataclass(frozen=True, slots=True)
class Interval:
    """The interval of a figure that a check states, in the check's own unit."""

    check: str
    figure: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LayerVerdict:
    """One layer of verification: the verdict over its checks, the weakest grade of the evidence, samples over all of them, and
    the intervals that they state; `missing` are required checks of the layer that are not shown."""

    layer: CheckLayer
    verdict: Verdict
    grade: Grade
    n: int
    checks: int
    intervals: tuple[Interval, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that was tried: what (dtype, quantization, parallelism, context_tokens, cache_dtype, fine_tune, engine), which
    one, and what its check says; `check` names it."""

    feature: str
    value: str
    verdict: Verdict
    grade: Grade
    check: str
