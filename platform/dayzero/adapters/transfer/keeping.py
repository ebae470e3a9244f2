"""What of an earlier run is kept: rank files of the same layout whose bytes still have their recorded digests."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from dayzero.adapters.transfer.digests import is_laid_out, tensor_digests
from dayzero.adapters.transfer.output import DIGESTS, MANIFEST, OutputFolder
from dayzero.codec import load
from dayzero.domain.canonical import digest
from dayzero.domain.shards import ShardFile, ShardManifest, ShardSource
from dayzero.errors import BadInputError
from dayzero.stages.layout.ranks import shard_header, unfold
from dayzero.stages.transfer.digests import file_digest, parse_digest_lines


@dataclass(frozen=True, slots=True)
class Kept:
    """The layout's files, those that are kept with digests; `missing`: the places of the others, `manifest`: what was there."""

    layout_digest: str
    files: tuple[ShardFile, ...]
    missing: tuple[int, ...]
    sources: tuple[ShardSource, ...]
    manifest: ShardManifest | None


def kept_shards(folder: OutputFolder, layout: ShardManifest, required: Mapping[str, str | None]) -> Kept:
    """What can be kept. Rank files that are damaged are quarantined; those of another layout stay until new ones replace them.

    Nothing is kept when a source has another sha256 than the required one (None: when it has none).
    """
    layout_digest = digest_of_layout(layout)
    manifest = read_manifest_of(folder)
    if manifest is None or manifest.layout_digest != layout_digest or not _meets(manifest.sources, required):
        return Kept(layout_digest, layout.files, tuple(range(len(layout.files))), (), manifest)
    files, missing = list(layout.files), []
    for target, (planned, written) in enumerate(zip(layout.files, manifest.files, strict=True)):
        if _holds(folder, planned, written, layout):
            files[target] = written
        else:
            missing.append(target)
            if folder.size(planned.path) is not None:
                folder.quarantine(planned.path)
    return Kept(layout_digest, tuple(files), tuple(missing), manifest.sources, manifest)


def read_manifest_of(folder: OutputFolder) -> ShardManifest | None:
    """The manifest of the folder; None when there is none that can be read (its shards are then written again)."""
    content = folder.read(MANIFEST)
    try:
        return parse_manifest(content, folder.read) if content is not None else None
    except BadInputError:
        return None


def parse_manifest(content: bytes, read: Callable[[str], bytes | None]) -> ShardManifest:
    """The manifest from its JSON, with the tensors' digests from the files beside the shards, which `read` gives by name.

    BadInputError when it is malformed. A shard whose digests are not there, or are of other tensors, has none.
    """
    manifest = unfold(load(ShardManifest, content))
    return replace(manifest, files=tuple(_with_digests(file, read(file.path + DIGESTS)) for file in manifest.files))


def _with_digests(file: ShardFile, lines: bytes | None) -> ShardFile:
    try:
        digests = parse_digest_lines(lines, file.tensors) if lines is not None else ()
    except BadInputError:
        digests = ()
    return replace(file, tensor_digests=digests)


def digest_of_layout(layout: ShardManifest) -> str:
    """The sha256 of what is to be written: release, degrees, and every tensor's place in source and rank file."""
    whole = hashlib.sha256(digest([layout.content_id, layout.degrees, layout.redundant_experts]).encode())
    known: dict[int, bytes] = {}
    for file in layout.files:
        whole.update(f"{file.rank} {file.path} {file.size_bytes}\n".encode())
        # Ranks that hold equal slices share their tensors.
        if id(file.tensors) not in known:
            known[id(file.tensors)] = _tensors_digest(map(repr, file.tensors))
        whole.update(known[id(file.tensors)])
    return whole.hexdigest()


def _tensors_digest(lines: Iterable[str]) -> bytes:
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line.encode())
    return whole.digest()


def _meets(sources: tuple[ShardSource, ...], required: Mapping[str, str | None]) -> bool:
    known = {source.path: source.sha256 for source in sources}
    return all(
        known.get(path) is not None and sha256 in (None, known[path]) for path, sha256 in required.items() if path in known
    )


def _holds(folder: OutputFolder, planned: ShardFile, written: ShardFile, layout: ShardManifest) -> bool:
    try:
        descriptor = folder.open(planned.path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        header = shard_header(layout, planned)
        if not is_laid_out(descriptor, planned, header):
            return False
        found = tensor_digests(descriptor, planned)
        return found == written.tensor_digests and file_digest(header, found) == written.digest
    finally:
        os.close(descriptor)
