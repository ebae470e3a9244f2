"""Where the bytes of a source file go: to which rank files, at which offsets, contiguous or as spans of rows."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from dayzero.domain.shards import ShardManifest, ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.errors import BadInputError

Range = tuple[int, int]
Slice = tuple[int, int]
"""A tensor of a rank file: the file's place in the manifest, and the tensor's place in the file."""


@dataclass(frozen=True, slots=True)
class Route:
    """`count` rows of `row_bytes` from byte `begin` of the source; of each row, the `spans` follow one another at `offset` of
    rank file `target`. A contiguous route is one row of one span. `tensor` is the tensor's place in the rank file."""

    begin: int
    row_bytes: int
    count: int
    spans: tuple[Range, ...]
    target: int
    offset: int
    tensor: int

    @property
    def end(self) -> int:
        """The first source byte after the route."""
        return self.begin + self.row_bytes * self.count

    @property
    def contiguous(self) -> bool:
        """Whether source and destination bytes lie alike."""
        return self.spans == ((0, self.row_bytes),)

    @property
    def taken_bytes(self) -> int:
        """Bytes of each row that reach the destination."""
        return sum(stop - start for start, stop in self.spans)


class Routes:
    """The routes of one source file, by place; `over` finds those that a window of the file touches."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(sorted(routes, key=lambda route: (route.begin, route.end, route.target, route.offset)))
        self._begins = [route.begin for route in self.routes]
        self._reaches = list(accumulate((route.end for route in self.routes), max))

    def over(self, begin: int, end: int) -> Iterator[Route]:
        """The routes that touch source bytes [begin, end), by place."""
        for at in range(bisect_right(self._reaches, begin), len(self.routes)):
            if self._begins[at] >= end:
                return
            if self.routes[at].end > begin:
                yield self.routes[at]

    def wanted(self) -> tuple[Range, ...]:
        """The source ranges that somebody takes bytes of (gaps inside of rows included), rising and apart."""
        joined: list[Range] = []
        for route in self.routes:
            if joined and route.begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(route.end, joined[-1][1]))
            else:
                joined.append((route.begin, route.end))
        return tuple(joined)


def tensors_by_source(manifest: ShardManifest, targets: Iterable[int] | None = None) -> Mapping[str, tuple[Slice, ...]]:
    """What each source file is needed for: the tensors of the rank files (of `targets`, or all), by source file."""
    found: dict[str, list[Slice]] = {}
    for target in range(len(manifest.files)) if targets is None else targets:
        for place, tensor in enumerate(manifest.files[target].tensors):
            found.setdefault(tensor.file, []).append((target, place))
    return {file: tuple(slices) for file, slices in sorted(found.items())}


def routes_of(manifest: ShardManifest, slices: Iterable[Slice], headers: Iterable[TensorHeader]) -> Routes:
    """The routes of one source file to the given tensors of rank files, from the headers that the file really has.

    BadInputError: the file does not hold a tensor as the layout took it.
    """
    known = {header.name: header for header in headers}
    routes: list[Route] = []
    for target, place in slices:
        tensor = manifest.files[target].tensors[place]
        header = known.get(tensor.name)
        if header is None or header.dtype != tensor.dtype or _local_shape(header, tensor) != tensor.shape:
            found = f"{header.dtype} {list(header.shape)}" if header else "nothing"
            raise BadInputError(
                f"{tensor.file} holds {found} as tensor {tensor.name}, not what the layout was made from.",
                remedy="Fetch the model again.",
            )
        routes += _of_tensor(tensor, header, target, place)
    return Routes(routes)


def _of_tensor(tensor: ShardTensor, header: TensorHeader, target: int, place: int) -> Iterator[Route]:
    offset = tensor.begin
    for begin, row_bytes, count, spans in _stretches(tensor, header):
        taken = sum(stop - start for start, stop in spans) * count
        if taken:
            yield Route(begin, row_bytes, count, spans, target, offset, place)
        offset += taken


def _stretches(tensor: ShardTensor, header: TensorHeader) -> Iterator[tuple[int, int, int, tuple[Range, ...]]]:
    """(begin, row bytes, rows, spans) in the order in which the destination has them."""
    if not header.size_bytes:
        return
    if not header.shape:
        yield header.begin, header.size_bytes, 1, ((0, header.size_bytes),)
        return
    first_bytes = header.size_bytes // header.shape[0]
    pieces = tensor.pieces or ((tensor.start, tensor.stop),)
    for first, last in tensor.rows or ((0, header.shape[0]),):
        begin, size = header.begin + first * first_bytes, (last - first) * first_bytes
        if tensor.dim is None:
            yield begin, size, 1, ((0, size),)
        elif tensor.dim == 0:
            for start, stop in pieces:
                taken = (stop - start) * first_bytes
                yield begin + start * first_bytes, taken, 1, ((0, taken),)
        else:
            count = (last - first) * prod(header.shape[1 : tensor.dim])
            unit_bits = prod(header.shape[tensor.dim + 1 :]) * DTYPE_BITS[header.dtype]
            spans = tuple((start * unit_bits // 8, stop * unit_bits // 8) for start, stop in pieces)
            yield begin, size // count, count, spans


def _local_shape(header: TensorHeader, tensor: ShardTensor) -> tuple[int, ...] | None:
    """The shape that the layout's part of such a tensor has; None when the tensor does not reach so far."""
    shape = header.shape
    if tensor.rows:
        if not shape or not _inside(tensor.rows, shape[0]):
            return None
        shape = (sum(last - first for first, last in tensor.rows), *shape[1:])
    if tensor.dim is None:
        return shape
    pieces = tensor.pieces or ((tensor.start, tensor.stop),)
    if tensor.dim >= len(shape) or not _inside(pieces, header.shape[tensor.dim]):
        return None
    taken = sum(stop - start for start, stop in pieces) + _padding_rows(header, tensor)
    return (*shape[: tensor.dim], taken, *shape[tensor.dim + 1 :])


def _inside(ranges: tuple[Range, ...], size: int) -> bool:
    return all(0 <= first <= last <= size for first, last in ranges)


def _padding_rows(header: TensorHeader, tensor: ShardTensor) -> int:
    row_bits = prod(header.shape[1:]) * DTYPE_BITS[header.dtype]
    return tensor.padding_bytes * 8 // row_bits if tensor.dim == 0 and row_bits else 0
