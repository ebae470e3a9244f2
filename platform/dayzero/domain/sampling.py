"""Operator calls on inputs that were drawn: what was observed, and what is known of a call on one stack."""

from dataclasses import dataclass

from dayzero.domain.verdict import Verdict


@dataclass(frozen=True, slots=True)
class SampleFigures:
    """How far results lie from float64: mean over rows of rms(error)/rms(reference), the largest error in units of the last
    place, the shares of elements beyond one such unit and within 1e-3 of the reference. None: nothing was compared."""

    rms_relative: float | None
    ulp_max: float | None
    ulp_beyond: float | None
    share_within: float | None


@dataclass(frozen=True, slots=True)
class CallSample:
    """One call on inputs of one distribution: the target's results and those of the host's own kernel, against float64.

    `dtype` is that of the worst floating result (None: there is none). `identical`: target and host kernel agree bit for bit.
    `n` counts the elements compared: finite in float64 and in the host's result, and in the dtype's range. `ratio_max` is the
    largest element error over max(the host's in its row, k · eps · rms of the row). `nonfinite` counts NaN and infinities
    where the host has none, `otherwise` other kinds of value than the host's where float64 leaves the range, `saturated` those
    of them that are the dtype's largest number, `mismatched` integers and truth values (of `exact_n`) that are others than the
    host's and float64's, `flushed` results below the smallest normal number that became zero. `inputs_flushed`: the reference
    was given such inputs as zero. `why`: the target raised.
    """

    distribution: str
    n: int = 0
    identical: bool = False
    dtype: str | None = None
    target: SampleFigures | None = None
    native: SampleFigures | None = None
    ratio_max: float | None = None
    nonfinite: int = 0
    otherwise: int = 0
    saturated: int = 0
    exact_n: int = 0
    mismatched: int = 0
    flushed: int = 0
    inputs_flushed: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True)
class CallSamples:
    """One distinct call over all distributions. `roundings`: how often it rounds inside by design; `shared`: whether it says
    something of the platform's own library, and not of a plugin's or a bridge's operator. `why`: nothing could be compared."""

    operator: str
    dtypes: tuple[str, ...]
    shape_class: str
    module: str
    samples: tuple[CallSample, ...] = ()
    roundings: int = 0
    shared: bool = True
    why: str | None = None


@dataclass(frozen=True, slots=True)
class CallFact:
    """What running one operator in these dtypes and shapes over the distributions showed on one stack.

    `verdict` is not_run where every result equals the host kernel's bit for bit (`identical` of `samples` distributions), or
    nothing could be compared; `why` says which, or what is wrong. `distribution`, `worst_error` and `limit` are those of the
    worst distribution that was judged; `ulp_max`, `ulp_beyond` and `share_within` the worst of all of them. `flushing`:
    what becomes of numbers below the smallest normal one ("results", "inputs", or nothing), `saturates`: overflows give the
    largest number.
    """

    operator: str
    dtypes: tuple[str, ...]
    shape_class: str
    verdict: Verdict
    why: str | None
    samples: int
    identical: int
    distribution: str | None = None
    worst_error: float | None = None
    limit: float | None = None
    ulp_max: float | None = None
    ulp_beyond: float | None = None
    share_within: float | None = None
    flushing: str = ""
    saturates: bool = False

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        """What the fact is about."""
        return self.operator, self.dtypes, self.shape_class
