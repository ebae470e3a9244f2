"""How far a fingerprint on ranks may lie from that of one process.

Three runs, as everywhere: the ranks' error against the higher precision may be twice that of one process in the same dtype, or
twice the dtype's own tolerance where one process happens to be closer. Two things are added to that line.

A sum that n ranks take in n parts is rounded n - 1 times more; roundings that know nothing of each other add up by their
squares, so the dtype's tolerance grows with √n. (Backward error of a sum in any order: Higham, Accuracy and Stability of
Numerical Algorithms, 4.2; the √n by its probabilistic version, Higham and Mary, SIAM J. Sci. Comput. 41, 2019.)

A sketch of k projections estimates the square of an error with a relative variance of at most (9 - 1) / k, for its signs are
products of one over tokens and one over channels (Indyk and McGregor, SODA 2008). CONFIDENCE leaves room for it.
"""

from dayzero.stages.precision.limits import FACTOR_MEAN, RELATIVE_TOLERANCE

CONFIDENCE = 3.0
"""An error read from a sketch of 8 projections stays below three times the true one, but for less than one block in 10^6 where
errors are spread over a block's elements."""


def allowed(native_error: float, dtype: str, parts: int) -> float:
    """Largest relative error of a block, as its sketch reads it, for sums that are taken in so many parts."""
    return float(CONFIDENCE * FACTOR_MEAN * max(native_error, RELATIVE_TOLERANCE[dtype] * max(1, parts) ** 0.5))
