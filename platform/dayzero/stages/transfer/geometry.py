"""Where a rank's part of a tensor lies in its source file: stretches of rows, and the spans that are taken of each row."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from dayzero.domain.shards import ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.errors import BadInputError

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """`count` rows of `row_bytes` from byte `begin` of the source; of each row the `spans` are taken. One row of one whole span
    is contiguous."""

    begin: int
    row_bytes: int
    count: int
    spans: tuple[Range, ...]

    @property
    def end(self) -> int:
        """The first source byte after the last row."""
        return self.begin + self.row_bytes * self.count

    @property
    def contiguous(self) -> bool:
        """Whether whole rows are taken, so that source and destination bytes lie alike."""
        return self.spans == ((0, self.row_bytes),)

    @property
    def taken_bytes(self) -> int:
        """Bytes that are taken of each row."""
        return sum(stop - start for start, stop in self.spans)


def stretches_of(tensor: ShardTensor, header: TensorHeader | None) -> tuple[Stretch, ...]:
    """A rank's part of a tensor, in the order in which the rank file has it; padding is in no source.

    `header` is the tensor's as its file has it (None: it has none). BadInputError: it is not what the layout was made from.
    """
    if header is None or header.dtype != tensor.dtype or _local_shape(header, tensor) != tensor.shape:
        found = f"{header.dtype} {list(header.shape)}" if header else "nothing"
        raise BadInputError(
            f"{tensor.file} holds {found} as tensor {tensor.name}, not what the layout was made from.",
            remedy="Fetch the model again.",
        )
    return tuple(_stretches(tensor, header))


def part_of(tensor: ShardTensor) -> tuple[int | None, tuple[Range, ...], tuple[Range, ...]]:
    """What tells parts of one tensor apart: ranks whose parts are equal take the same bytes."""
    return tensor.dim, _pieces(tensor), tensor.rows


def _pieces(tensor: ShardTensor) -> tuple[Range, ...]:
    return () if tensor.dim is None else tensor.pieces or ((tensor.start, tensor.stop),)


def _stretches(tensor: ShardTensor, header: TensorHeader) -> Iterator[Stretch]:
    if not header.size_bytes:
        return
    if not header.shape:
        yield Stretch(header.begin, header.size_bytes, 1, ((0, header.size_bytes),))
        return
    first_bytes = header.size_bytes // header.shape[0]
    for first, last in tensor.rows or ((0, header.shape[0]),):
        begin, size = header.begin + first * first_bytes, (last - first) * first_bytes
        if not size:
            continue
        if tensor.dim is None:
            yield Stretch(begin, size, 1, ((0, size),))
        elif tensor.dim == 0:
            for start, stop in _pieces(tensor):
                taken = (stop - start) * first_bytes
                yield Stretch(begin + start * first_bytes, taken, 1, ((0, taken),))
        else:
            count = (last - first) * prod(header.shape[1 : tensor.dim])
            unit_bits = prod(header.shape[tensor.dim + 1 :]) * DTYPE_BITS[header.dtype]
            spans = tuple((start * unit_bits // 8, stop * unit_bits // 8) for start, stop in _pieces(tensor))
            yield Stretch(begin, size // count, count, spans)


def _local_shape(header: TensorHeader, tensor: ShardTensor) -> tuple[int, ...] | None:
    """The shape that the layout's part of such a tensor has; None when the tensor does not reach so far."""
    shape = header.shape
    if tensor.rows:
        if not shape or not _inside(tensor.rows, shape[0]):
            return None
        shape = (sum(last - first for first, last in tensor.rows), *shape[1:])
    if tensor.dim is None:
        return shape
    pieces = _pieces(tensor)
    if tensor.dim >= len(shape) or not _inside(pieces, header.shape[tensor.dim]):
        return None
    taken = sum(stop - start for start, stop in pieces) + _padding_rows(header, tensor)
    return (*shape[: tensor.dim], taken, *shape[tensor.dim + 1 :])


def _inside(ranges: tuple[Range, ...], size: int) -> bool:
    return all(0 <= first <= last <= size for first, last in ranges)


def _padding_rows(header: TensorHeader, tensor: ShardTensor) -> int:
    row_bits = prod(header.shape[1:]) * DTYPE_BITS[header.dtype]
    return tensor.padding_bytes * 8 // row_bits if tensor.dim == 0 and row_bits else 0
