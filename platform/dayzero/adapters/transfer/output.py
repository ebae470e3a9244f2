"""The folder that shards are written into: one writer, no links followed, nothing under a final name before it is whole."""

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from dayzero.disk import refusal, require_space
from dayzero.errors import BadInputError, DayzeroError, DependencyError, UnavailableError

MANIFEST = "manifest.json"
RECORD = "manifest.signed.json"
"""Beside the manifest: what this node states of the shards, signed, for other nodes of the site."""
JOURNAL = ".journal"
LOCK = ".lock"
INCOMPLETE = ".incomplete"
QUARANTINED = ".quarantined"
DIGESTS = ".xxh3"
"""Beside each rank file: the xxh3_128 and the name of every tensor, one a line."""


def require_plain_names(paths: Iterable[str]) -> None:
    """BadInputError for a rank file that is no plain name, that is named twice, or that is one of this folder's own."""
    seen: set[str] = set()
    for path in paths:
        if Path(path).name != path or path in ("", ".", "..") or "\0" in path or "\\" in path:
            raise BadInputError(
                f"the layout names a shard {path!r}; a shard is a plain file name.",
                remedy="Write the shards again from the model; do not trust these.",
            )
        if path in seen:
            raise BadInputError(
                f"the layout names the shard {path!r} twice.",
                remedy="Write the shards again from the model; do not trust these.",
            )
        if path in (MANIFEST, RECORD, JOURNAL, LOCK) or path.endswith((INCOMPLETE, QUARANTINED, DIGESTS)):
            raise BadInputError(
                f"the layout names a shard {path!r}, a name that the folder of shards needs itself.",
                remedy="Write the shards again from the model; do not trust these.",
            )
        seen.add(path)


class OutputFolder:
    """An open folder. All names are looked up in the folder itself, so that it cannot be swapped, and links are refused."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._folder = path, descriptor

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a regular file that has no other name; BadInputError for links and other things of that name."""
        try:
            # Cut to nothing only once it is known to be a file of our own.
            descriptor = os.open(name, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            if self._is_link(name):
                raise self._strange(name, "a symbolic link") from error
            raise DependencyError(
                f"{self.path / name} cannot be opened: {error.strerror}.", remedy="See who may read and write it."
            ) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            os.close(descriptor)
            raise self._strange(name, "no regular file" if found.st_nlink == 1 else f"one of {found.st_nlink} names of a file")
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
        return descriptor

    def size(self, name: str) -> int | None:
        """Bytes of the regular file of that name, or None."""
        try:
            found = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def allocated(self, name: str) -> int:
        """Bytes of the disk that the file of that name takes already."""
        try:
            return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_blocks * 512
        except FileNotFoundError:
            return 0

    def read(self, name: str) -> bytes | None:
        """The whole of a small file, or None when there is none."""
        try:
            descriptor = self.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as stream:
            return stream.read()

    def put(self, name: str, content: bytes) -> None:
        """A whole small file, on the disk before it has its name; DependencyError when the disk fails."""
        try:
            self.stage(name, content)
            self.rename(name + INCOMPLETE, name)
            self.sync()
        except OSError as error:
            raise refusal(self.path / name, error) from error

    def stage(self, name: str, content: bytes) -> None:
        """A small file that is on the disk and has its name to get yet."""
        with os.fdopen(self.open(name + INCOMPLETE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in place of whatever has it."""
        os.rename(name, to, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def remove(self, name: str) -> None:
        """Take a name away, where it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    def quarantine(self, name: str) -> str:
        """Set a damaged file aside under a name that nobody takes for a shard; returns that name."""
        number = 0
        while self._exists(aside := f"{name}.{number}{QUARANTINED}"):
            number += 1
        self.rename(name, aside)
        self.sync()
        return aside

    def sync(self) -> None:
        """Make names durable."""
        os.fsync(self._folder)

    def reserve(self, sizes: dict[str, int], what: str) -> dict[str, int]:
        """Empty files of these names and sizes, their blocks reserved; descriptors by name.

        DependencyError when there is too little space, and then none of them stays.
        """
        require_space(self.path, sum(sizes.values()) - sum(self.allocated(name) for name in sizes), what)
        opened: dict[str, int] = {}
        try:
            for name, size in sizes.items():
                opened[name] = self.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
                if size:
                    os.posix_fallocate(opened[name], 0, size)
            self.sync()
        except (OSError, DayzeroError) as error:
            for name, descriptor in opened.items():
                os.close(descriptor)
                self.remove(name)
            if isinstance(error, OSError):
                raise self.refusal(what, error) from error
            raise
        return opened

    def refusal(self, what: str, error: OSError) -> DependencyError:
        """The error for a write that the disk refused."""
        return refusal(f"{what} under {self.path}", error)

    def _is_link(self, name: str) -> bool:
        try:
            return stat.S_ISLNK(os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _strange(self, name: str, what: str) -> BadInputError:
        return BadInputError(
            f"{self.path / name} is {what}; nothing was written there.", remedy="Remove it, or choose another folder."
        )

    @classmethod
    @contextmanager
    def held(cls, path: Path) -> Iterator[Self]:
        """The folder, made if need be, for one writer alone.

        DependencyError: it cannot be written. UnavailableError: another process writes there.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise refusal(path, error) from error
        try:
            folder = cls(path, descriptor)
            lock = folder.open(LOCK, os.O_WRONLY | os.O_CREAT)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield folder
            except BlockingIOError as error:
                raise UnavailableError(f"another process is writing shards under {path}.", remedy="Let it finish.") from error
            finally:
                os.close(lock)
        finally:
            os.close(descriptor)
