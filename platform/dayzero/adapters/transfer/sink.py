"""The sink: windows of source files go in, every rank's slices come out; nothing has its final name before it is committed."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from dayzero.adapters.transfer.beside import SmallContent, put_beside
from dayzero.adapters.transfer.flushing import Flusher
from dayzero.adapters.transfer.journal import Head, Journal, Line, Said
from dayzero.adapters.transfer.journal import Progress as Reached
from dayzero.adapters.transfer.keeping import kept_shards
from dayzero.adapters.transfer.output import INCOMPLETE, MANIFEST, OutputFolder, require_plain_names
from dayzero.adapters.transfer.targets import Finished, Targets
from dayzero.adapters.transfer.unfinished import UnfinishedFiles
from dayzero.adapters.transfer.vouching import sha256_of
from dayzero.adapters.transfer.writeback import BEGIN_BYTES
from dayzero.codec import dump
from dayzero.counting import Counter
from dayzero.domain.shards import ShardManifest, ShardSource
from dayzero.domain.tensors import TensorHeader
from dayzero.domain.vouching import ShardStatement, Witness
from dayzero.errors import DayzeroError, IntegrityError
from dayzero.ports.hub import Progress
from dayzero.stages.layout.ranks import fold
from dayzero.stages.transfer.routing import Routes, routes_of, tensors_by_source

CHECKPOINT_BYTES = 2 * 1024 * 1024 * 1024
"""How many bytes are written between two moments at which they are made durable: what a power cut may cost."""


@dataclass(slots=True)
class _Passing:
    """A source file on its way."""

    routes: Routes
    size_bytes: int
    at: int
    finished: list[Finished] = field(default_factory=list)


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
        self._targets = Targets(layout, folder, kept.missing)
        self._slices = tensors_by_source(layout, kept.missing)
        self._journal = Journal(folder, Head(kept.layout_digest, kept.missing))
        self._passing: dict[str, _Passing] = {}
        self._closed: list[Line] = []
        self._reached: dict[str, Reached] = {}
        self._sizes: dict[str, int] = {source.path: source.size_bytes for source in kept.sources}
        self._lock = threading.Lock()
        self._flusher = Flusher(folder, self._journal, self._targets.descriptors)
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
        self._targets.know(known.tensors)
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
        return self._targets.unfinished()

    def write(self, source: str, offset: int, window: memoryview) -> None:
        """Bring the bytes of a source from `offset` to the ranks that take them. DependencyError: the disk fails."""
        passing = self._passing[source]
        try:
            routes = passing.routes.over(offset, offset + len(window))
            written = self._targets.bring(routes, offset, window, passing.finished)
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
                self._flusher.begin()

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
        if self._targets.places:
            with self._lock:
                self._checkpoint()
            self._flusher.wait()
        written = self._targets.digested()
        files = tuple(written.get(place, file) for place, file in enumerate(self._kept.files))
        sources, voucher = self._sources(witness, vouched_by)
        manifest = replace(
            self._layout, files=files, sources=sources, layout_digest=self._kept.layout_digest, vouched_by=voucher
        )
        manifest = self._publish(manifest, small)
        self._counter.finish()
        return manifest

    def _sources(self, witness: Witness | None, vouched_by: str) -> tuple[tuple[ShardSource, ...], str]:
        """What is known of the sources, by path, and on whose word."""
        sources = {source.path: source for source in self._kept.sources}
        vouched_by = vouched_by or (self._kept.manifest.vouched_by if sources and self._kept.manifest else "")
        for path, reached in self._reached.items():
            sources[path] = ShardSource(path, self._sizes[path], reached.sha256, reached.verified)
        if witness is not None and witness.statement is not None and not all(one.verified for one in sources.values()):
            self._require_stated(witness.statement)
            known = {source.path: source for source in witness.statement.sources}
            sources, vouched_by = {path: known[path] for path in sources}, witness.key_id
        return tuple(sources[path] for path in sorted(sources)), vouched_by

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
        if self._targets.places:
            self._flusher.say([Line(Said.REJECTED, source) for source in self._reached])
        for target, file in enumerate(self._layout.files):
            if file.path in differ and target not in self._targets.places:
                self._folder.quarantine(file.path)
        raise IntegrityError(
            f"{', '.join(differ[:5])} differ from the shards of {statement.content_id[:12]} for {statement.degrees} that "
            f"another node made of whole files; nothing was committed in {self._folder.path}.",
            remedy="Fetch again; if it stays so, the hub sends this node other bytes than that one.",
        )

    def _publish(self, manifest: ShardManifest, small: Iterable[SmallContent]) -> ShardManifest:
        try:
            self._targets.stage_digests(manifest.files)
            if self._targets.places and self._kept.manifest is not None and self._kept.manifest.files != manifest.files:
                self._folder.remove(MANIFEST)
                self._folder.sync()
            self._targets.publish()
            beside = put_beside(self._folder, small, [file.path for file in manifest.files])
            manifest = replace(manifest, beside=beside)
            if self._targets.places or self._kept.manifest != manifest:
                self._folder.put(MANIFEST, dump(fold(manifest)))
            self._journal.remove()
        except OSError as error:
            raise self._folder.refusal("the shards", error) from error
        return manifest

    def _prepare(self) -> None:
        """Open the targets: those of an earlier run with what its journal says, or new ones with their space reserved."""
        kept = set(range(len(self._layout.files))) - set(self._targets.places)
        self._counter.add(sum(self._layout.files[target].size_bytes for target in kept))
        left = self._journal.left()
        if left is None or not self._targets.reopen(whole=all(file in left and left[file].done for file in self._slices)):
            self._targets.begin()
            if self._targets.places:
                self._journal.begin()
            return
        self._reached = left
        for file, reached in left.items():
            if reached.done:
                self._targets.know(reached.tensors)
                if file in self._slices:
                    self._sizes[file] = reached.to

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

    def _leave(self) -> None:
        if self._closed or self._passing:
            # An error is on its way up: what passed before it need not pass again, if the disk still takes it.
            with suppress(DayzeroError), self._lock:
                self._checkpoint()
                self._flusher.wait()
        self._flusher.close()
        self._journal.close()
        self._targets.close()


def _bytes_before(routes: Routes, to: int) -> int:
    """Bytes of rank files that the source's first `to` bytes make."""
    return sum(
        max(0, min(to, route.end) - route.begin) * route.taken_bytes // route.row_bytes
        for route in routes.routes
        if route.begin < to
    )
