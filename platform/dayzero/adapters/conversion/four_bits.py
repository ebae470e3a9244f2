"""Four-bit weights, two a byte with the first in the lower half, to bfloat16."""

import sys

import numpy as np

from dayzero.adapters.conversion.rounding import WINDOW_ELEMENTS, Bytes, Floats, Halves, bfloat16_bits

assert sys.byteorder == "little", "words are taken apart in the byte order of the checkpoint formats"

_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""Values of e2m1 (OCP Microscaling Formats 1.0)."""


def from_mxfp4(blocks: Bytes, scales: Bytes, out: Halves) -> None:
    """value × 2^(scale − 127), as transformers' convert_moe_packed_tensors computes it before it transposes.

    `blocks` [rows, groups × 16], `scales` [rows, groups] of which none is 255, `out` [rows, groups × 32].
    """
    rows, width = blocks.shape
    step = max(1, WINDOW_ELEMENTS // max(1, 2 * width))
    for first in range(0, rows, step):
        part = slice(first, min(first + step, rows))
        # In this range the smallest value (0.5) is a normal bfloat16 and the largest (6) is finite: exponents just add up.
        if scales[part].size and scales[part].min() >= 2 and scales[part].max() <= 252:
            _by_exponents(blocks[part], scales[part], out[part])
        else:
            _by_values(blocks[part], scales[part], out[part])


def _by_exponents(blocks: Bytes, scales: Bytes, out: Halves) -> None:
    """Bits put together: with the magnitude m (0 to 7) of e2m1, 0x3F00 + (m << 6) is its bfloat16 from 2 on; 1 lies a step
    lower, and 0 is 0."""
    codes = _nibbles(blocks)
    flat = codes.view(np.uint64)
    signs = (flat & _lanes(8)) << np.uint64(12)
    np.bitwise_and(flat, _lanes(7), out=flat)
    rest = (flat + _lanes(7)) & _lanes(8)
    np.right_shift(rest, np.uint64(3), out=rest)
    steps = (flat + _lanes(6)) & _lanes(8)
    np.left_shift(steps, np.uint64(3), out=steps)
    np.left_shift(flat, np.uint64(6), out=flat)
    np.add(flat, steps, out=flat)
    exponents = (scales.astype(np.uint16) << np.uint16(7)) + np.uint16((0x3EC0 - (127 << 7)) & 0xFFFF)
    grouped = codes.reshape(*scales.shape, 32)
    np.add(grouped, exponents[..., None], out=grouped)
    np.multiply(codes, rest.view(np.uint16).reshape(codes.shape), out=codes)
    np.bitwise_or(codes, signs.view(np.uint16).reshape(codes.shape), out=out)


def _by_values(blocks: Bytes, scales: Bytes, out: Halves) -> None:
    values = _FP4[_nibbles(blocks)].reshape(*scales.shape, 32)
    with np.errstate(over="ignore"):
        values = values * np.ldexp(np.float32(1.0), scales.astype(np.int32) - 127)[..., None]
    flat = values.reshape(out.shape)
    bfloat16_bits(flat, out, np.empty(flat.shape, np.uint32))


def from_int4(packed: Bytes, scales: Floats, zeros: Floats, size: int, out: Halves, through_half: bool = False) -> None:
    """(code − zero) × scale, as compressed-tensors dequantizes pack-quantized weights, rounded to bfloat16.

    `packed` [rows, bytes], `scales` and `zeros` (8 where the weights are symmetric) [rows, groups] for groups of `size`
    codes, `out` [rows, groups × size]. `through_half`: the scales were float16, and so is the reference's product.
    """
    rows, columns = out.shape
    step = max(1, WINDOW_ELEMENTS // max(1, columns))
    window = np.empty((step, columns), np.float32)
    spare = np.empty((step, columns), np.uint32)
    for first in range(0, rows, step):
        last = min(first + step, rows)
        part = window[: last - first]
        np.copyto(part, _nibbles(packed[first:last])[:, :columns])
        grouped = part.reshape(last - first, -1, size)
        np.subtract(grouped, zeros[first:last, :, None], out=grouped)
        np.multiply(grouped, scales[first:last, :, None], out=grouped)
        if through_half:
            with np.errstate(over="ignore"):
                np.copyto(part, part.astype(np.float16))
        bfloat16_bits(part, out[first:last], spare[: last - first])


def zero_points(packed: Bytes, rows: int) -> Floats:
    """Zero points [rows, groups] of pack-quantized weights, eight rows a word: [words, groups, 4 bytes] little-endian."""
    codes = _nibbles(packed)
    return codes.transpose(0, 2, 1).reshape(-1, packed.shape[1])[:rows].astype(np.float32)


def _nibbles(packed: Bytes) -> Halves:
    """Both halves of each byte as numbers, side by side in the order of the codes: [..., bytes] to [..., 2 × bytes]."""
    words = packed.astype(np.uint32)
    np.bitwise_or(words, words << np.uint32(12), out=words)
    np.bitwise_and(words, np.uint32(0x000F000F), out=words)
    return words.view(np.uint16)


def _lanes(number: int) -> np.uint64:
    """The number in each of the four 16-bit lanes of a 64-bit word."""
    return np.uint64(number * 0x0001000100010001)
