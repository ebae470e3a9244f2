"""Digests of tensors as their bytes pass, and of rank files that are there."""

import mmap
import os
from typing import Protocol

import xxhash

from dayzero.domain.shards import ShardFile, ShardTensor

CHUNK_BYTES = 16 * 1024 * 1024
_ZEROS = bytes(1024 * 1024)


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


class TensorDigests:
    """The xxh3_128 of each tensor of one rank file, from pieces in the order of the file.

    A tensor whose pieces come otherwise (a run that went on after a kill, experts in another order) is read again at the end.
    """

    def __init__(self, tensors: tuple[ShardTensor, ...]) -> None:
        self._tensors = tensors
        self._open: dict[int, tuple[_Hash, int]] = {}
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


def _ended(state: _Hash, tensor: ShardTensor) -> str:
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
