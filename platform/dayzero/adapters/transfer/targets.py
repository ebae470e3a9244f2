"""The rank files that are being written: opened, filled route by route, and given their names when all of them are whole."""

import os
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from dayzero.adapters.transfer.digests import TensorDigests
from dayzero.adapters.transfer.output import DIGESTS, INCOMPLETE, OutputFolder
from dayzero.adapters.transfer.rows import Rows
from dayzero.adapters.transfer.unfinished import UnfinishedFiles
from dayzero.disk import write_all
from dayzero.domain.shards import ShardFile, ShardManifest
from dayzero.stages.layout.ranks import shard_header
from dayzero.stages.transfer.digests import digest_lines, file_digest
from dayzero.stages.transfer.routing import Route

Finished = tuple[int, int, str]
"""A tensor that is whole: its rank file's place in the layout, its own place in that file, and its digest."""

BESIDE_BYTES = 1 << 20
"""From here on a piece is digested in another thread while it is written: handing it over costs less than it saves."""
_AT_ONCE = 4


class Targets:
    """The files of a layout at some `places`; several threads may bring bytes, each of other tensors."""

    def __init__(self, layout: ShardManifest, folder: OutputFolder, places: tuple[int, ...]) -> None:
        self.places = places
        self.descriptors: dict[int, int] = {}
        self._layout, self._folder = layout, folder
        self._headers = {place: shard_header(layout, layout.files[place]) for place in places}
        self._digests = {place: TensorDigests(layout.files[place].tensors) for place in places}
        self._threads = threading.local()
        self._beside = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dayzero-digest")
        self._bringers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dayzero-bring")

    def begin(self) -> None:
        """New files with their space reserved; DependencyError when there is too little."""
        self._let_go()
        sizes = {self._path(place) + INCOMPLETE: self._layout.files[place].size_bytes for place in self.places}
        opened = self._folder.reserve(sizes, f"sharding for {self._layout.degrees}")
        for place in self.places:
            self.descriptors[place] = opened[self._path(place) + INCOMPLETE]
            write_all(self.descriptors[place], self._headers[place], 0)

    def reopen(self, *, whole: bool) -> bool:
        """Open those of an earlier run; False when not all are there. Some have their final names when all were `whole`."""
        for place in self.places:
            path = self._path(place)
            names = (path + INCOMPLETE, path) if whole else (path + INCOMPLETE,)
            name = next((name for name in names if self._folder.size(name) == self._layout.files[place].size_bytes), None)
            if name is None:
                return False
            self.descriptors[place] = self._folder.open(name, os.O_RDWR)
        return True

    def know(self, tensors: Mapping[tuple[int, int], str]) -> None:
        """Take digests of tensors that an earlier run brought."""
        for (place, tensor), digest in tensors.items():
            self._digests[place].done[tensor] = digest

    def bring(self, routes: Iterable[Route], offset: int, window: memoryview, finished: list[Finished]) -> int:
        """Write what a window of the source, from `offset` on, has for some routes; how many bytes that was.

        Tensors that are whole with it are added to `finished`. Different rank files are written at the same time.
        """
        by_target: dict[int, list[Route]] = {}
        for route in routes:
            by_target.setdefault(route.target, []).append(route)

        def one(of_target: list[Route]) -> int:
            return sum(self._bring(route, offset, window, finished) for route in of_target)

        if len(by_target) <= 1:
            return sum(map(one, by_target.values()))
        bringing = [self._bringers.submit(one, of_target) for of_target in by_target.values()]
        # The window is let go behind this, so nobody may be at it any more when an error goes up.
        wait(bringing)
        return sum(each.result() for each in bringing)

    def digested(self) -> Mapping[int, ShardFile]:
        """The files with their digests, by place; tensors whose digest is not known are read again."""
        found = {}
        for place in self.places:
            tensors = self._digests[place].all(self.descriptors[place])
            digest = file_digest(self._headers[place], tensors)
            found[place] = replace(self._layout.files[place], digest=digest, tensor_digests=tensors)
        return found

    def stage_digests(self, files: tuple[ShardFile, ...]) -> None:
        """Put the tensors' digests on the disk, under names that nobody looks for yet."""
        for place in self.places:
            self._folder.stage(self._path(place) + DIGESTS, digest_lines(files[place].tensors, files[place].tensor_digests))

    def publish(self) -> None:
        """Give every file its name, and its digests theirs."""
        for place in self.places:
            path = self._path(place)
            if self._folder.size(path + INCOMPLETE) is not None:
                self._folder.rename(path + INCOMPLETE, path)
            self._folder.rename(path + DIGESTS + INCOMPLETE, path + DIGESTS)
        self._folder.sync()

    def unfinished(self) -> UnfinishedFiles:
        """All rank files of the folder as far as they are written."""
        return UnfinishedFiles(self._folder, {self._path(place): one for place, one in self.descriptors.items()})

    def close(self) -> None:
        """End the threads and let the files go."""
        for threads in (self._bringers, self._beside):
            threads.shutdown()
        self._let_go()

    def _let_go(self) -> None:
        for descriptor in self.descriptors.values():
            os.close(descriptor)
        self.descriptors.clear()

    def _bring(self, route: Route, offset: int, window: memoryview, finished: list[Finished]) -> int:
        begin, end = max(offset, route.begin), min(offset + len(window), route.end)
        with window[begin - offset : end - offset] as part:
            if route.contiguous:
                self._put(route, route.offset + begin - route.begin, part, finished)
                return end - begin
            written = 0
            for at, piece in self._rows().pieces(route, begin - route.begin, part):
                self._put(route, route.offset + at, piece, finished)
                written += len(piece)
            return written

    def _path(self, place: int) -> str:
        return self._layout.files[place].path

    def _rows(self) -> Rows:
        if not hasattr(self._threads, "rows"):
            self._threads.rows = Rows()
        rows: Rows = self._threads.rows
        return rows

    def _put(self, route: Route, at: int, piece: memoryview, finished: list[Finished]) -> None:
        digests = self._digests[route.target]
        if len(piece) < BESIDE_BYTES:
            write_all(self.descriptors[route.target], piece, at)
            whole = digests.update(route.tensor, at, piece)
        else:
            digesting = self._beside.submit(digests.update, route.tensor, at, piece)
            try:
                write_all(self.descriptors[route.target], piece, at)
            finally:
                whole = digesting.result()
        if whole:
            finished.append((route.target, route.tensor, digests.done[route.tensor]))
