"""Content-addressed files in a folder."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from dayzero.disk import make_durable, refusals_spoken
from dayzero.errors import IntegrityError, NotFoundError

_BLOCK = 1 << 20
_HEX = frozenset("0123456789abcdef")
_SHA256_CHARACTERS = 64


class FolderArtifacts:
    """`<folder>/<first two digits>/<sha256>`; a file has its name only once it is whole and on the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes | BinaryIO, *, media_type: str, name: str) -> str:
        """Store the bytes and return their sha256; DependencyError when the disk is full. The database keeps type and name."""
        with refusals_spoken(f"the artifact {name} ({media_type}) under {self._folder}"):
            return self._put(data)

    def _put(self, data: bytes | BinaryIO) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".incoming.")
        path = Path(temporary)
        try:
            with os.fdopen(handle, "wb") as file:
                sha256 = _copy(data, file)
                file.flush()
                os.fsync(file.fileno())
            final = self._path(sha256)
            final.parent.mkdir(exist_ok=True)
            path.replace(final)
            make_durable(final.parent)
        finally:
            path.unlink(missing_ok=True)
        return sha256

    def open(self, sha256: str) -> BinaryIO:
        """The bytes, checked against their name; NotFoundError, IntegrityError (the disk changed them)."""
        try:
            file = self._path(sha256).open("rb")
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no artifact {sha256[:80]}.") from error
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            file.close()
            raise IntegrityError(
                f"artifact {sha256} has other bytes on the disk (sha256 {found}).",
                remedy=f"Delete {self._path(sha256)}; running the check again stores it anew.",
            )
        file.seek(0)
        return file

    def _path(self, sha256: str) -> Path:
        if len(sha256) != _SHA256_CHARACTERS or not _HEX.issuperset(sha256):
            raise NotFoundError(f"{sha256[:80]!r} is no sha256, so there is no such artifact.")
        return self._folder / sha256[:2] / sha256


def _copy(data: bytes | BinaryIO, into: BinaryIO) -> str:
    hasher = hashlib.sha256()
    if isinstance(data, bytes):
        hasher.update(data)
        into.write(data)
    else:
        while block := data.read(_BLOCK):
            hasher.update(block)
            into.write(block)
    return hasher.hexdigest()
