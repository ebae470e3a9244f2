"""Limits of quantized caches and of the largest logits, and what stands out by them. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.observed_logits import LogitAgreement
from dayzero.stages.precision.limits import FACTOR_MEAN, Line

Z_95 = 1.96
"""Two-sided 95 % interval of a mean, by the normal approximation (n is above 30 here)."""
LOGITS = {5: 0.011, 50: 0.02, 1000: 0.03}
"""Relative error of the k largest logits (design, precision)."""
CACHE_KL = 0.02
CACHE_DIFFERENCE = 0.02
"""Divergence and loss of likelihood, nats a token, that an 8-bit cache may cost against the native one: 2 % of perplexity. On
SmolLM2-135M sound caches were seen at 0.003 (int8) to 0.007 (e4m3) of divergence."""
READBACK = 2.0**-4
"""‖read − written‖ / ‖written‖ of keys or values: the largest relative error of rounding to e4m3 (3 bits of mantissa), which
8-bit integers stay below unless the largest value is 20 times the rms. Beyond it the cache gives back something else."""


class Bound(StrEnum):
    """Where a mean with its interval lies against a limit."""

    WITHIN = "within"
    BEYOND = "beyond"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its two-sided 95 % interval."""

    mean: float
    low: float
    high: float

    def against(self, limit: float) -> Bound:
        """WITHIN or BEYOND when the whole interval is; OPEN when this n cannot tell."""
        if self.high <= limit:
            return Bound.WITHIN
        return Bound.BEYOND if self.low > limit else Bound.OPEN


def interval(mean: float, standard_error: float | None) -> Interval:
    """The interval; without a standard error nothing is known about the mean."""
    if standard_error is None:
        return Interval(mean, float("-inf"), float("inf"))
    return Interval(mean, mean - Z_95 * standard_error, mean + Z_95 * standard_error)


def logits_line(agreement: LogitAgreement) -> Line:
    """The error of the k largest logits against the design's limit, or factor × the native dtype's own error."""
    tolerance = max(LOGITS[agreement.k], FACTOR_MEAN * (agreement.error_native or 0.0))
    if agreement.error_target is None:
        return Line(True, None, tolerance, f"the {agreement.k} largest logits are not finite")
    why = f"relative error {agreement.error_target:.3g} of the {agreement.k} largest logits, tolerance {tolerance:.3g}"
    return Line(agreement.error_target > tolerance, agreement.error_target, tolerance, why)
