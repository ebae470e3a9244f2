"""Chores on a disk, done and worded in one way: room, whole writes, durable names, refusals. Standard library only."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dayzero.errors import DependencyError

SPARE_BYTES = 16 * 1024 * 1024
"""What is left free beside what a write needs: names and journals take some too."""

_WRITE_BYTES = 16 * 1024 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FREE_SOME = "Free some space there, or use a larger disk (the data folder is DAYZERO_DATA_DIR), then repeat."
_GIVE_ACCESS = "See that the folder exists and may be written to, or choose another, then repeat."


def free_bytes(folder: Path) -> int | None:
    """Free bytes of the disk that a folder is on, or will be on once it is made; None when that cannot be told."""
    place = next((one for one in (folder, *folder.parents) if one.is_dir()), None)
    try:
        return shutil.disk_usage(place).free if place is not None else None
    except OSError:
        return None


def require_space(folder: Path, needed_bytes: int, what: str) -> None:
    """DependencyError when the disk of the folder is known to have less free than needed (and a little to spare)."""
    free = free_bytes(folder)
    if needed_bytes > 0 and free is not None and free < needed_bytes + SPARE_BYTES:
        raise DependencyError(f"{what} needs {needed_bytes} bytes under {folder}, and {free} are free.", remedy=_FREE_SOME)


def refusal(what: object, error: OSError) -> DependencyError:
    """The error for a write that the disk refused; `what` is the path, or what was being written with its path."""
    remedy = _FREE_SOME if error.errno in _FULL else _GIVE_ACCESS
    return DependencyError(f"{what} cannot be written: {error.strerror or error}.", remedy=remedy)


@contextmanager
def refusals_spoken(what: object) -> Iterator[None]:
    """Turn whatever the disk refuses in the block into its DependencyError."""
    try:
        yield
    except OSError as error:
        raise refusal(what, error) from error


def make_durable(path: Path) -> None:
    """Bring a file's content, or a folder's names, to the disk for good."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview, at: int) -> None:
    """Every byte of `data` at offset `at` of a file, however many the kernel takes at once."""
    done = 0
    with memoryview(data) as view:
        while done < len(view):
            with view[done : done + _WRITE_BYTES] as piece:
                done += os.pwrite(descriptor, piece, at + done)


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """A small file that is there whole or not at all, in place of any other of its name; its folder is made if need be.

    DependencyError when the disk refuses, and then the old one stays.
    """
    temporary: str | None = None
    with refusals_spoken(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            os.replace(temporary, path)  # noqa: PTH105 - the name is a text already
            temporary = None
            make_durable(path.parent)
        finally:
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)  # noqa: PTH108 - the name is a text already
