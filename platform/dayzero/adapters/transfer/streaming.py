"""Shards straight from a hub: its bytes pass once, are hashed as they pass, and go to the ranks; no file is kept whole."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from dayzero.adapters.transfer.beside import small_of_hub
from dayzero.adapters.transfer.digests import SourceHashes
from dayzero.adapters.transfer.sink import CHECKPOINT_BYTES, Sink
from dayzero.domain.release import Release, RepoFile
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.domain.slices import SlicePlan
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.domain.vouching import Witness
from dayzero.errors import IntegrityError
from dayzero.ports.hub import Hub, Progress
from dayzero.stages.headers.files import file_of
from dayzero.stages.transfer.digests import stated_hash
from dayzero.stages.transfer.gathering import Piece, lacking, pieces_before

_TRIES = 2
"""A file whose hash is wrong passes once more: a bad line is likelier than a bad publisher. A hub that lies is then named."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Source:
    file: RepoFile
    headers: tuple[TensorHeader, ...]
    slices: tuple[Range, ...] | None

    @property
    def identity(self) -> str:
        """What tells versions of the file apart; slices and whole files do not go on from each other."""
        how = "whole" if self.slices is None else "slices"
        return f"{how}:{self.file.sha256 or self.file.git_blob_id or ''}:{self.file.size_bytes}"


def stream_shards(
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
    connections: int = 8,
    checkpoint_bytes: int = CHECKPOINT_BYTES,
) -> ShardManifest:
    """Write the layout's rank files under `into` from what the hub sends, several files at a time, and the release's small
    files beside them.

    Whole files by default, each checked against the digest that the hub states; with `slices` only those ranges, which no hub
    states a digest of: they are checked against what a `witness` of the site states of the same plan, or stay unverified.
    Errors: those of the hub and the sink; IntegrityError when digests differ, and then nothing is committed.
    """
    hashed = integrity is Integrity.SHA256 and slices is None
    sources = _sources(release, index, layout, slices, hashed)
    required = {name: source.file.sha256 for name, source in sources.items()} if hashed else {}
    with Sink.over(layout, into, progress, required=required, checkpoint_bytes=checkpoint_bytes) as sink:
        for name in sink.passed():
            sink.recheck(name, sources[name].identity)
        _Streams(hub, release, layout, sink, hashed).run([sources[name] for name in sink.missing()], connections)
        return sink.commit(witness, small_of_hub(hub, release, sink.small_file))


def _sources(
    release: Release, index: CheckpointIndex, layout: ShardManifest, slices: SlicePlan | None, hashed: bool
) -> Mapping[str, _Source]:
    headers: dict[str, list[TensorHeader]] = {}
    for header in index.tensors:
        headers.setdefault(header.file, []).append(header)
    ranges = {one.file: one.ranges for one in slices.files} if slices is not None else {}
    found = {}
    for name in layout.source_files:
        source = _Source(file_of(release, name), tuple(headers.get(name, ())), None if slices is None else ranges.get(name, ()))
        if hashed and stated_hash(source.file) is None:
            raise IntegrityError(
                f"{release.ref}: the hub states no digest of {name}, so it cannot be checked.",
                remedy="Fetch it with --integrity none if you trust it; nothing built on it is verified then.",
            )
        found[name] = source
    return found


class _Streams:
    """Several files on their way, each in a thread that pulls its windows: whoever writes slowly is sent slowly."""

    def __init__(self, hub: Hub, release: Release, layout: ShardManifest, sink: Sink, hashed: bool) -> None:
        self._hub, self._release, self._layout, self._sink, self._hashed = hub, release, layout, sink, hashed
        self._given_up = Event()

    def run(self, sources: Sequence[_Source], connections: int) -> None:
        """All of them; the first error ends the others, and what is written already is gone on with the next time."""
        workers = max(1, min(connections, len(sources)))
        with ThreadPoolExecutor(workers, thread_name_prefix="dayzero-stream") as pool:
            passing = [pool.submit(self._pass, source, max(1, connections // workers)) for source in sources]
            try:
                done, _ = wait(passing, return_when=FIRST_EXCEPTION)
                for one in done:
                    one.result()
            finally:
                self._given_up.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _pass(self, source: _Source, connections: int) -> None:
        for left in reversed(range(_TRIES)):
            try:
                self._pass_once(source, connections, again=left + 1 < _TRIES)
                return
            except IntegrityError:
                if not left or not self._hashed:
                    raise

    def _pass_once(self, source: _Source, connections: int, *, again: bool) -> None:
        file = source.file
        reached = self._sink.open(file.path, file.size_bytes, source.identity, source.headers, resume=not again)
        ranges = [(0, file.size_bytes)] if self._hashed else list(source.slices or self._sink.wanted(file.path))
        left = [(max(begin, reached), end) for begin, end in ranges if end > reached]
        # A hash cannot be gone on with by another process: what passed before is hashed again, from the rank files.
        before = pieces_before(self._layout, source.headers, reached) if self._hashed else ()
        hashes = SourceHashes(file)
        if left or before:
            self._write(source, hashes, before, left, connections)
        if self._given_up.is_set():
            return
        try:
            self._sink.close(file.path, *((hashes.sha256, hashes.stated) if self._hashed else (None, None)))
        except IntegrityError as error:
            raise IntegrityError(
                f"{file.path} of {self._release.ref} is not what the hub said: {error.message}",
                remedy="Try again; if it stays so, do not trust this copy. What came right is kept.",
            ) from error

    def _write(
        self, source: _Source, hashes: SourceHashes, before: Sequence[Piece], ranges: Sequence[Range], connections: int
    ) -> None:
        """Bring the windows to the sink; the hash of one runs while it is written and the next one comes."""
        path = source.file.path
        hashing: Future[None] | None = None
        windows = self._hub.stream(self._release, path, [*lacking(before), *ranges], connections=connections)
        with ThreadPoolExecutor(1, thread_name_prefix="dayzero-hash") as hasher, closing(windows):
            self._hash_again(hashes, before, windows)
            for offset, window in windows:
                if self._given_up.is_set():
                    break
                if hashing is not None:
                    hashing.result()
                hashing = hasher.submit(hashes.update, window) if self._hashed else None
                self._sink.write(path, offset, window)

    def _hash_again(self, hashes: SourceHashes, before: Sequence[Piece], windows: Iterator[tuple[int, memoryview]]) -> None:
        """What passed in an earlier run: from the rank files, and what they do not hold as the first of the windows."""
        with self._sink.unfinished() as files:
            for piece in before:
                here = files.windows(piece) if piece.tensor is not None else _up_to(windows, piece.end)
                for window in here:
                    if self._given_up.is_set():
                        return
                    hashes.update(window)


def _up_to(windows: Iterator[tuple[int, memoryview]], end: int) -> Iterator[memoryview]:
    """The windows of one range."""
    for offset, window in windows:
        yield window
        if offset + len(window) >= end:
            return
