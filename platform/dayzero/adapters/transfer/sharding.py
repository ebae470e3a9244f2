"""Sharding: rank files are written whole or not at all, with their digests; the manifest comes last."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dayzero.adapters.transfer.sources import WINDOW_BYTES, Sources
from dayzero.adapters.transfer.space import is_full, no_space, require_space
from dayzero.codec import dump, load
from dayzero.domain.canonical import digest
from dayzero.domain.shards import ShardFile, ShardManifest
from dayzero.errors import BadInputError, DayzeroError, DependencyError, UnavailableError
from dayzero.ports.hub import Progress
from dayzero.stages.layout.ranks import fold, shard_header, unfold

MANIFEST = "manifest.json"
INCOMPLETE = ".incomplete"


def write_shards(model_dir: Path, layout: ShardManifest, into: Path, progress: Progress | None) -> ShardManifest:
    """Write every rank's file of the layout under `into` and return the manifest with digests (also in manifest.json).

    A file that is there already is kept when its recorded layout is this one and its bytes still have the recorded digest.
    DependencyError: too little space (checked first), or the disk fails. BadInputError: the checkpoint is not what the layout
    was made from. UnavailableError: another process writes there.
    """
    for file in layout.files:
        if Path(file.path).name != file.path or file.path in ("", ".", ".."):
            raise BadInputError(f"the layout names a shard {file.path!r}; a shard is a plain file name.")
    with _held(into):
        kept = {file.path: sha256 for file in layout.files if (sha256 := _kept_digest(layout, file, into))}
        missing = [file for file in layout.files if file.path not in kept]
        needed_bytes = sum(file.size_bytes for file in missing) - _incomplete_bytes(into)
        require_space(into, max(0, needed_bytes), f"sharding {model_dir.name} for {layout.degrees}")
        counter = _Counter(progress, sum(file.size_bytes for file in layout.files))
        counter.add(sum(file.size_bytes for file in layout.files if file.path in kept))
        with Sources(model_dir) as sources:
            for file in missing:
                kept[file.path] = _write(sources, layout, file, into, counter)
        manifest = replace(layout, files=tuple(replace(file, sha256=kept[file.path]) for file in layout.files))
        _put(into / MANIFEST, dump(fold(manifest)))
        return manifest


def read_manifest(folder: Path) -> ShardManifest | None:
    """The manifest of a folder of shards, or None when its writing never ended; BadInputError when it is malformed."""
    path = folder / MANIFEST
    return unfold(load(ShardManifest, path.read_bytes())) if path.is_file() else None


class _Counter:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None and count:
            self._progress(self._done, self._total)


@contextmanager
def _held(into: Path) -> Iterator[None]:
    try:
        into.mkdir(parents=True, exist_ok=True)
        lock = (into / ".lock").open("w")
    except OSError as error:
        raise DependencyError(f"{into} cannot be written: {error.strerror}.", remedy="Choose a folder that can.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UnavailableError(f"another process is writing shards under {into}.", remedy="Let it finish.") from error
        yield


def _layout_digest(layout: ShardManifest, file: ShardFile) -> str:
    return digest([layout.content_id, layout.degrees, replace(file, sha256=None)])


def _record_path(file: ShardFile, into: Path) -> Path:
    return into / f"{file.path}.sha256"


def _kept_digest(layout: ShardManifest, file: ShardFile, into: Path) -> str | None:
    """The digest of a finished shard, if it is this layout's and its bytes still have it."""
    path, record = into / file.path, _record_path(file, into)
    if not path.is_file() or not record.is_file() or path.stat().st_size != file.size_bytes:
        return None
    sha256, _, made_for = record.read_text("utf-8", "replace").strip().partition("  ")
    if made_for != _layout_digest(layout, file):
        return None
    with path.open("rb") as stream:
        return sha256 if hashlib.file_digest(stream, "sha256").hexdigest() == sha256 else None


def _incomplete_bytes(into: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in into.glob(f"*{INCOMPLETE}"))


def _write(sources: Sources, layout: ShardManifest, file: ShardFile, into: Path, counter: _Counter) -> str:
    target = into / file.path
    partial = target.with_name(target.name + INCOMPLETE)
    _record_path(file, into).unlink(missing_ok=True)
    try:
        sha256 = _write_bytes(sources, layout, file, partial, counter)
        partial.replace(target)
        _put(_record_path(file, into), f"{sha256}  {_layout_digest(layout, file)}\n".encode())
    except OSError as error:
        if is_full(error):
            partial.unlink(missing_ok=True)
            raise no_space(into, file.size_bytes, 0, f"shard {file.path}") from error
        raise DependencyError(f"shard {target} cannot be written: {error.strerror}.") from error
    except DayzeroError:
        partial.unlink(missing_ok=True)
        raise
    return sha256


def _write_bytes(sources: Sources, layout: ShardManifest, file: ShardFile, partial: Path, counter: _Counter) -> str:
    hashed = hashlib.sha256()
    with partial.open("wb") as stream:
        descriptor = stream.fileno()
        at = 0
        for window in _windows(sources, layout, file):
            at = _write_all(descriptor, window, at)
            hashed.update(window)
            counter.add(len(window))
        if at != file.size_bytes:
            raise BadInputError(f"shard {file.path} came to {at} bytes; its layout says {file.size_bytes}.")
        os.fsync(descriptor)
    return hashed.hexdigest()


def _windows(sources: Sources, layout: ShardManifest, file: ShardFile) -> Iterator[bytes | memoryview | bytearray]:
    yield shard_header(file.tensors, file.rank, layout.degrees)
    for tensor in file.tensors:
        yield from sources.windows(tensor)


def _write_all(descriptor: int, window: bytes | memoryview | bytearray, at: int) -> int:
    with memoryview(window) as view:
        written = 0
        while written < len(view):
            with view[written : written + WINDOW_BYTES] as part:
                written += os.pwrite(descriptor, part, at + written)
    return at + written


def _put(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + INCOMPLETE)
    with partial.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
