"""Limits of precision, and what stands out by them. Pure: figures in, yes or no with the tolerance out.

The method is the design's: three runs, the target's error against the native dtype's own. Two readings are ours. A layer's
error is that of its update (output minus input), relative to the update: a residual stream hides a layer's fault. And the mean
line's floor is the dtype's relative tolerance, not k · eps: with k = 8 the floor in bfloat16 is 6 %, and a planted fault of
5 % in one activation passes under it; sound compiled layers stay below the tighter floor. k · eps · rms is the floor of the
maximum line, where single elements are compared.
"""

from dataclasses import dataclass

from dayzero.domain.observations import LayerError, ModuleError, OperatorError, Part, PartError, TensorError
from dayzero.domain.observed_decoding import DecodeLayerError

FACTOR_MEAN = 2.0
"""Mean error of the target over that of the native dtype (design, precision; after FlashAttention's tests)."""
FACTOR_MAX = 10.0
"""Largest element error of the target over that of the native dtype or its floor (design, precision)."""
K = 8
"""Floor of an element's native error in units of eps · rms (design, precision constants)."""
SHARE_WITHIN = 0.999
"""Share of a single operator's elements within 1e-3 (design, precision)."""
LARGEST_EXCLUDED = 0.5
"""Share of tokens with undecided routing above which a layer is not judged: the rest would not stand for it."""

RELATIVE_TOLERANCE = {"float16": 2.0**-10, "bfloat16": 2.0**-8, "float32": 2.0**-20, "float64": 2.0**-45}
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
COSINE = {"float16": 0.99, "bfloat16": 0.99, "float32": 0.9999, "float64": 0.9999}
LARGEST = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.40e38, "float64": 1.79e308}
KL = {"float16": 2e-3, "bfloat16": 2e-3, "float32": 1e-5, "float64": 1e-5}


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison: what was measured, the tolerance, and whether it stands out (beyond it, or not a number)."""

    stands_out: bool
    measured: float | None
    tolerance: float
    why: str


def mean_line(target: TensorError, native: TensorError, dtype: str) -> Line:
    """The target's mean relative error against factor × max(native error, the dtype's relative tolerance)."""
    tolerance = FACTOR_MEAN * max(native.rms_relative or 0.0, RELATIVE_TOLERANCE[dtype])
    if target.nonfinite > native.nonfinite:
        return Line(True, target.rms_relative, tolerance, f"{target.nonfinite} elements are NaN or infinite")
    if target.rms_relative is None:
        return Line(target.n > 0, None, tolerance, "the error is not finite" if target.n else "nothing was compared")
    measured = target.rms_relative
    return Line(measured > tolerance, measured, tolerance, f"relative error {measured:.3g}, tolerance {tolerance:.3g}")


def layer_line(layer: LayerError, dtype: str) -> Line:
    """A layer given the reference's input: its mean line, then its largest element, then the direction of its output."""
    mean = mean_line(layer.target, layer.native, dtype)
    if mean.stands_out:
        return mean
    if layer.ratio_max is not None and layer.ratio_max > FACTOR_MAX:
        why = f"largest element error is {layer.ratio_max:.3g} times the native one, limit {FACTOR_MAX:g}"
        return Line(True, layer.ratio_max, FACTOR_MAX, why)
    cosine = layer.output_target.cosine
    if cosine is not None and cosine < COSINE[dtype]:
        return Line(True, cosine, COSINE[dtype], f"cosine {cosine:.5f} of its output, at least {COSINE[dtype]}")
    return mean


def part_line(part: PartError, dtype: str) -> Line:
    """A part outside of the layers: a mask must allow exactly what the reference's does, all else has the mean line."""
    if part.part is not Part.MASK:
        return mean_line(part.target, part.native, dtype)
    differs = part.target.max_abs != 0.0
    share = part.target.rms_relative
    return Line(differs, share, 0.0, "it allows other keys than the reference's" if differs else "it allows the same keys")


