"""Binomial tails: exactly for a fair coin, and in floating point for any other."""

import math


def fair_tail(most: int, n: int) -> float:
    """P(X <= most) of n throws of a fair coin, by integers: exact but for the last rounding."""
    if most < 0:
        return 0.0
    if most >= n:
        return 1.0
    term, total = 1, 1
    for k in range(most):
        term = term * (n - k) // (k + 1)
        total += term
    return total / (1 << n)


def mass(k: int, n: int, p: float) -> float:
    """P(X = k) of n tries at probability p."""
    if k < 0 or k > n:
        return 0.0
    if p <= 0.0 or p >= 1.0:
        return float(k == (0 if p <= 0.0 else n))
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
    return math.exp(log)


def lower_tail(most: int, n: int, p: float) -> float:
    """P(X <= most) of n tries at probability p; summed from its largest term, on the side where the terms fall."""
    if most < 0:
        return 0.0
    if most >= n or p <= 0.0:
        return 1.0
    if p >= 1.0:
        return 0.0
    if most > n * p:
        return max(0.0, 1.0 - lower_tail(n - most - 1, n, 1.0 - p))
    term = total = mass(most, n, p)
    odds = (1.0 - p) / p
    for k in range(most, 0, -1):
        term *= k / (n - k + 1) * odds
        total += term
        if term <= total * 1e-17:
            break
    return min(1.0, total)


def upper_tail(least: int, n: int, p: float) -> float:
    """P(X >= least) of n tries at probability p."""
    return lower_tail(n - least, n, 1.0 - p)
