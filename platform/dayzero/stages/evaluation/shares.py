"""Intervals of shares and of paired differences.

Clopper and Pearson's interval (Biometrika 26, 1934), not Wilson's: it inverts the same exact binomial tails as the paired test,
so that the interval of a difference holds zero exactly where the test says nothing; it never covers less than it states, at
shares of 0 and 1 too, where tasks of a small or a strong model lie. It is the wider of the two, and that is the honest side.
"""

from collections.abc import Callable

from dayzero.domain.evaluation import Interval, PairedOutcomes
from dayzero.stages.evaluation.binomial import lower_tail, upper_tail

CONFIDENCE = 0.95
STEPS = 60
"""Halvings of [0, 1]: below the last digit of a float."""


def share_interval(hits: int, n: int, confidence: float = CONFIDENCE) -> Interval | None:
    """The interval of the share behind `hits` of `n`; None where there are no items."""
    if n == 0:
        return None
    half = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else _crossing(lambda p: upper_tail(hits, n, p) > half)
    high = 1.0 if hits == n else _crossing(lambda p: lower_tail(hits, n, p) <= half)
    return Interval(low, high, confidence)


def difference_interval(pairs: PairedOutcomes, confidence: float = CONFIDENCE) -> Interval | None:
    """The interval of target minus reference; None where there are no items.

    A difference is the share of items that are discordant times how lopsided they are; each has its exact interval at the
    confidence, and both hold together at no less than twice the confidence minus 1, which is what the interval states. Its
    sign is that of the lopsidedness alone: it leaves out zero exactly where the test at 1 - confidence is a finding.
    """
    share = share_interval(pairs.discordant, pairs.n, confidence)
    if share is None:
        return None
    inner = share_interval(pairs.only_target, pairs.discordant, confidence) or Interval(0.0, 1.0, confidence)
    low, high = 2 * inner.low - 1, 2 * inner.high - 1
    return Interval(
        low * (share.high if low < 0 else share.low), high * (share.high if high > 0 else share.low), 2 * confidence - 1
    )


def _crossing(beyond: Callable[[float], bool]) -> float:
    """Where `beyond` turns from false to true on [0, 1]."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return (low + high) / 2
