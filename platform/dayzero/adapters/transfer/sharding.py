"""Sharding from this disk: each source file passes once, its slices are written to all ranks, its sha256 runs beside."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dayzero.adapters.transfer.beside import small_of_checkpoint
from dayzero.adapters.transfer.sink import CHECKPOINT_BYTES, Sink
from dayzero.adapters.transfer.sources import SourceFile
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.errors import BadInputError, DependencyError
from dayzero.ports.hub import Progress


def write_shards(
    model_dir: Path,
    layout: ShardManifest,
    into: Path,
    progress: Progress | None,
    *,
    integrity: Integrity = Integrity.SHA256,
    stated: Mapping[str, str] | None = None,
    beside: Sequence[str] = (),
    checkpoint_bytes: int = CHECKPOINT_BYTES,
) -> ShardManifest:
    """Write every rank's file of the layout under `into` and return the manifest with digests (also in manifest.json).

    A file that is there already is kept when its recorded layout is this one and its bytes still have the recorded digests; an
    earlier run that did not end is gone on with. `stated` is the digest of files as their release has it (sha256, or git blob
    id); `beside` names small files of the checkpoint's folder that are copied beside the shards.
    DependencyError: too little space (checked first), or the disk fails. BadInputError: the checkpoint is not what the layout
    was made from, or it changes meanwhile. IntegrityError: a source file has another digest than stated. UnavailableError:
    another process writes there.
    """
    hashed = integrity is Integrity.SHA256
    names = layout.source_files
    _require_apart(model_dir, names, layout, into)
    stated = stated or {}
    required = {name: stated.get(name) for name in names} if hashed else {}
    with Sink.over(layout, into, progress, required=required, checkpoint_bytes=checkpoint_bytes) as sink:
        for name in sink.passed():
            with closing(SourceFile(model_dir, name)) as source:
                sink.recheck(name, source.identity)
        _pass_all(sink, model_dir, stated, hashed)
        return sink.commit(small=small_of_checkpoint(model_dir, beside, stated))


@dataclass(frozen=True, slots=True)
class _Passed:
    source: SourceFile
    sha256: Future[str] | None


def _pass_all(sink: Sink, model_dir: Path, stated: Mapping[str, str], hashed: bool) -> None:
    """Pass the sources in turn. The hash of one may still run while the next one passes, never two behind."""
    passed: list[_Passed] = []
    with ThreadPoolExecutor(1, thread_name_prefix="dayzero-sha256") as hasher:
        try:
            for name in sink.missing():
                source = SourceFile(model_dir, name)
                passed.append(_Passed(source, hasher.submit(source.digest, stated.get(name)) if hashed else None))
                _pass(sink, source)
                if len(passed) > 1:
                    _close(sink, passed.pop(0), stated)
            while passed:
                _close(sink, passed.pop(0), stated)
        finally:
            for one in passed:
                one.source.close()


def _pass(sink: Sink, source: SourceFile) -> None:
    reached = sink.open(source.name, source.size_bytes, source.identity, source.headers())
    for begin, end in sink.wanted(source.name):
        for offset, window in source.windows(max(begin, reached), end):
            try:
                sink.write(source.name, offset, window)
            except DependencyError:
                # Bytes that are gone from under the mapping read like a disk that fails.
                source.require_unchanged()
                raise


def _close(sink: Sink, passed: _Passed, stated: Mapping[str, str]) -> None:
    try:
        sha256 = passed.sha256.result() if passed.sha256 is not None else None
        passed.source.require_unchanged()
        sink.close(passed.source.name, sha256, stated.get(passed.source.name))
    finally:
        passed.source.close()


def _require_apart(model_dir: Path, names: tuple[str, ...], layout: ShardManifest, into: Path) -> None:
    """BadInputError when a rank file would take the place of a source."""
    if into.exists() and model_dir.exists() and into.samefile(model_dir):
        taken = sorted({file.path for file in layout.files}.intersection(names))
        if taken:
            raise BadInputError(f"{taken[0]} in {into} is a source of the shards.", remedy="Write them into another folder.")
