"""Verifying: the bytes of written shards against the digests that their manifest records."""

import os
from pathlib import Path

from dayzero.adapters.transfer.beside import damaged_beside
from dayzero.adapters.transfer.digests import is_laid_out, tensor_digests
from dayzero.adapters.transfer.keeping import parse_manifest
from dayzero.adapters.transfer.output import DIGESTS, MANIFEST, require_plain_names
from dayzero.domain.shards import Integrity, ShardFile, ShardManifest
from dayzero.errors import BadInputError, IntegrityError
from dayzero.ports.hub import Progress
from dayzero.stages.layout.ranks import shard_header
from dayzero.stages.transfer.digests import file_digest

_NAMED = 5


def read_manifest(folder: Path) -> ShardManifest | None:
    """The manifest of a folder of shards, or None when its writing never ended; BadInputError when it is malformed."""
    content = _content(folder, MANIFEST)
    if content is None:
        return None
    manifest = parse_manifest(content, lambda name: _content(folder, name))
    require_plain_names([*(file.path for file in manifest.files), *(file.path for file in manifest.beside)])
    return manifest


def completed_manifest(folder: Path) -> ShardManifest:
    """The manifest of a folder of shards; BadInputError when there is none (its writing never ended), or it is malformed."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise BadInputError(
            f"{folder} has no {MANIFEST}: no shards were ever completed there.",
            remedy="Name a folder of shards, or write them first.",
        )
    return manifest


def verify_shards(folder: Path, progress: Progress | None = None, *, integrity: Integrity = Integrity.SHA256) -> ShardManifest:
    """Compare every rank file's header and size with the layout's, and each tensor's digest with the manifest's (`integrity`
    none: not the digests, so that no tensor is read). Small files beside them are always read.

    BadInputError: the folder has no manifest (its writing never ended). IntegrityError names the files and tensors that differ.
    """
    manifest = completed_manifest(folder)
    total, done = sum(file.size_bytes for file in manifest.files), 0
    damaged: list[str] = []
    for file in manifest.files:
        damaged += _damage(folder, manifest, file, integrity)
        done += file.size_bytes
        if progress is not None:
            progress(done, total)
    damaged += damaged_beside(folder, manifest.beside)
    if damaged:
        more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
        raise IntegrityError(
            f"shards of {manifest.content_id[:12]} for {manifest.degrees} in {folder} differ from their manifest: "
            f"{'; '.join(damaged[:_NAMED])}{more}.",
            remedy="Write the shards again: what is whole is kept, what is damaged is set aside.",
        )
    return manifest


def _content(folder: Path, name: str) -> bytes | None:
    if name != MANIFEST:
        require_plain_names([name.removesuffix(DIGESTS)])
    path = folder / name
    return path.read_bytes() if path.is_file() else None


def _damage(folder: Path, manifest: ShardManifest, file: ShardFile, integrity: Integrity) -> list[str]:
    try:
        descriptor = os.open(folder / file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return [f"{file.path} ({error.strerror})"]
    try:
        header = shard_header(manifest, file)
        if not is_laid_out(descriptor, file, header):
            return [f"{file.path} (its size or header)"]
        if integrity is Integrity.NONE:
            return []
        found = tensor_digests(descriptor, file)
    finally:
        os.close(descriptor)
    if len(found) != len(file.tensor_digests):
        return [f"{file.path} (its digests in {file.path + DIGESTS})"]
    differ = [
        f"{file.path} (tensor {tensor.name})"
        for tensor, one, recorded in zip(file.tensors, found, file.tensor_digests, strict=True)
        if one != recorded
    ]
    if not differ and file_digest(header, found) != file.digest:
        return [f"{file.path} (its digest)"]
    return differ