def overflows(layer: LayerError, dtype: str) -> bool:
    """Whether the layer's output is larger than the dtype can hold (IEEE 754: 65504 in float16), or something inside it is.

    Inside: the reference in that dtype gets NaN or infinity where higher precision gets numbers.
    """
    inside = layer.native.nonfinite > 0 and layer.reference_nonfinite == 0
    return (layer.largest is not None and layer.largest > LARGEST[dtype]) or (inside and dtype == "float16")


def reference_doubtful(layer: LayerError, dtype: str) -> bool:
    """Whether the native-dtype reference is itself so far from the higher precision that it says nothing about the target."""
    cosine = layer.output_native.cosine
    return (
        layer.reference_nonfinite > 0
        or layer.native.nonfinite > 0
        or (cosine is None and not too_few_tokens(layer))
        or (cosine is not None and cosine < COSINE[dtype])
    )


def decode_line(layer: DecodeLayerError, dtype: str) -> Line:
    """A layer in cached decoding: with the reference's cache, then with the one that its own prefill filled."""
    if layer.on_reference_cache is not None:
        line = mean_line(layer.on_reference_cache, layer.native, dtype)
        if line.stands_out:
            return line
    own = mean_line(layer.target, layer.native, dtype)
    if own.stands_out and layer.on_reference_cache is not None:
        why = f"what its prefill leaves in the cache makes later tokens wrong: {own.why}"
        return Line(True, own.measured, own.tolerance, why)
    return own


def native_doubtful(native: TensorError, dtype: str) -> bool:
    """Whether the native dtype's own update is so far from the higher precision that it says nothing about the target.

    Two vectors at a cosine are as far apart, relative to one of them, as the square root of 2 - 2 · cosine.
    """
    return native.nonfinite > 0 or (native.rms_relative or 0.0) > (2.0 - 2.0 * COSINE[dtype]) ** 0.5


def far_beyond(error: TensorError, usual: TensorError, dtype: str) -> bool:
    """Whether an error of the native reference is of another kind than its usual one: more than ten times it."""
    limit = FACTOR_MAX * max(usual.rms_relative or 0.0, RELATIVE_TOLERANCE[dtype])
    return error.nonfinite > usual.nonfinite or error.rms_relative is None or error.rms_relative > limit


def decoding_doubtful(layer: DecodeLayerError, dtype: str) -> bool:
    """The same for a layer in cached decoding: the native dtype's own steps against the whole text in higher precision."""
    return native_doubtful(layer.native, dtype) or (layer.native.rms_relative is None and not too_few_tokens(layer))


def too_few_tokens(layer: LayerError | DecodeLayerError) -> bool:
    """Whether so many tokens have undecided routing that the others do not stand for the layer."""
    return layer.tokens_excluded > LARGEST_EXCLUDED * layer.tokens


def inherits(layer: LayerError, dtype: str) -> bool:
    """Whether the layer's output is off when it gets the target's own input, while it is right given the reference's."""
    return mean_line(layer.cumulative_target, layer.cumulative_native, dtype).stands_out


def module_line(module: ModuleError, dtype: str) -> Line:
    """A module given the native reference's input to it."""
    return mean_line(module.target, module.native, dtype)


def guilty_module(modules: tuple[ModuleError, ...], layer_index: int, dtype: str) -> ModuleError | None:
    """The innermost module of the layer that stands out, the worst of equals; None when none does."""
    found = [module for module in modules if module.layer_index == layer_index and module_line(module, dtype).stands_out]
    return max(found, key=lambda module: (module.depth, module.target.rms_relative or float("inf")), default=None)


def operator_stands_out(operator: OperatorError) -> bool:
    """Whether a compared operator misses its limit: too few elements within 1e-3, an inexact integer, a NaN."""
    if operator.reference is None:
        return False
    share_low = operator.share_within is not None and operator.share_within < SHARE_WITHIN
    return share_low or operator.exact is False or operator.nonfinite > 0
