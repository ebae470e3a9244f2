"""Tensors that are not a number anywhere until they are written to, and take memory only where they were.

All pages are one small page set of bytes 0xFF, mapped again and again, which is NaN in every floating dtype; the first write to
a page gives it memory of its own. So what was never read can be reached by accident, but not without being seen.
"""

import ctypes
import mmap
import os
import weakref
from math import prod

import torch

STRETCH_BYTES = 2 << 20
MOST_MAPPINGS = 8192
"""The kernel lets a process have 65,530 (vm.max_map_count)."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000
"""Of Linux, which Python does not name."""
_FAILED = ctypes.c_void_p(-1).value


def poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of that shape, all NaN. MemoryError: the address space has no room for it."""
    size = prod(shape) * dtype.itemsize
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    stretch = STRETCH_BYTES
    while size > stretch * MOST_MAPPINGS:
        stretch *= 2
    whole = -(-size // stretch) * stretch
    base = _map(None, whole, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, -1)
    poison = os.memfd_create("poison")
    try:
        for _ in range(stretch // STRETCH_BYTES):
            os.write(poison, b"\xff" * STRETCH_BYTES)
        for at in range(0, whole, stretch):
            _map(base + at, stretch, mmap.MAP_PRIVATE | _MAP_FIXED, poison)
    finally:
        os.close(poison)
    bytes_ = (ctypes.c_uint8 * size).from_address(base)
    weakref.finalize(bytes_, _libc.munmap, base, whole)
    return torch.frombuffer(bytes_, dtype=dtype).view(shape)


def _map(at: int | None, size: int, flags: int, file: int) -> int:
    address = _libc.mmap(at, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    if address is None or address == _FAILED:
        raise MemoryError(f"{size} bytes of address space cannot be mapped: {os.strerror(ctypes.get_errno())}")
    return int(address)
