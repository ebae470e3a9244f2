"""The checkpoint's files on this disk: mapped, passed window by window, and let go again; their sha256 in a thread beside."""

import hashlib
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError, DependencyError
from dayzero.names import safe_path
from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, parse_header
from dayzero.stages.transfer.digests import git_blob_hash, is_git_blob_id

WINDOW_BYTES = 16 * 1024 * 1024
HASH_BYTES = 1024 * 1024


class SourceFile:
    """One open file of the checkpoint."""

    def __init__(self, model_dir: Path, name: str) -> None:
        """Open it; BadInputError when it is outside of the model's folder or cannot be read."""
        self._path, self.name = model_dir / safe_path(name, f"the layout of {model_dir}"), name
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise BadInputError(f"{self._path} cannot be read: {error.strerror}.", remedy="Fetch the model again.") from error
        found = os.fstat(self._descriptor)
        self.size_bytes = found.st_size
        self.identity = _identity(found)
        self._reading = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Let it go; a hash that still runs ends."""
        self._closed = True
        with self._reading:
            os.close(self._descriptor)

    def headers(self) -> tuple[TensorHeader, ...]:
        """Its tensors; BadInputError when its header lies."""
        length = header_length(os.pread(self._descriptor, LENGTH_BYTES, 0), self.name, self.size_bytes)
        return parse_header(self.name, self.size_bytes, _read(self._descriptor, length, LENGTH_BYTES))

    def windows(self, begin: int, end: int) -> Iterator[tuple[int, memoryview]]:
        """(offset, bytes) of a range in order, each good until the next; BadInputError when the file changes meanwhile."""
        mapped = mmap.mmap(self._descriptor, self.size_bytes, prot=mmap.PROT_READ)
        try:
            mapped.madvise(mmap.MADV_SEQUENTIAL)
            with memoryview(mapped) as view:
                while begin < end:
                    # Bytes beyond the end of a file that was cut short would end the process.
                    self.require_unchanged()
                    stop = min(begin - begin % WINDOW_BYTES + WINDOW_BYTES, end)
                    with view[begin:stop] as window:
                        yield begin, window
                    first = begin - begin % mmap.PAGESIZE
                    mapped.madvise(mmap.MADV_DONTNEED, first, stop - first)
                    begin = stop
        finally:
            mapped.close()

    def digest(self, stated: str | None = None) -> str:
        """The sha256 of the whole file, read for itself; its git blob id where that is what is stated of it."""
        whole, at = git_blob_hash(self.size_bytes) if is_git_blob_id(stated) else hashlib.sha256(), 0
        buffer = bytearray(HASH_BYTES)
        with memoryview(buffer) as view, self._reading:
            while not self._closed and (count := self._read_into(buffer, at)):
                with view[:count] as read:
                    whole.update(read)
                at += count
        return whole.hexdigest()

    def _read_into(self, buffer: bytearray, at: int) -> int:
        try:
            return os.preadv(self._descriptor, [buffer], at)
        except OSError as error:
            raise DependencyError(
                f"{self._path} cannot be read at byte {at}: {error.strerror}.",
                remedy="See whether the disk is well, then repeat: what is written is kept.",
            ) from error

    def require_unchanged(self) -> None:
        """BadInputError when it is not the file that was opened."""
        if _identity(os.fstat(self._descriptor)) != self.identity:
            raise BadInputError(
                f"{self._path} changed while it was being read; nothing was made of it.",
                remedy="Let its writer finish, then repeat.",
            )


def _identity(found: os.stat_result) -> str:
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


def _read(descriptor: int, count: int, at: int) -> bytes:
    parts = []
    while count:
        part = os.pread(descriptor, count, at)
        if not part:
            break
        parts.append(part)
        count, at = count - len(part), at + len(part)
    return b"".join(parts)
