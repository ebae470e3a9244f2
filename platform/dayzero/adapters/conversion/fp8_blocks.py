"""FP8 (e4m3fn) with a scale for each block of rows and columns, to and from bfloat16. Last blocks may be partial."""

import numpy as np

from dayzero.adapters.conversion.rounding import (
    E4M3_MAX,
    WINDOW_ELEMENTS,
    Bytes,
    Floats,
    Halves,
    bfloat16_bits,
    e4m3_bits,
    float32_of,
)

_LIFT = np.float32(2.0**120)
"""The bits of an e4m3 read as those of a float32 are the value times 2^-120."""


def from_fp8(values: Bytes, scales: Floats, block: tuple[int, int], out: Halves) -> None:
    """bfloat16(float32(value) × scale), as transformers' Fp8Dequantize computes it.

    `values` and `out` [rows, columns], `scales` [row blocks, column blocks], finite; the first row begins a block.
    """
    rows, columns = values.shape
    step = max(1, WINDOW_ELEMENTS // max(1, columns))
    window = np.empty((step, columns), np.float32)
    spare = np.empty((step, columns), np.uint32)
    for number, of_block in enumerate(scales):
        wide = np.repeat(of_block, block[1])[:columns]
        lifted = bool((np.abs(of_block) < 64).all())
        factor = wide * _LIFT if lifted else wide
        for first in range(number * block[0], min(rows, (number + 1) * block[0]), step):
            last = min(first + step, (number + 1) * block[0], rows)
            part = window[: last - first]
            _widen(values[first:last], part)
            if not lifted:
                np.multiply(part, _LIFT, out=part)
            np.multiply(part, factor, out=part)
            bfloat16_bits(part, out[first:last], spare[: last - first])
            _mark_not_numbers(values[first:last], out[first:last])


def _widen(values: Bytes, out: Floats) -> None:
    """The values times 2^-120: sign to bit 31, exponent and mantissa to bit 20."""
    words = out.view(np.int32)
    np.copyto(words, values.view(np.int8))
    bits = out.view(np.uint32)
    np.left_shift(bits, np.uint32(20), out=bits)
    np.bitwise_and(bits, np.uint32(0x87F00000), out=bits)


def _mark_not_numbers(values: Bytes, out: Halves) -> None:
    """The one code of e4m3fn that is no number, of either sign."""
    magnitudes = np.bitwise_and(values, np.uint8(0x7F))
    if magnitudes.max(initial=0) == 0x7F:
        out[magnitudes == 0x7F] = 0x7FC0


def to_fp8(values: Halves, block: tuple[int, int], out: Bytes, scales: Floats) -> bool:
    """Each block by its largest magnitude, as transformers' Fp8Quantize does it; False where values are not finite.

    `values` and `out` [rows, columns] in bfloat16 and e4m3; `scales` [row blocks, column blocks] take what a value is to be
    multiplied by to have it back.
    """
    rows, columns = values.shape
    step = max(1, WINDOW_ELEMENTS // max(1, columns))
    window = np.empty((step, columns), np.float32)
    spare = np.empty((step, columns), np.uint32)
    for number in range(len(scales)):
        begin, end = number * block[0], min(rows, (number + 1) * block[0])
        largest = _largest(values[begin:end], block[1], scales.shape[1])
        if not np.isfinite(largest).all():
            return False
        factors = _factors(largest)
        scales[number] = np.float32(1.0) / factors
        wide = np.repeat(factors, block[1])[:columns]
        for first in range(begin, end, step):
            last = min(first + step, end)
            part = window[: last - first]
            float32_of(values[first:last], part)
            np.multiply(part, wide, out=part)
            e4m3_bits(part, out[first:last], spare[: last - first])
    return True


def _factors(largest: Floats) -> Floats:
    """448 over the largest magnitude; 1 for a block of zeros.

    The reference takes the reciprocal times 448, two roundings. Where that overflows it makes NaN of the block's zeros: here
    the factor stays finite.
    """
    filled = np.where(largest > 0, largest, np.float32(1.0))
    with np.errstate(over="ignore"):
        factors = np.minimum((np.float32(1.0) / filled) * np.float32(E4M3_MAX), np.finfo(np.float32).max)
    return np.where(largest > 0, factors, np.float32(1.0)).astype(np.float32)


def _largest(values: Halves, width: int, blocks: int) -> Floats:
    """The largest magnitude of each block of columns; magnitudes are ordered as their bits are."""
    columns = np.bitwise_and(values, np.uint16(0x7FFF)).max(axis=0, initial=0)
    padded = np.zeros(blocks * width, np.uint16)
    padded[: len(columns)] = columns
    found = np.empty(blocks, np.float32)
    float32_of(padded.reshape(blocks, width).max(axis=1), found)
    return found
