"""The sink: windows of source files go in, every rank's slices come out; nothing has its final name before it is committed."""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from dayzero.adapters.transfer.beside import SmallContent, put_beside
from dayzero.adapters.transfer.digests import TensorDigests
from dayzero.adapters.transfer.flushing import Flusher
from dayzero.adapters.transfer.journal import Head, Journal, Line, Said
from dayzero.adapters.transfer.journal import Progress as Reached
from dayzero.adapters.transfer.keeping import kept_shards
from dayzero.adapters.transfer.output import DIGESTS, INCOMPLETE, MANIFEST, OutputFolder, require_plain_names
from dayzero.adapters.transfer.rows import Rows
from dayzero.adapters.transfer.unfinished import UnfinishedFiles
from dayzero.adapters.transfer.vouching import sha256_of
from dayzero.adapters.transfer.writeback import BEGIN_BYTES, begin_writing
from dayzero.codec import dump
from dayzero.counting import Counter
from dayzero.disk import write_all
from dayzero.domain.shards import ShardManifest, ShardSource
from dayzero.domain.tensors import TensorHeader
from dayzero.domain.vouching import ShardStatement, Witness
from dayzero.errors import DayzeroError, IntegrityError
from dayzero.ports.hub import Progress
from dayzero.stages.layout.ranks import fold, shard_header
from dayzero.stages.transfer.digests import digest_lines, file_digest
from dayzero.stages.transfer.routing import Route, Routes, routes_of, tensors_by_source

CHECKPOINT_BYTES = 512 * 1024 * 1024
"""How many bytes are written between two moments at which they are made durable: what a power cut may cost."""


@dataclass(slots=True)
class _Passing:
    """A source file on its way."""

    routes: Routes
    size_bytes: int
    at: int
    finished: list[tuple[int, int, str]] = field(default_factory=list)


