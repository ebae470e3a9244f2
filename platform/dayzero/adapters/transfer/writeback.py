"""Asking the kernel to begin with what was written: the disk is at work long before a checkpoint waits for it."""

import ctypes
import sys
from collections.abc import Iterable

BEGIN_BYTES = 64 * 1024 * 1024
"""Written bytes between two such requests."""
_SYNC_FILE_RANGE_WRITE = 2


def begin_writing(descriptors: Iterable[int]) -> None:
    """Start the transfer of all written pages of these files to the disk and wait for none (sync_file_range(2)).

    A hint: nothing is durable by it, and where the system has no such call nothing happens. An error of the disk is told to
    whoever flushes the file.
    """
    if _sync_file_range is not None:
        for descriptor in descriptors:
            _sync_file_range(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)


def _found() -> "ctypes._NamedFuncPointer | None":
    function = getattr(ctypes.CDLL(None), "sync_file_range", None) if sys.platform == "linux" else None
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        function.restype = ctypes.c_int
    return function


_sync_file_range = _found()
