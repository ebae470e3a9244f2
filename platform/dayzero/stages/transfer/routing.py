"""Where the bytes of a source file go: to which rank files, at which offsets, contiguous or as spans of rows."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from dayzero.domain.shards import ShardManifest, ShardTensor
from dayzero.domain.tensors import TensorHeader
from dayzero.stages.transfer.geometry import Range, Stretch, stretches_of

Slice = tuple[int, int]
"""A tensor of a rank file: the file's place in the manifest, and the tensor's place in the file."""


@dataclass(frozen=True, slots=True)
class Route(Stretch):
    """A stretch of the source whose spans follow one another at `offset` of rank file `target`; `tensor` is the tensor's place
    in that file."""

    target: int
    offset: int
    tensor: int


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
        routes += _of_tensor(tensor, known.get(tensor.name), target, place)
    return Routes(routes)


def _of_tensor(tensor: ShardTensor, header: TensorHeader | None, target: int, place: int) -> Iterator[Route]:
    offset = tensor.begin
    for stretch in stretches_of(tensor, header):
        taken = stretch.taken_bytes * stretch.count
        if taken:
            yield Route(stretch.begin, stretch.row_bytes, stretch.count, stretch.spans, target, offset, place)
        offset += taken
