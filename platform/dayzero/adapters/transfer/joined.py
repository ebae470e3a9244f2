"""Whole tensors out of the ranks' files, window by window."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from dayzero.errors import DependencyError, IntegrityError
from dayzero.stages.layout.joining import JoinedTensor, Slab

WINDOW_BYTES = 8 * 1024 * 1024


class RankReader(Protocol):
    """Rank files by name."""

    def fill(self, file: str, begin: int, into: memoryview) -> None:
        """Exactly so many bytes of a rank file from `begin` on; IntegrityError when it ends before."""
        ...


class ShardReader:
    """The rank files of a folder, opened when they are asked for; a context manager that closes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)

    def fill(self, file: str, begin: int, into: memoryview) -> None:
        """Exactly so many bytes of a rank file from `begin` on; IntegrityError when it ends before."""
        path = self._folder / file
        try:
            if file not in self._open:
                self._open[file] = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise DependencyError(
                f"{path} cannot be read: {error.strerror}.", remedy="See who may read it, and whether the disk is well."
            ) from error
        fill_from(self._open[file], path, begin, into)


def fill_from(descriptor: int, path: Path, begin: int, into: memoryview) -> None:
    """Exactly so many bytes of an open file from `begin` on; IntegrityError when it ends before."""
    at = 0
    while at < len(into):
        try:
            with into[at:] as rest:
                count = os.preadv(descriptor, [rest], begin + at)
        except OSError as error:
            raise DependencyError(
                f"{path} cannot be read: {error.strerror}.", remedy="See who may read it, and whether the disk is well."
            ) from error
        if not count:
            raise IntegrityError(
                f"{path} ends at byte {begin + at}; its manifest says more.",
                remedy="Write the shards again: what is whole is kept.",
            )
        at += count


def joined_windows(reader: RankReader, tensor: JoinedTensor) -> Iterator[tuple[int, memoryview]]:
    """(offset in the tensor, bytes) in order, each good until the next."""
    buffer = bytearray(WINDOW_BYTES)
    for slab in tensor.slabs:
        for at, window in _straight(reader, slab, buffer) if slab.outer == 1 else _gathered(reader, slab):
            yield slab.offset + at, window


def _straight(reader: RankReader, slab: Slab, buffer: bytearray) -> Iterator[tuple[int, memoryview]]:
    """Pieces one after the other; what several ranks hold is taken from the first of them."""
    pieces = []
    for part in slab.slices:
        at = part.begin
        for start, stop in part.pieces:
            pieces.append((start * slab.unit_bytes, stop * slab.unit_bytes, part.file, at))
            at += (stop - start) * slab.unit_bytes
    reached = 0
    with memoryview(buffer) as view:
        for start, stop, file, begin in sorted(pieces):
            for at in range(max(start, reached), stop, WINDOW_BYTES):
                with view[: min(WINDOW_BYTES, stop - at)] as window:
                    reader.fill(file, begin + at - start, window)
                    yield at, window
            reached = max(reached, stop)


def _gathered(reader: RankReader, slab: Slab) -> Iterator[tuple[int, memoryview]]:
    """Rows of which several ranks hold parts, put together block by block."""
    import numpy

    row_bytes = slab.extent * slab.unit_bytes
    if not row_bytes:
        return
    step = max(1, min(slab.outer, WINDOW_BYTES // row_bytes))
    rows = numpy.empty((step, row_bytes), numpy.uint8)
    scratch = numpy.empty(step * row_bytes, numpy.uint8)
    for first in range(0, slab.outer, step):
        count = min(step, slab.outer - first)
        for part in slab.slices:
            width = sum(stop - start for start, stop in part.pieces) * slab.unit_bytes
            reader.fill(part.file, part.begin + first * width, scratch[: count * width].data)
            source, at = scratch[: count * width].reshape(count, width), 0
            for start, stop in part.pieces:
                size = (stop - start) * slab.unit_bytes
                numpy.copyto(rows[:count, start * slab.unit_bytes : stop * slab.unit_bytes], source[:, at : at + size])
                at += size
        yield first * row_bytes, rows[:count].reshape(-1).data
