"""A folder that is there whole or not at all: made under a hidden name, flushed, then renamed."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dayzero.disk import make_durable, refusal, refusals_spoken, require_space
from dayzero.errors import BadInputError, UnavailableError

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
        require_space(partial, needed_bytes, str(out))
        yield partial
        (partial / _LOCK).unlink()
        make_durable(partial)
        partial.rename(out)
        make_durable(out.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise refusal(out, error) from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _take(partial: Path) -> int:
    with refusals_spoken(partial):
        partial.mkdir(parents=True, exist_ok=True)
        lock = os.open(partial / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise UnavailableError(f"another process writes {partial}.", remedy="Let it finish.") from error
    for left in partial.iterdir():
        if left.name != _LOCK:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return lock
