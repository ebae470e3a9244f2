"""One tensor's conversion, window by window: where in the new file which bytes go."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dayzero.adapters.conversion.four_bits import from_int4, from_mxfp4, zero_points
from dayzero.adapters.conversion.fp8_blocks import from_fp8, to_fp8
from dayzero.adapters.conversion.mapping import MappedFiles
from dayzero.adapters.conversion.rounding import Bytes, Floats, float32_of
from dayzero.domain.conversion import Conversion, ConversionKind
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError

WINDOW_BYTES = 8 * 1024 * 1024
"""Bytes of a window of what is written; a few windows are in memory at once."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of output number `output` at `offset` from its begin."""

    output: int
    offset: int
    content: Array


Work = Callable[[], tuple[Piece, ...]]
"""Makes the pieces of one window; may run in any thread."""


def windows(files: MappedFiles, one: Conversion) -> Iterator[Work]:
    """The work of a conversion in windows. Each raises BadInputError for values that cannot be converted."""
    made = {
        ConversionKind.KEEP: _kept,
        ConversionKind.FROM_FP8_BLOCK: _from_fp8,
        ConversionKind.FROM_MXFP4: _from_mxfp4,
        ConversionKind.FROM_INT4: _from_int4,
        ConversionKind.TO_FP8_BLOCK: _to_fp8,
    }[one.kind]
    return made(files, one)


def _kept(files: MappedFiles, one: Conversion) -> Iterator[Work]:
    source = one.values
    for begin in range(source.begin, source.end, WINDOW_BYTES):
        end = min(begin + WINDOW_BYTES, source.end)

        def work(begin: int = begin, end: int = end) -> tuple[Piece, ...]:
            return (Piece(0, begin - source.begin, files.bytes_of(source.file, begin, end)),)

        yield work


