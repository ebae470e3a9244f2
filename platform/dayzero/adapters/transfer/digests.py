"""Digests of tensors as their bytes pass, and of rank files that are there."""

import hashlib
import mmap
import os

import xxhash

from dayzero.domain.release import RepoFile
from dayzero.domain.shards import ShardFile, ShardTensor
from dayzero.stages.transfer.digests import Hash, git_blob_hash

CHUNK_BYTES = 16 * 1024 * 1024
_ZEROS = bytes(1024 * 1024)


class SourceHashes:
    """The sha256 of a source file as its bytes pass, and beside it the git blob id where that is all that its hub states."""

    def __init__(self, file: RepoFile) -> None:
        self._file, self._sha256 = file, hashlib.sha256()
        self._blob = git_blob_hash(file.size_bytes) if file.git_blob_id and not file.sha256 else None

    def update(self, data: memoryview) -> None:
        """Take the next bytes."""
        self._sha256.update(data)
        if self._blob is not None:
            self._blob.update(data)

    @property
    def sha256(self) -> str:
        """Of what has passed."""
        return self._sha256.hexdigest()

    @property
    def stated(self) -> str | None:
        """The sha256 that the hub states; where it states a git blob id alone, ours once that is right, and else that id."""
        if self._blob is None:
            return self._file.sha256
        return self.sha256 if self._blob.hexdigest() == self._file.git_blob_id else self._file.git_blob_id


class TensorDigests:
    """The xxh3_128 of each tensor of one rank file, from pieces in the order of the file.

    A tensor whose pieces come otherwise (a run that went on after a kill, experts in another order) is read again at the end.
    """

    def __init__(self, tensors: tuple[ShardTensor, ...]) -> None:
        self._tensors = tensors
        self._open: dict[int, tuple[Hash, int]] = {}
        self._torn: set[int] = set()
        self.done: dict[int, str] = {}

    def update(self, place: int, at: int, data: memoryview) -> bool:
        """Take the bytes that were written at offset `at` of the file for a tensor; True when the tensor is whole with them."""
        if place in self._torn or place in self.done:
            self._torn.add(place)
            self.done.pop(place, None)
            return False
        tensor = self._tensors[place]
        state, reached = self._open.pop(place) if place in self._open else (xxhash.xxh3_128(), tensor.begin)
        if at != reached:
            self._torn.add(place)
            return False
        state.update(data)
        reached += len(data)
        if reached < tensor.end - tensor.padding_bytes:
            self._open[place] = state, reached
            return False
        self.done[place] = _ended(state, tensor)
        return True

    def all(self, descriptor: int) -> tuple[str, ...]:
        """Every tensor's digest, those that are not known read from the file."""
        return tuple(
            self.done[place] if place in self.done else _read_digest(descriptor, tensor)
            for place, tensor in enumerate(self._tensors)
        )


def is_laid_out(descriptor: int, file: ShardFile, header: bytes) -> bool:
    """Whether a file on the disk has the size and the header of the layout."""
    return os.fstat(descriptor).st_size == file.size_bytes and os.pread(descriptor, len(header), 0) == header


def tensor_digests(descriptor: int, file: ShardFile) -> tuple[str, ...]:
    """The digests of the tensors in a file on the disk, each read from where the layout has it."""
    return tuple(_read_digest(descriptor, tensor) for tensor in file.tensors)


def _ended(state: Hash, tensor: ShardTensor) -> str:
    for at in range(0, tensor.padding_bytes, len(_ZEROS)):
        state.update(_ZEROS[: tensor.padding_bytes - at])
    return state.hexdigest()


def _read_digest(descriptor: int, tensor: ShardTensor) -> str:
    state, at = xxhash.xxh3_128(), tensor.begin
    buffer = mmap.mmap(-1, min(CHUNK_BYTES, tensor.end - tensor.begin)) if tensor.end > tensor.begin else None
    while buffer is not None and at < tensor.end:
        with memoryview(buffer) as view, view[: min(CHUNK_BYTES, tensor.end - at)] as part:
            count = os.preadv(descriptor, [part], at)
            if not count:
                break
            with part[:count] as read:
                state.update(read)
        at += count
    return state.hexdigest()
