"""Limits of training, and what stands out by them. Pure: figures in, yes or no with the tolerance out.

The method is the design's: the target's error against the higher precision may be `factor` times the native dtype's own, or the
dtype's relative tolerance. A vector of few elements is a small sample of that error, so it is compared like single elements, by
the factor for maxima.
"""

import math
from collections.abc import Sequence

from dayzero.domain.observed_training import BackwardError, DirectionError
from dayzero.stages.precision.limits import COSINE, FACTOR_MAX, FACTOR_MEAN, RELATIVE_TOLERANCE, Line

FEW = 256
"""Elements below which an error is a sample too small for the factor for means: the root of a quotient of two independent sums
of 8 squares is above 2 in one case of 30 (F distribution), of 256 squares never in practice."""
COSINE_GRADIENT = {**COSINE, "float16": 0.9, "bfloat16": 0.9}
"""Below it the native dtype's own gradient points elsewhere than the higher precision's, and says nothing about the target. A
backward rounds twice as often as a forward, through all layers: sound bfloat16 models of random weights came down to 0.94."""


def direction_line(target: DirectionError, native: DirectionError, dtype: str) -> Line:
    """The target's relative error against factor × max(native error, the dtype's relative tolerance)."""
    factor = FACTOR_MEAN if target.n >= FEW else FACTOR_MAX
    tolerance = factor * max(native.relative or 0.0, RELATIVE_TOLERANCE[dtype])
    if target.nonfinite > native.nonfinite:
        return Line(True, target.relative, tolerance, f"{target.nonfinite} elements are NaN or infinite")
    if target.relative is None:
        return Line(True, None, tolerance, "it is not zero where the reference's is")
    why = f"relative error {target.relative:.3g}, tolerance {tolerance:.3g}, cosine {target.cosine or 0.0:.6f}"
    return Line(target.relative > tolerance, target.relative, tolerance, why)


def straying(moments: Sequence[Line]) -> Line | None:
    """The whole gradient's line where it strays: at every moment (the first, should all), or at one by the factor for maxima.

    At a single moment a few ill-conditioned tokens can make most of the native error, whose size is then one draw: one sound
    model of 48 was off by twice that error at its first step and by 1.2 times at its last. A wrong kernel errs at both.
    """
    out = [line for line in moments if line.stands_out]
    far = [line for line in out if not _is_near(line)]
    if len(out) == len(moments):
        return max(out, key=lambda line: math.inf if line.measured is None else line.measured / line.tolerance)
    return next(iter(far), None)


def _is_near(line: Line) -> bool:
    """Whether it stands out by its size alone, and by less than the factor for maxima."""
    return line.measured is not None and line.tolerance < line.measured <= line.tolerance * FACTOR_MAX / FACTOR_MEAN


def backward_line(error: BackwardError, dtype: str) -> Line:
    """One gradient of a layer or module on its own."""
    return direction_line(error.target, error.native, dtype)


def guilty_backward(errors: Sequence[BackwardError], layer_index: int, dtype: str) -> BackwardError | None:
    """The innermost module of the layer whose gradients stand out, the worst of equals; None when none does."""
    found = [one for one in errors if one.layer_index == layer_index and backward_line(one, dtype).stands_out]
    return max(found, key=lambda one: (one.depth, one.target.relative or float("inf")), default=None)


def loss_line(
    reference: Sequence[float | None], native: Sequence[float | None], target: Sequence[float | None], dtype: str
) -> tuple[int, Line]:
    """The loss curve step by step: the worst step, and the target's error there against factor × the largest native error so
    far (a single native step may be right by chance), or the dtype's relative tolerance of the loss."""
    worst = 0, Line(False, 0.0, 0.0, "no step")
    largest = 0.0
    for step, (exact, plain, ours) in enumerate(zip(reference, native, target, strict=True)):
        if exact is None or plain is None:
            return step, Line(True, None, 0.0, f"the references' losses are not finite at step {step}")
        largest = max(largest, abs(plain - exact))
        tolerance = FACTOR_MEAN * max(largest, RELATIVE_TOLERANCE[dtype] * abs(exact))
        if ours is None:
            return step, Line(True, None, tolerance, f"the target's loss is not finite at step {step}")
        error = abs(ours - exact)
        why = f"loss {ours:.6g} at step {step}, {exact:.6g} in higher precision: off by {error:.3g}, tolerance {tolerance:.3g}"
        if step == 0 or error / tolerance > (worst[1].measured or 0.0) / worst[1].tolerance:
            worst = step, Line(error > tolerance, error, tolerance, why)
    return worst
