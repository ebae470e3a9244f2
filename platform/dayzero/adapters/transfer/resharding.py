"""Shards of one plan from those of another: each file of the checkpoint passes once more, joined from the ranks' files."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from dayzero.adapters.transfer.beside import small_of_shards
from dayzero.adapters.transfer.joined import ShardReader, joined_windows
from dayzero.adapters.transfer.sink import CHECKPOINT_BYTES, Sink
from dayzero.adapters.transfer.verifying import verify_shards
from dayzero.domain.canonical import digest
from dayzero.domain.shards import Integrity, ShardManifest, ShardSource
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError
from dayzero.ports.hub import Progress
from dayzero.stages.layout.joining import JoinedTensor, joined_tensors
from dayzero.stages.layout.replanning import index_of_shards


def reshard(
    shards: Path,
    layout: ShardManifest,
    into: Path,
    progress: Progress | None,
    *,
    config: Mapping[str, bytes] | None = None,
    integrity: Integrity = Integrity.SHA256,
    checkpoint_bytes: int = CHECKPOINT_BYTES,
) -> ShardManifest:
    """Write the layout's rank files under `into` from the shards of another plan, as if from the checkpoint itself; the small
    files beside those go with them, `config` in place of files of its names.

    The shards are checked first (`integrity` none: not their digests, and no source counts as verified). BadInputError: no
    manifest there, ranks missing, shards of another checkpoint, or `into` is their folder. IntegrityError: damaged shards.
    """
    manifest = verify_shards(shards, integrity=integrity)
    if manifest.content_id != layout.content_id:
        raise BadInputError(
            f"{shards} holds shards of {manifest.content_id[:12]}, not of {layout.content_id[:12]}.",
            remedy="Name the folder of shards of that model.",
        )
    if into.exists() and into.samefile(shards):
        raise BadInputError(f"{into} holds the shards that are read.", remedy="Write the new ones into another folder.")
    headers = _by_file(manifest)
    joined = {tensor.name: tensor for tensor in joined_tensors(manifest)}
    known = {source.path: source for source in manifest.sources} if integrity is Integrity.SHA256 else {}
    identity = digest([manifest.layout_digest, [file.digest for file in manifest.files]])
    with ExitStack() as stack:
        reader = stack.enter_context(ShardReader(shards))
        sink = stack.enter_context(Sink.over(layout, into, progress, checkpoint_bytes=checkpoint_bytes))
        for name in sink.passed():
            sink.recheck(name, identity)
        for name in sink.missing():
            _pass(sink, reader, name, identity, headers[name], joined, known.get(name))
        told = config or {}
        kept = [file for file in manifest.beside if file.path not in told]
        return sink.commit(
            small=chain(told.items(), small_of_shards(shards, kept)), vouched_by=manifest.vouched_by if known else ""
        )


def _by_file(manifest: ShardManifest) -> Mapping[str, tuple[TensorHeader, ...]]:
    """The checkpoint's tensors by file, in the order of their bytes."""
    found: dict[str, list[TensorHeader]] = {}
    for header in index_of_shards(manifest).tensors:
        found.setdefault(header.file, []).append(header)
    return {file: tuple(sorted(headers, key=lambda one: (one.begin, one.end))) for file, headers in found.items()}


def _pass(
    sink: Sink,
    reader: ShardReader,
    name: str,
    identity: str,
    headers: tuple[TensorHeader, ...],
    joined: Mapping[str, JoinedTensor],
    known: ShardSource | None,
) -> None:
    size_bytes = known.size_bytes if known is not None else max(header.end for header in headers)
    reached = sink.open(name, size_bytes, identity, headers)
    wanted = iter(sink.wanted(name))
    begin, end = next(wanted, (size_bytes, size_bytes))
    for header in headers:
        while end <= header.begin and begin < size_bytes:
            begin, end = next(wanted, (size_bytes, size_bytes))
        if begin >= header.end or header.end <= reached:
            continue
        for at, window in _later(joined_windows(reader, joined[header.name]), header.begin, reached):
            sink.write(name, at, window)
    sha256 = known.sha256 if known is not None else None
    sink.close(name, sha256, sha256 if known is not None and known.verified else None)


def _later(windows: Iterator[tuple[int, memoryview]], begin: int, reached: int) -> Iterator[tuple[int, memoryview]]:
    """The windows of a tensor that begins there, at their places in its file, without what passed in an earlier run."""
    for offset, window in windows:
        at = begin + offset
        if at + len(window) <= reached:
            continue
        with window[max(0, reached - at) :] as rest:
            yield max(at, reached), rest