class Sink:
    """Writes the slices of every rank of a layout as the bytes of its source files pass.

    For each of `missing()`: `open` it, `write` its windows in order from where `open` says, `close` it with what became of its
    hash; then `commit`. Several source files may pass at the same time, each from a thread of its own. A sink that is left
    without a commit leaves a journal, and the next one over the same layout goes on from there.
    """

    def __init__(
        self,
        layout: ShardManifest,
        folder: OutputFolder,
        required: Mapping[str, str | None],
        progress: Progress | None,
        checkpoint_bytes: int,
    ) -> None:
        kept = kept_shards(folder, layout, required)
        self._layout, self._folder, self._required, self._kept = layout, folder, required, kept
        self._targets = kept.missing
        self._headers = {target: shard_header(layout, layout.files[target]) for target in self._targets}
        self._slices = tensors_by_source(layout, self._targets)
        self._digests = {target: TensorDigests(layout.files[target].tensors) for target in self._targets}
        self._journal = Journal(folder, Head(kept.layout_digest, self._targets))
        self._descriptors: dict[int, int] = {}
        self._passing: dict[str, _Passing] = {}
        self._closed: list[Line] = []
        self._reached: dict[str, Reached] = {}
        self._sizes: dict[str, int] = {source.path: source.size_bytes for source in kept.sources}
        self._rows = threading.local()
        self._lock = threading.Lock()
        self._flusher = Flusher(folder, self._journal, self._descriptors)
        self._unflushed, self._unbegun, self._checkpoint_bytes = 0, 0, checkpoint_bytes
        self._counter = Counter(progress, sum(file.size_bytes for file in layout.files))

    @classmethod
    @contextmanager
    def over(
        cls,
        layout: ShardManifest,
        into: Path,
        progress: Progress | None = None,
        *,
        required: Mapping[str, str | None] | None = None,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
    ) -> Iterator[Self]:
        """A sink into a folder; what an earlier one committed or left is found again.

        `required`: the sha256 that a source must have for what was made of it to be kept (None: any); none by default.
        BadInputError: names that climb, links in the folder. DependencyError: too little space, or not writable.
        UnavailableError: another process writes there.
        """
        require_plain_names(file.path for file in layout.files)
        with OutputFolder.held(into) as folder:
            sink = cls(layout, folder, required or {}, progress, checkpoint_bytes)
            try:
                sink._prepare()
                yield sink
            finally:
                sink._leave()

    def missing(self) -> tuple[str, ...]:
        """The source files that have still to pass, sorted."""
        return tuple(file for file in self._slices if not (file in self._reached and self._reached[file].done))

    def passed(self) -> tuple[str, ...]:
        """The source files that passed whole in an earlier run."""
        return tuple(file for file in self._slices if file in self._reached and self._reached[file].done)

    def recheck(self, source: str, identity: str) -> None:
        """A source that passed in an earlier run is missing again when it is another file now or lacks the required hash."""
        reached, required = self._reached[source], self._required.get(source)
        hashed = source not in self._required or (reached.sha256 is not None and required in (None, reached.sha256))
        reached.done = reached.identity == identity and hashed

    def open(self, source: str, size_bytes: int, identity: str, headers: Iterable[TensorHeader], *, resume: bool = True) -> int:
        """The offset from which the bytes of a source are wanted: 0, or further when an earlier run brought some of it.

        BadInputError: the file is not what the layout was made from.
        """
        routes = routes_of(self._layout, self._slices[source], headers)
        known = self._reached.get(source)
        if known is None or known.identity != identity or not resume:
            known = Reached(identity)
            self._flusher.say([Line(Said.BEGAN, source, identity)])
        for (target, place), digest in known.tensors.items():
            self._digests[target].done[place] = digest
        self._reached[source] = known
        self._passing[source] = _Passing(routes, size_bytes, known.to)
        self._sizes[source] = size_bytes
        self._counter.add(_bytes_before(routes, known.to))
        return known.to

    def wanted(self, source: str) -> tuple[tuple[int, int], ...]:
        """The ranges of an open source that some rank takes bytes of."""
        return self._passing[source].routes.wanted()

    def unfinished(self) -> UnfinishedFiles:
        """The rank files as far as they are written."""
        return UnfinishedFiles(
            self._folder, {self._layout.files[target].path: one for target, one in self._descriptors.items()}
        )

    def write(self, source: str, offset: int, window: memoryview) -> None:
        """Bring the bytes of a source from `offset` to the ranks that take them. DependencyError: the disk fails."""
        passing = self._passing[source]
        written = 0
        try:
            for route in passing.routes.over(offset, offset + len(window)):
                written += self._bring(passing, route, offset, window)
        except OSError as error:
            raise self._folder.refusal("the shards", error) from error
        passing.at = offset + len(window)
        self._counter.add(written)
        with self._lock:
            self._unflushed += written
            self._unbegun += written
            if self._unflushed >= self._checkpoint_bytes:
                self._checkpoint()
            elif self._unbegun >= BEGIN_BYTES:
                self._unbegun = 0
                begin_writing(self._descriptors.values())

    def close(self, source: str, sha256: str | None, stated: str | None = None) -> None:
        """The source has passed whole. IntegrityError when its hash is not the stated one: its bytes then count for nothing."""
        if sha256 is not None and stated is not None and sha256 != stated:
            self._flusher.say([Line(Said.REJECTED, source)])
            raise IntegrityError(
                f"{source} has the sha256 {sha256}, its release states {stated}; its slices stay in {INCOMPLETE} files under "
                f"{self._folder.path}, and no shard was made of them.",
                remedy="Fetch the file again, then repeat: only this file passes again.",
            )
        reached, passing = self._reached[source], self._passing[source]
        reached.sha256, reached.verified, reached.to = sha256, sha256 is not None and stated is not None, passing.size_bytes
        with self._lock:
            del self._passing[source]
            reached.done = True
            finished = tuple(passing.finished)
            self._closed.append(Line(Said.DONE, source, "", reached.to, sha256, reached.verified, finished))

    def commit(
        self, witness: Witness | None = None, small: Iterable[SmallContent] = (), *, vouched_by: str = ""
    ) -> ShardManifest:
        """Give every rank file its name, put the `small` files beside them and write the manifest; all sources have passed.

        `witness`: what a trusted node states of these rank files. IntegrityError, and nothing is committed, when one differs;
        where all agree, their sources' hashes hold here too. `vouched_by`: whose word the sources are taken on already.
        """
        assert not self.missing(), "a source has not passed"
        if self._targets:
            with self._lock:
                self._checkpoint()
            self._flusher.wait()
        files = list(self._kept.files)
        for target in self._targets:
            tensor_digests = self._digests[target].all(self._descriptors[target])
            digest = file_digest(self._headers[target], tensor_digests)
            files[target] = replace(self._layout.files[target], digest=digest, tensor_digests=tensor_digests)
        sources = {source.path: source for source in self._kept.sources}
        vouched_by = vouched_by or (self._kept.manifest.vouched_by if sources and self._kept.manifest else "")
        for path, reached in self._reached.items():
            sources[path] = ShardSource(path, self._sizes[path], reached.sha256, reached.verified)
        if witness is not None and witness.statement is not None and not all(one.verified for one in sources.values()):
            self._require_stated(witness.statement)
            known = {source.path: source for source in witness.statement.sources}
            sources, vouched_by = {path: known[path] for path in sources}, witness.key_id
        ordered = tuple(sources[path] for path in sorted(sources))
        manifest = replace(
            self._layout,
            files=tuple(files),
            sources=ordered,
            layout_digest=self._kept.layout_digest,
            vouched_by=vouched_by,
        )
        manifest = self._publish(manifest, small)
        self._counter.finish()
        return manifest

    def small_file(self, name: str) -> bytes | None:
        """What lies beside the rank files under a name; None for nothing."""
        return self._folder.read(name)

    def _require_stated(self, statement: ShardStatement) -> None:
        """Every rank file has the stated sha256; those that do not pass again, or are set aside where they were kept."""
        stated = {file.path: file.sha256 for file in statement.files}
        with self.unfinished() as unfinished:
            found = sha256_of([unfinished.descriptor(file.path) for file in self._layout.files])
        differ = [file.path for file, sha256 in zip(self._layout.files, found, strict=True) if stated[file.path] != sha256]
        if not differ:
            return
        if self._targets:
            self._flusher.say([Line(Said.REJECTED, source) for source in self._reached])
        for target, file in enumerate(self._layout.files):
            if file.path in differ and target not in self._targets:
                self._folder.quarantine(file.path)
        raise IntegrityError(
            f"{', '.join(differ[:5])} differ from the shards of {statement.content_id[:12]} for {statement.degrees} that "
            f"another node made of whole files; nothing was committed in {self._folder.path}.",
            remedy="Fetch again; if it stays so, the hub sends this node other bytes than that one.",
        )

    def _publish(self, manifest: ShardManifest, small: Iterable[SmallContent]) -> ShardManifest:
        try:
            for target in self._targets:
                file = manifest.files[target]
                self._folder.stage(file.path + DIGESTS, digest_lines(file.tensors, file.tensor_digests))
            if self._targets and self._kept.manifest is not None and self._kept.manifest.files != manifest.files:
                self._folder.remove(MANIFEST)
                self._folder.sync()
            for target in self._targets:
                path = self._layout.files[target].path
                if self._folder.size(path + INCOMPLETE) is not None:
                    self._folder.rename(path + INCOMPLETE, path)
                self._folder.rename(path + DIGESTS + INCOMPLETE, path + DIGESTS)
            self._folder.sync()
            beside = put_beside(self._folder, small, [file.path for file in manifest.files])
            manifest = replace(manifest, beside=beside)
            if self._targets or self._kept.manifest != manifest:
                self._folder.put(MANIFEST, dump(fold(manifest)))
            self._journal.remove()
        except OSError as error:
            raise self._folder.refusal("the shards", error) from error
        return manifest

    def _prepare(self) -> None:
        """Open the targets: those of an earlier run with what its journal says, or new ones with their space reserved."""
        kept = set(range(len(self._layout.files))) - set(self._targets)
        self._counter.add(sum(self._layout.files[target].size_bytes for target in kept))
        left = self._journal.left()
        if left is not None and self._reopened(left):
            self._reached = left
            for file, reached in left.items():
                if reached.done and file in self._slices:
                    self._sizes[file] = reached.to
        else:
            self._begin()
        for reached in self._reached.values():
            if reached.done:
                for (target, place), digest in reached.tensors.items():
                    self._digests[target].done[place] = digest

    def _begin(self) -> None:
        sizes = {
            self._layout.files[target].path + INCOMPLETE: self._layout.files[target].size_bytes for target in self._targets
        }
        self._close_targets()
        opened = self._folder.reserve(sizes, f"sharding for {self._layout.degrees}")
        for target in self._targets:
            self._descriptors[target] = opened[self._layout.files[target].path + INCOMPLETE]
            write_all(self._descriptors[target], self._headers[target], 0)
        if self._targets:
            self._journal.begin()

    def _reopened(self, left: Mapping[str, Reached]) -> bool:
        """Whether all targets are there; a target may have its final name already when all sources had passed."""
        whole = all(file in left and left[file].done for file in self._slices)
        for target in self._targets:
            file = self._layout.files[target]
            names = (file.path + INCOMPLETE, file.path) if whole else (file.path + INCOMPLETE,)
            name = next((name for name in names if self._folder.size(name) == file.size_bytes), None)
            if name is None:
                return False
            self._descriptors[target] = self._folder.open(name, os.O_RDWR)
        return True

    def _bring(self, passing: _Passing, route: Route, offset: int, window: memoryview) -> int:
        begin, end = max(offset, route.begin), min(offset + len(window), route.end)
        if route.contiguous:
            with window[begin - offset : end - offset] as piece:
                self._put(passing, route, route.offset + begin - route.begin, piece)
            return end - begin
        written = 0
        rows = self._rows_of_thread()
        with window[begin - offset : end - offset] as part:
            for at, piece in rows.pieces(route, begin - route.begin, part):
                self._put(passing, route, route.offset + at, piece)
                written += len(piece)
        return written

    def _rows_of_thread(self) -> Rows:
        if not hasattr(self._rows, "rows"):
            self._rows.rows = Rows()
        rows: Rows = self._rows.rows
        return rows

    def _put(self, passing: _Passing, route: Route, at: int, piece: memoryview) -> None:
        digests = self._digests[route.target]
        write_all(self._descriptors[route.target], piece, at)
        if digests.update(route.tensor, at, piece):
            passing.finished.append((route.target, route.tensor, digests.done[route.tensor]))

    def _checkpoint(self) -> None:
        """Make what is written so far durable beside the writing, and say so in the journal."""
        lines, self._closed = self._closed, []
        for source, passing in list(self._passing.items()):
            finished, passing.finished = passing.finished, []
            self._reached[source].to = passing.at
            self._reached[source].tensors.update(((target, place), digest) for target, place, digest in finished)
            lines.append(Line(Said.PASSED, source, "", passing.at, None, False, tuple(finished)))
        self._unflushed = self._unbegun = 0
        self._flusher.flush(lines)

    def _close_targets(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _leave(self) -> None:
        if self._closed or self._passing:
            # An error is on its way up: what passed before it need not pass again, if the disk still takes it.
            with suppress(DayzeroError), self._lock:
                self._checkpoint()
                self._flusher.wait()
        self._flusher.close()
        self._journal.close()
        self._close_targets()


def _bytes_before(routes: Routes, to: int) -> int:
    """Bytes of rank files that the source's first `to` bytes make."""
    return sum(
        max(0, min(to, route.end) - route.begin) * route.taken_bytes // route.row_bytes
        for route in routes.routes
        if route.begin < to
    )
