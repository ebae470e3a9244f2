"""A hub behind the store: what is held comes from this site's disk, and what is downloaded is held from then on."""

import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from datetime import datetime
from io import FileIO
from pathlib import Path

from dayzero.adapters.objects.store import ObjectStore
from dayzero.domain.release import Release, RepoFile
from dayzero.domain.watching import RepoListing
from dayzero.errors import BadInputError, IntegrityError
from dayzero.ports.hub import Hub, Progress
from dayzero.stages.headers.files import file_of

_WINDOW_BYTES = 4 << 20


class StoredHub:
    """The hub as it was, over a store; see the port."""

    def __init__(self, hub: Hub, store: ObjectStore) -> None:
        self._hub, self._store = hub, store

    def list_repos(
        self, *, author: str | None, task: str | None, since: datetime | None, limit: int | None
    ) -> Iterator[RepoListing]:
        """What the hub lists."""
        return self._hub.list_repos(author=author, task=task, since=since, limit=limit)

    def release(self, repo_id: str, revision: str | None) -> Release:
        """What the hub says."""
        return self._hub.release(repo_id, revision)

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        """The bytes [begin, end) of a file, from its object where it is held."""
        source = self._opened(release, path)
        if source is None:
            return self._hub.read_range(release, path, begin, end)
        return b"".join(bytes(window) for _, window in _windows(source, file_of(release, path), ((begin, end),)))

    def stream(
        self, release: Release, path: str, ranges: Sequence[tuple[int, int]], *, connections: int = 1
    ) -> Generator[tuple[int, memoryview], None, None]:
        """(offset, window) of rising ranges of a file, from its object where it is held."""
        source = self._opened(release, path)
        if source is None:
            yield from self._hub.stream(release, path, ranges, connections=connections)
        else:
            yield from _windows(source, file_of(release, path), ranges)

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        """A whole small file, from its object where it is held; an object with other bytes is set aside."""
        source = self._opened(release, path) if file_of(release, path).size_bytes <= max_bytes else None
        if source is not None:
            with source:
                content, name = source.read(), _name(source)
            if hashlib.sha256(content).hexdigest() == name:
                return content
            self._store.set_aside(name)
        return self._hub.read_small(release, path, max_bytes)

    def download(self, release: Release, path: str, into: Path, progress: Progress | None) -> Path:
        """The file under `into`; below the store's own views it is another name of its object, elsewhere a copy of its own."""
        file = file_of(release, path)
        if not into.absolute().is_relative_to(self._store.folder.models):
            return self._hub.download(release, path, into, progress)
        with self._store.taking(release, (file,)):
            place = self._store.obtain(self._hub, release, file, progress)
            target = self._store.show(release, file, place, into)
        if progress is not None:
            progress(file.size_bytes, file.size_bytes)
        return target

    def _opened(self, release: Release, path: str) -> FileIO | None:
        """The object of a file, open: an eviction does not take it from whoever reads it. None: it is not held."""
        place = self._store.held(release, file_of(release, path))
        if place is None:
            return None
        try:
            source = FileIO(place)
        except FileNotFoundError:
            return None
        self._store.used(release.content_id)
        return source


def _windows(
    source: FileIO, file: RepoFile, ranges: Sequence[tuple[int, int]]
) -> Generator[tuple[int, memoryview], None, None]:
    with source:
        for begin, end in ranges:
            if not 0 <= begin <= end <= file.size_bytes:
                raise BadInputError(f"bytes {begin} to {end} of {file.path} are asked for; it has {file.size_bytes}.")
            os.posix_fadvise(source.fileno(), begin, end - begin, os.POSIX_FADV_SEQUENTIAL)
            source.seek(begin)
            while begin < end:
                window = source.read(min(_WINDOW_BYTES, end - begin))
                if not window:
                    raise IntegrityError(
                        f"the object {_name(source)[:12]} of {file.path} is shorter than its {file.size_bytes} bytes.",
                        remedy="Run `dayzero store verify`: it sets damaged objects aside, and they are fetched again.",
                    )
                yield begin, memoryview(window)
                begin += len(window)


def _name(source: FileIO) -> str:
    return Path(str(source.name)).name
