"""Spans of rows: gathered block by block into one buffer, so that each rank's slice is written in long pieces."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from dayzero.errors import DependencyError
from dayzero.stages.transfer.routing import Route

BLOCK_BYTES = 4 * 1024 * 1024


class Rows:
    """Cuts the spans of a strided route out of windows; one for each thread."""

    def __init__(self) -> None:
        self._numpy = _numpy()
        self._buffer: Any = self._numpy.empty(0, dtype=self._numpy.uint8)

    def pieces(self, route: Route, at: int, part: memoryview) -> Iterator[tuple[int, memoryview]]:
        """(offset in the route's destination, bytes) of what a part of the source gives; it starts `at` bytes into the route.

        A piece is only good until the next one is asked for.
        """
        done = 0
        if at % route.row_bytes:
            head = min(len(part), route.row_bytes - at % route.row_bytes)
            yield from _torn(route, at, part[:head])
            done = head
        whole = (len(part) - done) // route.row_bytes
        if whole:
            yield from self._whole(route, (at + done) // route.row_bytes, part[done : done + whole * route.row_bytes], whole)
            done += whole * route.row_bytes
        if done < len(part):
            yield from _torn(route, at + done, part[done:])

    def _whole(self, route: Route, first: int, part: memoryview, count: int) -> Iterator[tuple[int, memoryview]]:
        numpy, taken = self._numpy, route.taken_bytes
        step = max(1, min(count, BLOCK_BYTES // taken))
        if self._buffer.size < step * taken:
            self._buffer = numpy.empty(step * taken, dtype=numpy.uint8)
        source = numpy.frombuffer(part, numpy.uint8).reshape(count, route.row_bytes)
        for row in range(0, count, step):
            rows = min(step, count - row)
            block = self._buffer[: rows * taken].reshape(rows, taken)
            column = 0
            for start, stop in route.spans:
                numpy.copyto(block[:, column : column + stop - start], source[row : row + rows, start:stop])
                column += stop - start
            yield (first + row) * taken, memoryview(block).cast("B")


def _torn(route: Route, at: int, part: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The spans of one row of which only a part is here."""
    row, begin = divmod(at, route.row_bytes)
    column = row * route.taken_bytes
    for start, stop in route.spans:
        first, last = max(start, begin), min(stop, begin + len(part))
        if first < last:
            yield column + first - start, part[first - begin : last - begin]
        column += stop - start


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError as error:
        raise DependencyError(
            "slices of weights need numpy.", remedy="Install the extra: pip install 'dayzero[worker]'."
        ) from error
    return numpy
