"""From float32 to shorter floats, rounded to the nearest, ties to even, by integer arithmetic on whole windows.

Numpy has no bfloat16 and no float8. Lookups by numpy.take cost some 3 ns an element here, a pass of integer arithmetic over a
window that fits the second-level cache 0.1 to 0.2 ns: passes win.
"""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Halves = NDArray[np.uint16]
Words = NDArray[np.uint32]
Floats = NDArray[np.float32]

WINDOW_ELEMENTS = 32768
"""Elements that are worked on at once: 128 KiB in float32."""

E4M3_MAX = 448.0
"""The largest finite float8 e4m3fn (OCP 8-bit Floating Point Specification 1.0)."""

_E4M3_LEAST = np.uint32((127 - 6) << 23)
_ROUND_AND_REBIAS = np.uint32((0x7FFFF - ((127 - 7) << 23)) & 0xFFFFFFFF)


def bfloat16_bits(values: Floats, out: Halves, spare: Words) -> None:
    """The bfloat16 of finite (or infinite) float32 values into `out`; `spare` is overwritten, all three of one shape."""
    words = values.view(np.uint32)
    np.right_shift(words, np.uint32(16), out=spare)
    np.bitwise_and(spare, np.uint32(1), out=spare)
    np.add(spare, words, out=spare)
    np.add(spare, np.uint32(0x7FFF), out=spare)
    np.copyto(out, _upper(spare))


def float32_of(bits: Halves, out: Floats) -> None:
    """The float32 values of bfloat16 bits."""
    words = out.view(np.uint32)
    np.copyto(words, bits)
    np.left_shift(words, np.uint32(16), out=words)


def e4m3_bits(values: Floats, out: Bytes, spare: Words) -> None:
    """The float8 e4m3fn of finite float32 values, no further from zero than 448; `values` and `spare` are overwritten."""
    words = values.view(np.uint32)
    signs = (words >> np.uint32(24)).astype(np.uint8) & np.uint8(0x80)
    np.bitwise_and(words, np.uint32(0x7FFFFFFF), out=words)
    small = words < _E4M3_LEAST
    # Below 2^-6 the steps are 2^-9, which are the last steps of float32 around 2^14: adding it rounds.
    few = (values[small] + np.float32(16384.0)).view(np.uint32) & np.uint32(0xF)
    np.right_shift(words, np.uint32(20), out=spare)
    np.bitwise_and(spare, np.uint32(1), out=spare)
    np.add(spare, words, out=spare)
    np.add(spare, _ROUND_AND_REBIAS, out=spare)
    np.right_shift(spare, np.uint32(20), out=spare)
    np.minimum(spare, np.uint32(0x7E), out=spare)
    np.copyto(out, spare, casting="unsafe")
    out[small] = few.astype(np.uint8)
    np.bitwise_or(out, signs, out=out)


def _upper(words: Words) -> Halves:
    """The upper halves of 32-bit words."""
    return words.view(np.uint16)[..., 1::2]
