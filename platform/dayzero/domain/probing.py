"""What running operators and collectives on a device showed, before anybody judged it."""

from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.manifests import CollectiveFact


class ProbeOutcome(StrEnum):
    """RAN: it ran on made-up arguments. RAISED: it takes them in another dtype, or on the CPU, and raised here. KILLED: the
    process died or took too long. UNSAMPLED: nobody could make up arguments that it accepts. UNCOMPARED: it ran, and there is
    nothing to compare its result with.
    """

    RAN = "ran"
    RAISED = "raised"
    KILLED = "killed"
    UNSAMPLED = "unsampled"
    UNCOMPARED = "uncompared"


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """One call against float64. `n`: elements whose float64 value is finite and fits the dtype; `rms_relative`: error over the
    rms of those (None: there were none); `nonfinite`: NaN or infinite where float64 is neither; `mismatched`: unequal integers
    and truth values among `exact_n`.
    """

    distribution: str
    n: int
    rms_relative: float | None
    nonfinite: int
    exact_n: int
    mismatched: int


@dataclass(frozen=True, slots=True)
class OperatorProbe:
    """One operator in one dtype: how it went, why not, its arguments' dtypes, every call's figures, the shortest run."""

    operator: str
    dtype: str
    outcome: ProbeOutcome
    why: str | None = None
    argument_dtypes: tuple[str, ...] = ()
    samples: tuple[ProbeSample, ...] = ()
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """Everything that one probing of a device showed; `skipped` are operators that the time given did not reach."""

    operators: tuple[OperatorProbe, ...]
    collectives: tuple[CollectiveFact, ...]
    skipped: tuple[str, ...]
    took_s: float
    restarts: int
    notes: tuple[str, ...] = ()
