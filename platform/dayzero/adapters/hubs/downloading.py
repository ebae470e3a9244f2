"""Files come whole or not at all: resumed, checked against the hub's digest, and only then given their name."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dayzero.adapters.hubs.digests import windows
from dayzero.disk import make_durable, refusals_spoken, require_space
from dayzero.domain.release import RepoFile
from dayzero.errors import IntegrityError
from dayzero.stages.transfer.digests import Hash, stated_hash

INCOMPLETE = ".incomplete"
QUARANTINE = ".quarantine"


def expected_digest(file: RepoFile, whose: str) -> tuple[Hash, str]:
    """A fresh hash for the file and the digest that it must give; IntegrityError when the hub states none."""
    expected = stated_hash(file)
    if expected is None:
        raise IntegrityError(
            f"{whose}: the hub states no digest of {file.path}, so it cannot be checked.",
            remedy="Take it from a hub that states digests.",
        )
    return expected


def check_content(content: bytes, file: RepoFile, whose: str) -> bytes:
    """The content, if its size and digest are those that the hub stated; else IntegrityError."""
    hashed, wanted = expected_digest(file, whose)
    hashed.update(content)
    if len(content) != file.size_bytes or hashed.hexdigest() != wanted:
        raise IntegrityError(
            f"{file.path} of {whose} is not what the hub said: {len(content)} bytes with digest {hashed.hexdigest()},"
            f" stated {file.size_bytes} bytes with digest {wanted}.",
            remedy="Ask again; if it stays so, do not trust this copy.",
        )
    return content


class PartialFile:
    """A file that is on its way: what is there of it, its digest so far, and how it ends."""

    def __init__(self, stream: BinaryIO, path: Path, target: Path, file: RepoFile, whose: str) -> None:
        self._stream, self._path, self._target, self._file, self._whose = stream, path, target, file, whose
        self._hash, self._wanted = expected_digest(file, whose)
        self.done_bytes = 0
        stream.seek(0)
        if os.fstat(stream.fileno()).st_size > file.size_bytes:
            self.restart()
        for window in windows(stream):
            self._hash.update(window)
            self.done_bytes += len(window)

    @property
    def missing_bytes(self) -> int:
        """Bytes still to come."""
        return self._file.size_bytes - self.done_bytes

    def restart(self) -> None:
        """Begin anew: what is there is of no use."""
        self._stream.seek(0)
        self._stream.truncate()
        self._hash, self._wanted = expected_digest(self._file, self._whose)
        self.done_bytes = 0

    def write(self, window: bytes) -> None:
        """Take more bytes; IntegrityError (and quarantine) when there are more than the hub stated."""
        if len(window) > self.missing_bytes:
            place = self._set_aside("too-long")
            raise IntegrityError(
                f"the hub sends more of {self._file.path} of {self._whose} than the {self._file.size_bytes} bytes it stated;"
                f" what came is in {place.name}.",
                remedy="Do not trust this copy; try again later.",
            )
        self._stream.write(window)
        self._hash.update(window)
        self.done_bytes += len(window)

    def finish(self) -> Path:
        """Check the digest and give the file its name; IntegrityError moves it to a quarantine name instead."""
        assert self.missing_bytes == 0
        self._stream.flush()
        os.fsync(self._stream.fileno())
        got = self._hash.hexdigest()
        if got != self._wanted:
            place = self._set_aside(got[:12])
            raise IntegrityError(
                f"{self._file.path} of {self._whose} has digest {got}, and the hub stated {self._wanted};"
                f" the wrong file is kept as {place.name}.",
                remedy="Try again; if it stays so, do not trust this copy.",
            )
        self._path.replace(self._target)
        make_durable(self._target.parent)
        return self._target

    def _set_aside(self, why: str) -> Path:
        self._stream.flush()
        place = self._target.with_name(f"{self._target.name}.{why}{QUARANTINE}")
        self._path.replace(place)
        return place


@contextmanager
def partial_file(target: Path, file: RepoFile, whose: str) -> Iterator[PartialFile | None]:
    """The partial file behind a target, locked against other downloads of it; None when the target is there and right.

    A target with wrong content is moved to a quarantine name first. DependencyError: the disk is full or not writable.
    """
    with refusals_spoken(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(target.name + INCOMPLETE)) as (stream, path):
            if target.exists() and _is_right(target, file, whose):
                path.unlink(missing_ok=True)
                yield None
                return
            partial = PartialFile(stream, path, target, file, whose)
            require_space(target.parent, partial.missing_bytes, f"the rest of {file.path}")
            yield partial


def _is_right(target: Path, file: RepoFile, whose: str) -> bool:
    hashed, wanted = expected_digest(file, whose)
    if target.stat().st_size == file.size_bytes:
        with target.open("rb") as stream:
            for window in windows(stream):
                hashed.update(window)
        if hashed.hexdigest() == wanted:
            return True
    target.replace(target.with_name(f"{target.name}.{hashed.hexdigest()[:12]}{QUARANTINE}"))
    return False


@contextmanager
def _locked(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """The file, opened and locked. Another download may have renamed it meanwhile: then a new one is opened."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if path.exists() and path.stat().st_ino == os.fstat(stream.fileno()).st_ino:
                yield stream, path
                return
