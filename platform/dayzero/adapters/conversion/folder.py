"""A folder that is there whole or not at all: made under a hidden name, flushed, then renamed."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dayzero.errors import BadInputError, DependencyError, UnavailableError

SPARE_BYTES = 16 * 1024 * 1024
_LOCK = ".lock"


@contextmanager
def whole_folder(out: Path, needed_bytes: int) -> Iterator[Path]:
    """A new folder to write into; it becomes `out` when the block ends well, and is removed when it does not.

    What an earlier process left unfinished under the hidden name goes first. BadInputError: `out` is there already.
    DependencyError: no room, or the disk refuses. UnavailableError: another process makes this folder.
    """
    out = out.absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInputError(f"{out} is there already.", remedy="Name a folder that does not exist.")
    partial = out.with_name(f".{out.name}.incomplete")
    lock = _take(partial)
    try:
        free_bytes = shutil.disk_usage(partial).free
        if free_bytes < needed_bytes + SPARE_BYTES:
            raise _no_room(out, needed_bytes, free_bytes)
        yield partial
        (partial / _LOCK).unlink()
        _flush_folder(partial)
        partial.rename(out)
        _flush_folder(out.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _no_room(out, needed_bytes, 0) from error
        raise DependencyError(f"{out} cannot be written: {error.strerror}.", remedy="Choose another folder.") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def put_file(path: Path, content: bytes) -> None:
    """A small file with its content on the disk."""
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _take(partial: Path) -> int:
    try:
        partial.mkdir(parents=True, exist_ok=True)
        lock = os.open(partial / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise DependencyError(f"{partial} cannot be written: {error.strerror}.", remedy="Choose another folder.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise UnavailableError(f"another process writes {partial}.", remedy="Let it finish.") from error
    for left in partial.iterdir():
        if left.name != _LOCK:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return lock


def _no_room(out: Path, needed_bytes: int, free_bytes: int) -> DependencyError:
    message = f"{out} needs {needed_bytes} bytes, and {free_bytes} are free."
    return DependencyError(message, remedy="Free some, or name a folder on a larger disk.")


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
