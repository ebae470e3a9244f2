"""What this process takes of memory: its resident size, its peak since a moment, and the tensors that it holds."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from dayzero.adapters.runners.process_memory import PAGE_BYTES, own_peak_bytes, resident_bytes

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
HIGH_WATER = "5"
"""What makes the kernel forget the largest resident size (proc(5), clear_refs)."""


class Peak:
    """The largest resident size since it was made, above the size at that moment. Where the kernel cannot forget an earlier
    peak, `exact` is False and the peak is that of the whole life of the process."""

    def __init__(self) -> None:
        self.exact = _forget()
        self.baseline_bytes = _resident()

    def restart(self) -> None:
        """Forget the peak so far; the baseline stays."""
        self.exact = _forget() and self.exact

    def bytes(self) -> int:
        """Bytes above the baseline; never below 0."""
        return max(0, _status("VmHWM") - self.baseline_bytes)


def _forget() -> bool:
    try:
        CLEAR.write_text(HIGH_WATER)
    except OSError:
        return False
    return _status("VmHWM") <= _resident() * 1.01 + (1 << 20)


def _resident() -> int:
    return _status("VmRSS") or resident_bytes(os.getpid())


def _status(field: str) -> int:
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return own_peak_bytes() if field == "VmHWM" else 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


def storage_bytes(tensors: Iterable[Any]) -> int:
    """Bytes of the storages behind the tensors, each once."""
    sizes = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr(), storage.device] = storage.nbytes()
    return sum(sizes.values())


def held_bytes(module: Any) -> int:
    """Bytes of a module's parameters and buffers, tied ones once."""
    return storage_bytes([*module.parameters(), *module.buffers()])


def parameters_of(module: Any) -> int:
    """Elements of a module's parameters that are here: tied ones once, of distributed ones this process's part."""
    held = {}
    for parameter in module.parameters():
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        if not local.is_meta:
            held[local.data_ptr() or id(local)] = local.numel()
    return sum(held.values())


def touch(module: Any) -> None:
    """Read a byte of every page of a module's parameters: a file that is mapped lies in memory only once it is read, and a
    table of embeddings is never read whole by one text."""
    for parameter in module.parameters():
        flat = parameter.detach().reshape(-1)
        flat[:: max(1, PAGE_BYTES // flat.element_size())].sum()


def cache_of(output: Any) -> dict[str, Any]:
    """The keyword that hands an output's cache to the next step (the library renamed it once); empty without a cache."""
    for name in ("cache", "past_key_values", "cache_params"):
        value = getattr(output, name, None)
        if value is not None:
            return {name: value}
    return {}


def cached_tensors(thing: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Every floating tensor of a cache of the modelling library, whatever its layers are."""
    seen = set() if seen is None else seen
    if thing is None or id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        if thing.is_floating_point() and thing.numel():
            yield thing
        return
    if isinstance(thing, dict):
        parts: Iterable[Any] = thing.values()
    elif isinstance(thing, list | tuple):
        parts = thing
    elif type(thing).__module__.startswith("transformers") and "Config" not in type(thing).__name__:
        parts = vars(thing).values()
    else:
        return
    for part in parts:
        yield from cached_tensors(part, seen)
