"""Rank files that are being written, read back: what passed of a source before a kill, for its hash."""

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from dayzero.adapters.transfer.joined import fill_from, joined_windows
from dayzero.adapters.transfer.output import OutputFolder
from dayzero.stages.transfer.gathering import Piece


class UnfinishedFiles:
    """The rank files of a folder that is written into: those under way, and finished ones. A context manager."""

    def __init__(self, folder: OutputFolder, under_way: Mapping[str, int]) -> None:
        self._folder, self._under_way = folder, under_way
        self._opened: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for descriptor in self._opened.values():
            os.close(descriptor)

    def fill(self, file: str, begin: int, into: memoryview) -> None:
        """Exactly so many bytes of a rank file from `begin` on; IntegrityError when it ends before."""
        fill_from(self.descriptor(file), self._folder.path / file, begin, into)

    def descriptor(self, file: str) -> int:
        """The open rank file, under whichever name it has now."""
        descriptor = self._under_way.get(file, self._opened.get(file))
        if descriptor is None:
            descriptor = self._opened[file] = self._folder.open(file, os.O_RDONLY)
        return descriptor

    def windows(self, piece: Piece) -> Iterator[memoryview]:
        """The bytes of a piece whose tensor is here, in order, each window good until the next."""
        assert piece.tensor is not None
        length = piece.end - piece.begin
        for offset, window in joined_windows(self, piece.tensor):
            if offset >= length:
                return
            with window[: length - offset] as wanted:
                yield wanted
