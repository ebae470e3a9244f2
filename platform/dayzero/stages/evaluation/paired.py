"""McNemar's exact test on paired answers, and what it makes of them.

Two-sided: of m = b + c discordant pairs, b go to the reference with probability 1/2 where there is no difference, so that
p = min(1, 2 · P(X <= min(b, c))), X binomial (m, 1/2) (McNemar, Psychometrika 12, 1947; exact by the binomial). Pairs on which
both are right or both wrong say nothing about a difference.
"""

from dayzero.domain.evaluation import FindingOutcome, PairedFinding, PairedOutcomes
from dayzero.stages.evaluation.binomial import fair_tail
from dayzero.stages.evaluation.power import ALPHA, POWER, fewest_discordant, smallest_difference
from dayzero.stages.evaluation.shares import difference_interval, share_interval


def exact_p(only_reference: int, only_target: int) -> float:
    """The two-sided p of McNemar's exact test; 1 without discordant pairs."""
    discordant = only_reference + only_target
    return min(1.0, 2.0 * fair_tail(min(only_reference, only_target), discordant)) if discordant else 1.0


def compare(pairs: PairedOutcomes, alpha: float = ALPHA, power: float = POWER) -> PairedFinding:
    """Whether target and reference differ: a finding, none, or unknown where no outcome of so few items could be one."""
    reference, target = share_interval(pairs.reference_right, pairs.n), share_interval(pairs.target_right, pairs.n)
    fewest = fewest_discordant(alpha)
    if pairs.n < fewest:
        reason = f"{pairs.n} items can show no difference at all: at a level of {alpha:g} it takes {fewest} that differ"
        return PairedFinding(
            FindingOutcome.UNKNOWN, pairs.n, None, alpha, None, None, reference, target, None, power, reason
        )  # fmt: skip
    p_value = exact_p(pairs.only_reference, pairs.only_target)
    difference = (pairs.target_right - pairs.reference_right) / pairs.n
    seen = smallest_difference(pairs.n, pairs.discordant / pairs.n, alpha, power)
    outcome = FindingOutcome.FINDING if p_value <= alpha else FindingOutcome.NO_FINDING
    return PairedFinding(
        outcome,
        pairs.n,
        p_value,
        alpha,
        difference,
        difference_interval(pairs, 1.0 - alpha),
        reference,
        target,
        seen,
        power,
        f"{outcome.value}: {_shares(pairs)}, {pairs.only_reference} items by the reference alone, {pairs.only_target} by the "
        f"target alone, exact paired p = {p_value:.3g}; {_sight(seen, power)}",
    )


def compare_shares(
    reference_right: int, target_right: int, n: int, alpha: float = ALPHA, power: float = POWER
) -> PairedFinding:
    """The same where only the totals are known: a verdict that every pairing of the answers bears out, else unknown.

    Given both totals, p is smallest when the two agree as often as they can, and largest when they differ as often as they can.
    """
    if not (0 <= reference_right <= n and 0 <= target_right <= n):
        raise ValueError(f"{reference_right} and {target_right} of {n} are no shares")
    closest = _pairs(reference_right, target_right, n, min(reference_right, target_right))
    farthest = _pairs(reference_right, target_right, n, max(0, reference_right + target_right - n))
    best, worst = compare(closest, alpha, power), compare(farthest, alpha, power)
    if best.outcome is worst.outcome:
        return worst
    difference = (target_right - reference_right) / n
    reason = (
        f"{_shares(closest)}: whether this is a finding hangs on the answers, item by item; p lies between {best.p_value:.3g} "
        f"({closest.discordant} items differ) and {worst.p_value:.3g} ({farthest.discordant} differ)"
    )
    return PairedFinding(
        FindingOutcome.UNKNOWN, n, None, alpha, difference, None, worst.reference, worst.target, worst.smallest_difference,
        power, reason,
    )  # fmt: skip


def _pairs(reference_right: int, target_right: int, n: int, both: int) -> PairedOutcomes:
    return PairedOutcomes(
        both, reference_right - both, target_right - both, n - reference_right - target_right + both
    )  # fmt: skip


def _shares(pairs: PairedOutcomes) -> str:
    return f"{pairs.target_right} of {pairs.n} right on the target, {pairs.reference_right} in the reference"


def _sight(seen: float | None, power: float) -> str:
    if seen is None:
        return "this n finds no difference with that certainty"
    return f"a true difference of {seen:.3f} would be found {power:.0%} of the time"
