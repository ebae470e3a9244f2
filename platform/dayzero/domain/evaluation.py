"""Two runs that answered the same items: how often each was right, and whether they differ."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class PairedOutcomes:
    """Items that the reference and the target both answered, by who was right.

    `only_reference` is the b of McNemar's test, `only_target` its c. `unanswered` items, where one of the two has no answer,
    are counted beside and are in none of the others.
    """

    both: int
    only_reference: int
    only_target: int
    neither: int
    unanswered: int = 0

    @property
    def n(self) -> int:
        """Items that both answered."""
        return self.both + self.only_reference + self.only_target + self.neither

    @property
    def reference_right(self) -> int:
        """Items that the reference answered rightly."""
        return self.both + self.only_reference

    @property
    def target_right(self) -> int:
        """Items that the target answered rightly."""
        return self.both + self.only_target

    @property
    def discordant(self) -> int:
        """Items that exactly one of them answered rightly: all that says anything about a difference."""
        return self.only_reference + self.only_target


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval at a confidence (0.95: it covers the truth in at least 95 of 100 repetitions)."""

    low: float
    high: float
    confidence: float


class FindingOutcome(StrEnum):
    """What a paired test says. UNKNOWN: the figures do not decide it; it is neither of the others."""

    FINDING = "finding"
    NO_FINDING = "no finding"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PairedFinding:
    """The verdict on a difference of shares (target minus reference), at significance level `alpha`.

    `smallest_difference` is the true difference that this n would find with probability `power`; None: none at all.
    """

    outcome: FindingOutcome
    n: int
    p_value: float | None
    alpha: float
    difference: float | None
    difference_interval: Interval | None
    reference: Interval | None
    target: Interval | None
    smallest_difference: float | None
    power: float
    reason: str
