"""Where releases are held on this site's own disk."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from dayzero.domain.release import Release, RepoFile
from dayzero.domain.stored import Evicted, StoredRelease
from dayzero.ports.hub import Hub, Progress


class ReleaseStore(Protocol):
    """Files of releases, each held once by its sha256."""

    def releases(self) -> tuple[StoredRelease, ...]:
        """What is referred to, by content id; BadInputError names a reference that cannot be read."""
        ...

    def object(self, sha256: str) -> Path | None:
        """Where an object lies; None when it is not here."""
        ...

    def held(self, release: Release, file: RepoFile) -> Path | None:
        """The object of a release's file, in its full size; None when it is not held."""
        ...

    def taking(self, release: Release, files: Sequence[RepoFile]) -> AbstractContextManager[tuple[Evicted, ...]]:
        """Room for these files, promised and pinned while the context lasts; what had to go.

        Before anything is fetched, BlockedError: they do not fit under the limit; DependencyError: the disk is too full.
        """
        ...

    def obtain(self, hub: Hub, release: Release, file: RepoFile, progress: Progress | None = None) -> Path:
        """The object of a file, fetched from the hub when no process has it yet; who comes second waits for it.
        Errors are those of `hub.download`."""
        ...

    def hold(self, content_id: str) -> None:
        """No eviction of the content as long as this process lives."""
        ...

    def lease(self, content_id: str) -> None:
        """The content is used now, and not evicted for some minutes; where the folder cannot be written, only read on."""
        ...
