"""The small files of a release beside its shards, so that a runner, a reshard or an export needs nothing but the folder."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dayzero.adapters.transfer.output import OutputFolder, require_plain_names
from dayzero.domain.release import Release
from dayzero.domain.shards import SmallFile
from dayzero.errors import BadInputError, DayzeroError, IntegrityError
from dayzero.ports.hub import Hub
from dayzero.stages.headers.files import runner_files
from dayzero.stages.transfer.digests import git_blob_hash, is_as_stated, is_git_blob_id

MAX_SMALL_BYTES = 256 << 20
"""The largest tokenizers have some 40 MB."""

SmallContent = tuple[str, bytes]


def small_of_hub(hub: Hub, release: Release, there: Callable[[str], bytes | None]) -> Iterator[SmallContent]:
    """Name and bytes of each small file of a release, one at a time: asked of the hub, which checks them, where what is `there`
    under that name is not as the hub states it."""
    for file in runner_files(release.files):
        content = there(file.path)
        if content is None or not is_as_stated(content, file):
            content = hub.read_small(release, file.path, MAX_SMALL_BYTES)
        yield file.path, content


def small_of_checkpoint(folder: Path, names: Iterable[str], stated: Mapping[str, str]) -> Iterator[SmallContent]:
    """Name and bytes of each of these files of a checkpoint, one at a time; links are followed, as into the blobs of a cache.

    BadInputError: one cannot be read. IntegrityError: it has not the digest that is stated of it.
    """
    for name in names:
        yield name, _checked(folder / name, stated.get(name), os.O_RDONLY)


def small_of_shards(folder: Path, files: Iterable[SmallFile]) -> Iterator[SmallContent]:
    """Name and bytes of each of these files of a folder of shards, one at a time.

    BadInputError: one cannot be read. IntegrityError: it is not as it is recorded.
    """
    for file in files:
        yield file.path, _checked(folder / file.path, file.sha256, os.O_RDONLY | os.O_NOFOLLOW)


def put_beside(folder: OutputFolder, contents: Iterable[SmallContent], taken: Sequence[str]) -> tuple[SmallFile, ...]:
    """Write small files where they are not there as they are, and say what they are, by name.

    BadInputError for one that is no plain name, or has one of the `taken` names or of those that the folder needs itself.
    """
    put: list[SmallFile] = []
    for name, content in contents:
        require_plain_names([*taken, *(file.path for file in put), name])
        if folder.read(name) != content:
            folder.put(name, content)
        put.append(SmallFile(name, len(content), hashlib.sha256(content).hexdigest()))
    return tuple(sorted(put, key=lambda file: file.path))


def damaged_beside(folder: Path, files: Iterable[SmallFile]) -> list[str]:
    """What of the small files is not as it is recorded."""
    damaged = []
    for file in files:
        try:
            list(small_of_shards(folder, (file,)))
        except DayzeroError as error:
            damaged.append(f"{file.path} ({error.message})")
    return damaged


def _checked(path: Path, stated: str | None, flags: int) -> bytes:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            content = stream.read(MAX_SMALL_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}.", remedy="Fetch the model again.") from error
    if len(content) > MAX_SMALL_BYTES:
        raise BadInputError(
            f"{path} has more than the {MAX_SMALL_BYTES} bytes that are read of a small file.",
            remedy="It is no configuration or tokenizer; see what its publisher put there.",
        )
    whole, kind = (git_blob_hash(len(content)), "git blob id") if is_git_blob_id(stated) else (hashlib.sha256(), "sha256")
    whole.update(content)
    if stated is not None and whole.hexdigest() != stated:
        raise IntegrityError(
            f"{path} has the {kind} {whole.hexdigest()}; {stated} is stated of it.", remedy="Fetch the model again."
        )
    return content