def _from_fp8(files: MappedFiles, one: Conversion) -> Iterator[Work]:
    rows, columns = one.values.shape[-2:]
    scales = _scales(files, one).reshape(-1, -(-rows // one.block[0]), -(-columns // one.block[1]))
    for matrix, first, last in _row_windows(one, 2 * columns):

        def work(matrix: int = matrix, first: int = first, last: int = last) -> tuple[Piece, ...]:
            at = matrix * rows + first
            values = _rows(files, one.values, at, last - first, columns)
            out = np.empty((last - first, columns), np.uint16)
            of_rows = scales[matrix, first // one.block[0] : -(-last // one.block[0])]
            from_fp8(values, of_rows, one.block, out)
            return (Piece(0, 2 * at * columns, out),)

        yield work


def _to_fp8(files: MappedFiles, one: Conversion) -> Iterator[Work]:
    rows, columns = one.values.shape[-2:]
    grid = (-(-rows // one.block[0]), -(-columns // one.block[1]))
    for matrix, first, last in _row_windows(one, 2 * columns):

        def work(matrix: int = matrix, first: int = first, last: int = last) -> tuple[Piece, ...]:
            at = matrix * rows + first
            values = _rows(files, one.values, at, last - first, 2 * columns).view(np.uint16)
            out = np.empty((last - first, columns), np.uint8)
            row_block = first // one.block[0]
            scales = np.empty((-(-last // one.block[0]) - row_block, grid[1]), np.float32)
            if not to_fp8(values, one.block, out, scales):
                raise BadInputError(
                    f"{one.values.name} holds values that are not finite; they have no place in FP8.",
                    remedy="Keep the format that it has; the weights may be damaged.",
                )
            return (Piece(0, at * columns, out), Piece(1, 4 * (matrix * grid[0] + row_block) * grid[1], scales))

        yield work


def _from_mxfp4(files: MappedFiles, one: Conversion) -> Iterator[Work]:
    """A stretch of an expert's inputs at a time: its matrix is turned, and they become rows."""
    assert one.scales is not None
    experts, rows, groups, width = one.values.shape
    scale_header = one.scales
    step = max(1, WINDOW_BYTES // max(1, 4 * width * rows))
    for expert, first in product(range(experts if rows else 0), range(0, groups, step)):

        def work(expert: int = expert, first: int = first) -> tuple[Piece, ...]:
            part = slice(first, min(first + step, groups))
            scales = np.ascontiguousarray(_rows(files, scale_header, expert * rows, rows, groups)[:, part])
            if scales.max(initial=0) == 0xFF:
                raise BadInputError(f"{scale_header.name} holds 255, which is no scale.", remedy="Fetch the model again.")
            blocks = _rows(files, one.values, expert * rows, rows, groups * width).reshape(rows, groups, width)[:, part]
            values = np.empty((rows, 2 * width * scales.shape[1]), np.uint16)
            from_mxfp4(blocks.reshape(rows, -1), scales, values)
            offset = 4 * width * rows * (expert * groups + first)
            return (Piece(0, offset, np.ascontiguousarray(values.T)),)

        yield work


def _from_int4(files: MappedFiles, one: Conversion) -> Iterator[Work]:
    assert one.scales is not None
    columns = one.outputs[0].shape[1]
    groups, half = one.scales.shape[1], one.scales.dtype == "F16"
    scales, zeros = _scales(files, one), _zeros(files, one)
    # Words hold whole rows of codes; a row may end within a word.
    row_bytes = one.values.shape[1] * 4
    for _, first, last in _row_windows(one, 2 * columns):

        def work(first: int = first, last: int = last) -> tuple[Piece, ...]:
            packed = _rows(files, one.values, first, last - first, row_bytes)
            out = np.empty((last - first, columns), np.uint16)
            from_int4(packed, scales[first:last], zeros[first:last], columns // groups, out, half)
            return (Piece(0, 2 * first * columns, out),)

        yield work


def _row_windows(one: Conversion, row_bytes: int) -> Iterator[tuple[int, int, int]]:
    """(matrix, first row, last row) of windows that begin at a block's first row."""
    shape = one.outputs[0].shape
    rows, matrices = shape[-2], int(np.prod(shape[:-2], dtype=np.int64))
    if 0 in shape:
        return
    step = max(1, WINDOW_BYTES // (row_bytes * one.block[0])) * one.block[0]
    for matrix in range(matrices):
        for first in range(0, rows, step):
            yield matrix, first, min(first + step, rows)


def _rows(files: MappedFiles, tensor: TensorHeader, first: int, count: int, row_bytes: int) -> Bytes:
    begin = tensor.begin + first * row_bytes
    return files.bytes_of(tensor.file, begin, begin + count * row_bytes).reshape(count, row_bytes)


def _scales(files: MappedFiles, one: Conversion) -> Floats:
    """The scales in float32, in their shape; they are hundreds of times fewer than the values."""
    assert one.scales is not None
    found = one.scales
    raw = np.frombuffer(files.bytes_of(found.file, found.begin, found.end).tobytes(), np.uint8)
    if found.dtype in ("F8_E8M0", "U8"):
        values = np.ldexp(np.float32(1.0), raw.astype(np.int32) - 127).astype(np.float32)
        values[raw == 0xFF] = np.nan
    elif found.dtype == "BF16":
        values = np.empty(raw.size // 2, np.float32)
        float32_of(raw.view(np.uint16), values)
    else:
        values = raw.view(np.float16 if found.dtype == "F16" else np.float32).astype(np.float32)
    if not np.isfinite(values).all():
        raise BadInputError(f"{found.name} holds scales that are not finite.", remedy="Fetch the model again.")
    return values.reshape(found.shape)


def _zeros(files: MappedFiles, one: Conversion) -> Floats:
    """The zero point of each row and group; 8, the middle of the codes, where the weights are symmetric."""
    assert one.scales is not None
    rows, groups = one.scales.shape
    if one.zero_points is None:
        return np.broadcast_to(np.float32(8), (rows, groups))
    found = one.zero_points
    raw = files.bytes_of(found.file, found.begin, found.end).reshape(found.shape[0], groups, 4)
    return zero_points(raw, rows)
