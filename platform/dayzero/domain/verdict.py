"""Verdicts, checks and measurements: what was verified, how well, and by which evidence."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.canonical import Numbers


class Verdict(StrEnum):
    """The outcome of a check. ERROR: it could not be measured. NOT_RUN: nobody tried, or it does not apply yet."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    NOT_RUN = "not_run"


SEVERITY = (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_RUN, Verdict.PASS)
"""Verdicts from the worst to the best."""


class Grade(StrEnum):
    """How good the evidence is: predicted < declared < measured."""

    PREDICTED = "predicted"
    DECLARED = "declared"
    MEASURED = "measured"


class Mode(StrEnum):
    """What a model is adapted for."""

    INFERENCE = "inference"
    FINE_TUNE = "fine-tune"


class CheckLayer(StrEnum):
    """The four layers of verification."""

    OPERATOR_COVERAGE = "operator_coverage"
    PRECISION = "precision"
    MEMORY_PARALLELISM = "memory_parallelism"
    END_TO_END = "end_to_end"


@dataclass(frozen=True, slots=True)
class Check:
    """One verified statement: measured value against tolerance over n samples, with evidence (artifact sha256).

    `rung` is the plan it ran under (tp1, tp3, pp2 …); `reason` says in one sentence why the verdict is what it is.
    """

    layer: CheckLayer
    check: str
    rung: str
    verdict: Verdict
    grade: Grade
    reason: str
    measured: float | None = None
    tolerance: float | None = None
    unit: str | None = None
    n: int | None = None
    evidence: tuple[str, ...] = ()
    numbers: Numbers = field(default_factory=dict)


def worst_of(checks: Iterable[Check]) -> Check:
    """The first check with the worst verdict; there is at least one."""
    return min(checks, key=lambda check: SEVERITY.index(check.verdict))


@dataclass(frozen=True, slots=True)
class Measurement:
    """A figure measured on the platform, in the unit, under the stated conditions."""

    name: str
    value: float
    unit: str
    conditions: Mapping[str, int | float | str] = field(default_factory=dict)
    samples: int = 1


@dataclass(frozen=True, slots=True)
class Culprit:
    """Where a precision fault starts: the layer whose input agrees and whose output does not, and the operator if known; of a
    parallel run the rank, and the first and last of the tokens."""

    layer_index: int | None
    module: str
    operator: str | None
    error: float
    tolerance: float
    rank: int | None = None
    tokens: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Everything that one verification found. `method` names the version of the method that judged."""

    method: str
    platform: str
    mode: Mode
    checks: tuple[Check, ...]
    measurements: tuple[Measurement, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    sample_text: str | None = None
