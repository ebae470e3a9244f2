"""What a number of items can see: the power of the exact paired test, without approximation."""

from collections.abc import Iterator

from dayzero.stages.evaluation.binomial import fair_tail, lower_tail, mass, upper_tail

ALPHA = 0.05
POWER = 0.8
NEGLIGIBLE = 1e-12
"""Numbers of discordant pairs that are less likely are left out of the sum."""
CLOSE = 1e-9


def most_for_finding(discordant: int, alpha: float = ALPHA) -> int:
    """The largest min(b, c) among so many discordant pairs that is a finding; -1 where none is."""
    found = -1
    while _is_finding(found + 1, discordant, alpha):
        found += 1
    return found


def _is_finding(least: int, discordant: int, alpha: float) -> bool:
    """Whether a split with that smaller side is a finding; by integers only where floating point is too close to say."""
    if 2 * least > discordant:
        return False
    nearly = 2.0 * lower_tail(least, discordant, 0.5)
    return nearly <= alpha if abs(nearly - alpha) > CLOSE else 2.0 * fair_tail(least, discordant) <= alpha


def fewest_discordant(alpha: float = ALPHA) -> int:
    """The smallest number of discordant pairs that can be a finding, all going one way; 6 at a level of 0.05."""
    n = 1
    while 2.0 * fair_tail(0, n) > alpha:
        n += 1
    return n


def power_of(n: int, difference: float, discordant_share: float, alpha: float = ALPHA) -> float:
    """The probability that n items show a true difference of shares, when that share of items is discordant.

    A difference takes at least as many discordant items: a smaller share is raised to it.
    """
    size = abs(difference)
    share = min(1.0, max(discordant_share, size))
    if share == 0.0:
        return 0.0
    towards = (share + size) / (2.0 * share)
    return sum(likely * _rejected(m, most, towards) for m, likely, most in _cases(n, share, alpha) if most >= 0)


def _cases(n: int, share: float, alpha: float) -> Iterator[tuple[int, float, int]]:
    """Numbers of discordant pairs, how likely each is, and the largest min(b, c) that is a finding there."""
    most: int | None = None
    for m in range(n + 1):
        likely = mass(m, n, share)
        if likely < NEGLIGIBLE:
            continue
        if most is None:
            most = most_for_finding(m, alpha)
        elif _is_finding(most + 1, m, alpha):
            most += 1
        yield m, likely, most


def _rejected(m: int, most: int, towards: float) -> float:
    return min(1.0, lower_tail(most, m, towards) + upper_tail(m - most, m, towards))


def smallest_difference(n: int, discordant_share: float, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest true difference of shares that n items find with that power; None where not even a difference of 1 is.

    To the next thousandth, upwards. `discordant_share` is how many items the two answer differently; the larger, the more a
    difference drowns in exchanges.
    """
    low, high = 0, 1000
    if power_of(n, 1.0, discordant_share, alpha) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(n, middle / 1000, discordant_share, alpha) >= power else (middle, high)
    return high / 1000
