"""Where models and artifacts come from and go to."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from dayzero.domain.release import Release
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.domain.slices import SlicePlan
from dayzero.domain.tensors import CheckpointIndex
from dayzero.domain.transfers import Room, TransferEstimate
from dayzero.domain.vouching import Witness
from dayzero.domain.watching import RepoListing

Progress = Callable[[int, int | None], None]
"""Called with (bytes done, bytes in all or None)."""


class Hub(Protocol):
    """A place that publishes models. Errors: NotFoundError, BlockedError (gated: 401/403), UnavailableError (down, slow,
    429 with retry_after_s), IntegrityError, BadInputError (names that climb out of the repository)."""

    def list_repos(
        self, *, author: str | None, task: str | None, since: datetime | None, limit: int | None
    ) -> Iterator[RepoListing]:
        """Repositories, newest first, lazily over pages."""
        ...

    def release(self, repo_id: str, revision: str | None) -> Release:
        """The release at a revision (None: the head), pinned to its commit sha, with files, sizes and digests."""
        ...

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        """Exactly the bytes [begin, end) of a file; IntegrityError when the hub sends fewer or more."""
        ...

    def stream(
        self, release: Release, path: str, ranges: Sequence[tuple[int, int]], *, connections: int = 1
    ) -> Generator[tuple[int, memoryview], None, None]:
        """(offset, window) of the ranges [begin, end) of a file, which rise and lie apart: every byte once, in order.

        Asked for as it is consumed, at most a bounded number of windows ahead; closing the iterator ends the transfer.
        `connections` above one ask for parts of one file at the same time. IntegrityError: the hub sends something else than
        was asked for, or has another file now. Nothing is checked against a digest: only whoever has all bytes can.
        """
        ...

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        """A whole small file (configuration, index), checked against its digest; BadInputError above max_bytes."""
        ...

    def download(self, release: Release, path: str, into: Path, progress: Progress | None) -> Path:
        """The file under `into` at its relative path, resumed if partly there, checked against its digest before it
        gets its final name."""
        ...


class ArtifactStore(Protocol):
    """Content-addressed files: evidence, bundles, logs."""

    def put(self, data: bytes | BinaryIO, *, media_type: str, name: str) -> str:
        """Store and return the sha256; storing the same bytes twice is one file."""
        ...

    def open(self, sha256: str) -> BinaryIO:
        """The bytes; NotFoundError when there are none."""
        ...


class Transfer(Protocol):
    """Moves weights onto the worker's disk."""

    def fetch(self, hub: Hub, release: Release, into: Path, progress: Progress | None) -> Path:
        """All files that adaptation needs, checked, under `into`; resumed, never partial under a final name."""
        ...

    def stream(
        self,
        hub: Hub,
        release: Release,
        index: CheckpointIndex,
        layout: ShardManifest,
        into: Path,
        progress: Progress | None,
        *,
        slices: SlicePlan | None = None,
        witness: Witness | None = None,
        integrity: Integrity = Integrity.SHA256,
    ) -> ShardManifest:
        """Write the layout's rank files from what the hub sends, each byte once and no file kept whole, and the release's small
        files beside them: all of the source files, checked against the hub's digests, or only the `slices` that the layout's
        ranks need, checked against what the `witness` states of the same plan where there is one. IntegrityError: nothing is
        committed."""
        ...

    def room(self, release: Release, into: Path) -> Room:
        """What is known before a stream: free space, and the rate that can be expected from there."""
        ...

    def estimate(self, hub: Hub, release: Release, into: Path) -> TransferEstimate:
        """What `fetch` would move, before it does; files that are there already count as moved."""
        ...

    def shard(
        self,
        model_dir: Path,
        layout: ShardManifest,
        into: Path,
        progress: Progress | None,
        *,
        integrity: Integrity = Integrity.SHA256,
        stated: Mapping[str, str] | None = None,
        beside: Sequence[str] = (),
    ) -> ShardManifest:
        """Write the layout's rank files from the checkpoint, with digests in the returned manifest; written shards that
        match are kept, an earlier run that did not end is gone on with. `stated`: the sha256 of files by path, as their release
        has them; IntegrityError when one differs. `beside`: small files of the folder that are copied beside the shards."""
        ...

    def verify(self, shards_dir: Path, progress: Progress | None) -> ShardManifest:
        """The manifest of written shards; IntegrityError names the files and tensors whose bytes differ from it."""
        ...
