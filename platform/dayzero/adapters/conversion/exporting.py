"""Shards of any plan back into a plain checkpoint folder: every tensor as it was, the index, and the files beside them."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np
import xxhash

from dayzero.adapters.conversion.beside import copy_beside
from dayzero.adapters.conversion.counter import Counter
from dayzero.adapters.conversion.folder import whole_folder
from dayzero.adapters.conversion.mapping import MappedFiles
from dayzero.adapters.conversion.rounding import Bytes
from dayzero.codec import load
from dayzero.disk import write_whole
from dayzero.domain.shards import ShardFile, ShardManifest, ShardTensor
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError, IntegrityError
from dayzero.ports.hub import Progress
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE
from dayzero.stages.headers.writing import aligned, index_document, placed_file
from dayzero.stages.layout.joining import JoinedTensor, Slab, joined_tensors
from dayzero.stages.layout.ranks import unfold
from dayzero.stages.transfer.digests import file_digest

MANIFEST = "manifest.json"
WINDOW_BYTES = 8 * 1024 * 1024
_HASH_BYTES = 1024 * 1024


def export_shards(
    shards: Path, out: Path, beside: Path | None = None, *, check_digests: bool = True, progress: Progress | None = None
) -> tuple[TensorHeader, ...]:
    """Write the tensors of the shards, whole, to `out`, in the files that they came from; `beside` is a folder whose
    configuration and tokenizer go with them.

    `out` is there whole or not at all. BadInputError: no manifest, missing ranks, files that are not what it says.
    IntegrityError: a file has another digest than the manifest.
    """
    manifest = _manifest(shards)
    files: dict[str, list[JoinedTensor]] = {}
    for tensor in joined_tensors(manifest):
        files.setdefault(tensor.file, []).append(tensor)
    with MappedFiles(shards) as mapped:
        _require_as_said(mapped, manifest)
        if check_digests:
            _require_digests(shards, manifest)
        total = sum(slab.outer * slab.extent * slab.unit_bytes for each in files.values() for one in each for slab in one.slabs)
        counter = Counter(progress, total)
        with whole_folder(out, total) as partial:
            placed: list[TensorHeader] = []
            for file in sorted(files):
                placed += _write(mapped, file, files[file], partial, counter)
            if len(files) > 1:
                write_whole(partial / WEIGHTS_INDEX_FILE, index_document(placed))
            if beside is not None:
                copy_beside(beside, partial)
    return tuple(placed)


def _manifest(shards: Path) -> ShardManifest:
    try:
        return unfold(load(ShardManifest, (shards / MANIFEST).read_bytes()))
    except OSError as error:
        raise BadInputError(
            f"{shards} has no {MANIFEST} that can be read: no shards were finished there.", remedy="Name a folder of shards."
        ) from error


def _require_as_said(mapped: MappedFiles, manifest: ShardManifest) -> None:
    """The headers of the files hold what the manifest says, where it says."""
    for file in manifest.files:
        found = {tensor.name: (tensor.dtype, tensor.shape, tensor.begin, tensor.end) for tensor in mapped.headers(file.path)}
        said = {tensor.name: (tensor.dtype, tensor.shape, tensor.begin, tensor.end) for tensor in file.tensors}
        if found != said:
            name = next(iter(sorted(set(found.items()) ^ set(said.items()))))[0]
            raise BadInputError(f"{file.path} does not hold {name} as its manifest says.", remedy="Shard the model anew.")


def _require_digests(shards: Path, manifest: ShardManifest) -> None:
    with ThreadPoolExecutor(2, "hash") as threads:
        for file, found in zip(manifest.files, threads.map(lambda file: _digest(shards, file), manifest.files), strict=True):
            if file.digest is not None and file.digest != found:
                raise IntegrityError(
                    f"{shards / file.path} has the digest {found}; its manifest says {file.digest}.",
                    remedy="Shard the model anew.",
                )


def _digest(shards: Path, file: ShardFile) -> str:
    with (shards / file.path).open("rb") as stream:
        header = stream.read(min((tensor.begin for tensor in file.tensors), default=file.size_bytes))
        return file_digest(header, (_tensor_digest(stream, tensor) for tensor in file.tensors))


def _tensor_digest(stream: BinaryIO, tensor: ShardTensor) -> str:
    state = xxhash.xxh3_128()
    stream.seek(tensor.begin)
    for at in range(tensor.begin, tensor.end, _HASH_BYTES):
        state.update(stream.read(min(_HASH_BYTES, tensor.end - at)))
    return state.hexdigest()


def _write(
    mapped: MappedFiles, file: str, tensors: list[JoinedTensor], into: Path, counter: Counter
) -> tuple[TensorHeader, ...]:
    known = all(one.begin for one in tensors)
    rows = [(one.name, one.dtype, one.shape) for one in sorted(tensors, key=lambda one: (one.begin, one.name))]
    header, placed = placed_file(file, rows if known else aligned(rows), {"format": "pt"})
    begin = {tensor.name: tensor.begin for tensor in placed}
    path = into / file
    if not path.resolve().is_relative_to(into.resolve()):
        raise BadInputError(f"the manifest names a file {file!r} outside of its folder; nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        descriptor = stream.fileno()
        _put(descriptor, np.frombuffer(header, np.uint8), 0)
        for tensor in sorted(tensors, key=lambda one: begin[one.name]):
            for slab in tensor.slabs:
                for window, at in _windows(mapped, slab):
                    _put(descriptor, window, begin[tensor.name] + slab.offset + at)
                    counter.add(window.nbytes)
        os.fsync(descriptor)
    return placed


def _windows(mapped: MappedFiles, slab: Slab) -> Iterator[tuple[Bytes, int]]:
    """Windows of a slab and where they go. Rows that several ranks hold parts of are put together in a buffer."""
    gather: Callable[[MappedFiles, Slab], Iterator[tuple[Bytes, int]]] = _straight if slab.outer == 1 else _gathered
    yield from gather(mapped, slab)


def _straight(mapped: MappedFiles, slab: Slab) -> Iterator[tuple[Bytes, int]]:
    for part in slab.slices:
        at = part.begin
        for start, stop in part.pieces:
            size = (stop - start) * slab.unit_bytes
            for first in range(0, size, WINDOW_BYTES):
                last = min(first + WINDOW_BYTES, size)
                yield mapped.bytes_of(part.file, at + first, at + last), start * slab.unit_bytes + first
                mapped.let_go(part.file, at + first, at + last)
            at += size


def _gathered(mapped: MappedFiles, slab: Slab) -> Iterator[tuple[Bytes, int]]:
    row_bytes = slab.extent * slab.unit_bytes
    step = max(1, WINDOW_BYTES // max(1, row_bytes))
    buffer = np.empty((min(step, slab.outer), row_bytes), np.uint8)
    for first in range(0, slab.outer if row_bytes else 0, step):
        count = min(step, slab.outer - first)
        for part in slab.slices:
            width = sum(stop - start for start, stop in part.pieces) * slab.unit_bytes
            begin, end = part.begin + first * width, part.begin + (first + count) * width
            source, at = mapped.bytes_of(part.file, begin, end).reshape(count, width), 0
            for start, stop in part.pieces:
                size = (stop - start) * slab.unit_bytes
                np.copyto(buffer[:count, start * slab.unit_bytes : stop * slab.unit_bytes], source[:, at : at + size])
                at += size
            del source
            mapped.let_go(part.file, begin, end)
        yield buffer[:count].reshape(-1), first * row_bytes


def _put(descriptor: int, content: Bytes, begin: int) -> None:
    view = content.data if content.nbytes else memoryview(b"")
    written = 0
    while written < len(view):
        written += os.pwrite(descriptor, view[written:], begin + written)
