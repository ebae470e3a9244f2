"""Rank files against the sha256 that a signed statement has of them."""

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dayzero.adapters.transfer.output import RECORD
from dayzero.adapters.transfer.verifying import verify_shards
from dayzero.disk import write_whole
from dayzero.domain.shards import ShardManifest
from dayzero.domain.vouching import ShardStatement
from dayzero.errors import DependencyError
from dayzero.ports.hub import Progress
from dayzero.stages.transfer.vouching import statement_of

_AT_ONCE = 4
_BUFFER_BYTES = 1 << 20


def statement_of_shards(folder: Path, progress: Progress | None = None) -> ShardStatement:
    """What can be stated of the shards of a folder, which are read twice: for their digests, and for their sha256.

    BadInputError: none are there, or they are not of whole, hashed files. IntegrityError: they are damaged.
    """
    statement_of(manifest := verify_shards(folder, progress), ("",) * len(manifest.files))
    return statement_of(manifest, tuple(_digests(folder, manifest)))


def keep_record(folder: Path, record: bytes) -> Path:
    """Put a signed record beside the manifest of its shards."""
    write_whole(folder / RECORD, record)
    return folder / RECORD


def sha256_of(descriptors: Iterable[int]) -> tuple[str, ...]:
    """The sha256 of open files, several at a time."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dayzero-sha256") as threads:
        return tuple(threads.map(_sha256, descriptors))


def _digests(folder: Path, manifest: ShardManifest) -> Iterable[str]:
    for file in manifest.files:
        path = folder / file.path
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise DependencyError(
                f"{path} cannot be read: {error.strerror}.", remedy="See who may read it, and whether the disk is well."
            ) from error
        try:
            yield _sha256(descriptor)
        finally:
            os.close(descriptor)


def _sha256(descriptor: int) -> str:
    whole, at = hashlib.sha256(), 0
    buffer = bytearray(_BUFFER_BYTES)
    with memoryview(buffer) as view:
        while count := os.preadv(descriptor, [buffer], at):
            with view[:count] as read:
                whole.update(read)
            at += count
    return whole.hexdigest()
