"""Buffers that no checkpoint holds: the library makes them after loading, and one that it forgot holds what memory held.

A table of rotary frequencies left unset makes target and reference wrong alike, which no comparison of the two can show.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dayzero.errors import BlockedError


@contextmanager
def memory_marked() -> Iterator[None]:
    """New memory is filled: NaN in floating tensors, the largest number in integer ones (torch.utils.deterministic)."""
    had, warned, fill = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(had, warn_only=warned)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def require_set(model: Any) -> None:
    """BlockedError when a model that was loaded in marked memory has a buffer of its own that still holds the mark."""
    kept = model.state_dict().keys()
    unset = [name for name, buffer in model.named_buffers() if name not in kept and _is_marked(buffer)]
    if unset:
        raise BlockedError(
            f"no reference: the modelling library left {unset[0]} of {type(model).__name__} unset when it loaded the model"
            f" ({len(unset)} such buffers); no checkpoint holds it, and every result would depend on what memory held.",
            remedy="Load it with another release of transformers, or without what patches torch's factory functions.",
        )


def _is_marked(buffer: torch.Tensor) -> bool:
    if buffer.is_meta or not buffer.numel() or buffer.dtype is torch.bool or buffer.is_complex():
        return False
    if buffer.is_floating_point():
        return bool(torch.isnan(buffer.float()).any())
    return bool((buffer == torch.iinfo(buffer.dtype).max).all())
