"""Digests of files as hubs state them: git blob ids and LFS sha256, computed once for each version of a file."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dayzero.disk import write_whole
from dayzero.stages.transfer.digests import git_blob_hash

WINDOW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A version of a file: its size and both digests (git blob id of the content; sha256 of the content)."""

    size_bytes: int
    git_blob_id: str
    sha256: str


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells two versions of a file apart without reading it."""

    size_bytes: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, state: os.stat_result) -> "FileStamp":
        """The stamp of a stat."""
        return cls(state.st_size, state.st_mtime_ns, state.st_ino)


def git_blob_id(content: bytes) -> str:
    """The git blob id of a content."""
    digest = git_blob_hash(len(content))
    digest.update(content)
    return digest.hexdigest()


def windows(stream: BinaryIO) -> Iterator[bytes]:
    """The rest of a stream, window by window."""
    while window := stream.read(WINDOW_BYTES):
        yield window


def digest_of_stream(stream: BinaryIO, size_bytes: int) -> FileDigest:
    """Both digests of a stream of a known size."""
    blob, sha256 = git_blob_hash(size_bytes), hashlib.sha256()
    for window in windows(stream):
        blob.update(window)
        sha256.update(window)
    return FileDigest(size_bytes, blob.hexdigest(), sha256.hexdigest())


class DigestBook:
    """Digests by path and stamp, kept in a JSON file (None: only in memory). A lost or broken file costs time only."""

    def __init__(self, kept_in: Path | None) -> None:
        self._kept_in = kept_in
        self._known: dict[str, tuple[FileStamp, FileDigest]] = {}
        self._changed = False
        if kept_in is not None:
            self._known = _read_book(kept_in)

    def digest(self, path: Path) -> FileDigest | None:
        """The digests of a regular file; None when it went away or changed while it was read."""
        try:
            with path.open("rb") as stream:
                before = FileStamp.of(os.fstat(stream.fileno()))
                known = self._known.get(str(path))
                if known is not None and known[0] == before:
                    return known[1]
                found = digest_of_stream(stream, before.size_bytes)
                if FileStamp.of(os.fstat(stream.fileno())) != before:
                    return None
        except OSError:
            return None
        self._known[str(path)] = (before, found)
        self._changed = True
        return found

    def keep(self) -> None:
        """Write what was learnt since the last time."""
        if not self._changed or self._kept_in is None:
            return
        self._changed = False
        rows = {
            path: [stamp.size_bytes, stamp.mtime_ns, stamp.inode, digest.git_blob_id, digest.sha256]
            for path, (stamp, digest) in self._known.copy().items()
        }
        write_whole(self._kept_in, json.dumps(rows).encode())


def _read_book(path: Path) -> dict[str, tuple[FileStamp, FileDigest]]:
    try:
        rows = json.loads(path.read_bytes())
        return {
            str(name): (FileStamp(int(size), int(mtime), int(inode)), FileDigest(int(size), str(blob), str(sha256)))
            for name, (size, mtime, inode, blob, sha256) in rows.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
