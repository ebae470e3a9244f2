"""Whether the disk has room, asked before anything is written."""

import errno
import shutil
from pathlib import Path

from dayzero.errors import DependencyError

SPARE_BYTES = 16 * 1024 * 1024


def require_space(folder: Path, needed_bytes: int, what: str) -> None:
    """DependencyError when the disk of the folder has less free than needed (and a little to spare)."""
    free_bytes = shutil.disk_usage(folder).free
    if needed_bytes and free_bytes < needed_bytes + SPARE_BYTES:
        raise no_space(folder, needed_bytes, free_bytes, what)


def free_bytes(folder: Path) -> int | None:
    """Free bytes of the disk that a folder is on, or will be on once it is made; None when that cannot be told."""
    place = next((one for one in (folder, *folder.parents) if one.is_dir()), None)
    return shutil.disk_usage(place).free if place is not None else None


def no_space(folder: Path, needed_bytes: int, free_bytes: int, what: str) -> DependencyError:
    """The error for a disk that is full or will be."""
    return DependencyError(
        f"{what} needs {needed_bytes} bytes under {folder}, and {free_bytes} are free.",
        remedy="Free some, or set DAYZERO_DATA_DIR to a larger disk; what is written already is kept.",
    )


def is_full(error: OSError) -> bool:
    """Whether a write failed for want of space."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
