"""What a tower is given, drawn by a seed: pixels, or frames of sound, in the shape that its forward asks for.

The values are no picture and no voice. Layers are compared on what the reference brings to them, so that any input that
reaches every one of them will do; it is the same in all three runs.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dayzero.errors import BlockedError

SEED = 0
PATCHES = 16
"""Patches a side, of a tower that takes any size: beyond usual windows of attention, and few enough for eager attention."""
GRID = (4, 6)
"""Merged patches a side, of a tower that is told the grid."""
FRAMES, BINS = 200, 128
"""Frames of sound and their frequencies, of a tower whose configuration names neither."""
_ANY_SIZE = {"image_sizes", "patch_attention_mask"}


@dataclass(frozen=True, slots=True)
class TowerInput:
    """Arguments of the tower's forward, and what they are in words."""

    given: Mapping[str, Any]
    words: str


def drawn_input(tower: Any, dtype: torch.dtype) -> TowerInput:
    """An input of the tower in the dtype; BlockedError names the arguments where none of this shape is known."""
    names = list(inspect.signature(tower.forward).parameters)
    if "grid_thw" in names:
        return _on_grid(tower.config, names[0], dtype)
    if "pixel_position_ids" in names:
        return _positioned(tower.config, dtype)
    if "pixel_values" in names:
        return _picture(tower.config, bool(_ANY_SIZE & set(names)), dtype)
    if "input_features" in names:
        return _sound(tower, dtype)
    raise BlockedError(
        f"{type(tower).__name__} takes {', '.join(names)}, for which no input can be drawn.",
        remedy="Its layers need a recipe of their own.",
    )


def _drawn(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(SEED)).to(dtype)


def _number(config: Any, names: tuple[str, ...], usual: int) -> int:
    """The first of those fields that is a number, or (of a pair) its first."""
    for name in names:
        value = getattr(config, name, None)
        value = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(value, int) and value > 0:
            return value
    return usual


def _on_grid(config: Any, rows: str, dtype: torch.dtype) -> TowerInput:
    merge, patch = _number(config, ("spatial_merge_size",), 1), _number(config, ("patch_size",), 14)
    high, wide = (merge * size for size in GRID)
    width = _number(config, ("in_channels", "in_chans", "num_channels"), 3) * _number(config, ("temporal_patch_size",), 1)
    pixels = _drawn((high * wide, width * patch**2), dtype)
    return TowerInput(
        {rows: pixels, "grid_thw": torch.tensor([[1, high, wide]])}, f"{high} × {wide} patches of drawn pixels (seed {SEED})"
    )


def _positioned(config: Any, dtype: torch.dtype) -> TowerInput:
    side = 4 * _number(config, ("pooling_kernel_size",), 1)
    pixels = _drawn((1, side**2, 3 * _number(config, ("patch_size",), 16) ** 2), dtype)
    along = torch.arange(side)
    places = torch.stack([along.repeat(side), along.repeat_interleave(side)], -1)[None]
    return TowerInput(
        {"pixel_values": pixels, "pixel_position_ids": places}, f"{side} × {side} patches of drawn pixels (seed {SEED})"
    )


def _picture(config: Any, any_size: bool, dtype: torch.dtype) -> TowerInput:
    size, patch = _number(config, ("image_size",), 224), _number(config, ("patch_size",), 14)
    if any_size:
        size = min(size, PATCHES * patch)
    pixels = _drawn((1, _number(config, ("num_channels", "in_channels"), 3), size, size), dtype)
    return TowerInput({"pixel_values": pixels}, f"{size} × {size} drawn pixels (seed {SEED})")


def _sound(tower: Any, dtype: torch.dtype) -> TowerInput:
    config = tower.config
    bins, positions = (
        _number(config, ("num_mel_bins", "subsampling_conv_channels"), BINS),
        _number(config, ("max_source_positions",), 0),
    )
    if positions:
        strides = [module.stride[0] for module in tower.children() if isinstance(module, torch.nn.Conv1d)]
        frames = positions * int(torch.tensor(strides or [1]).prod())
        return TowerInput({"input_features": _drawn((1, bins, frames), dtype)}, f"{frames} drawn frames (seed {SEED})")
    told = {"input_features": _drawn((1, FRAMES, bins), dtype), "attention_mask": torch.ones((1, FRAMES), dtype=torch.bool)}
    return TowerInput(told, f"{FRAMES} drawn frames of sound (seed {SEED})")
