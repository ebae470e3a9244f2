"""Caches in 8 bits: what is written is quantized, what is read is multiplied by its scale; the present token stays native.

Scales come from the prefill and stay (servers calibrate once and then append; so does transformers' Fp8QuantizedLayer); values
beyond them saturate. Formats: `fp8_e4m3/tensor` and `fp8_e4m3/head` (largest value 448), `int8/head` (127): one scale a layer
for keys and one for values, or one a head. The arithmetic runs where the cache lies, on the platform's device.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

FORMATS = ("fp8_e4m3/tensor", "fp8_e4m3/head", "int8/head")
LARGEST = {"fp8_e4m3": 448.0, "int8": 127.0}
"""The largest number of each format (OCP 8-bit Floating Point 1.0; symmetric 8-bit integers)."""
TINY = 2.0**-100
"""A scale of nothing but zeros."""


def stored(scaled: torch.Tensor, kind: str) -> torch.Tensor:
    """Scaled values as the format keeps them, in float32: beyond its largest number they saturate."""
    within = scaled.clamp(-LARGEST[kind], LARGEST[kind])
    return (within.to(torch.float8_e4m3fn) if kind == "fp8_e4m3" else within.round().to(torch.int8)).float()


@dataclass(slots=True)
class Quantizer:
    """Rounds keys or values [batch, heads, tokens, width] of one layer to a format; keeps the first scale. With `ignored` it is
    not multiplied by again: the fault that must be seen."""

    format: str
    ignored: bool = False
    scale: Any = None
    elements: int = 0
    clipped: int = 0
    error: float = 0.0
    written: float = 0.0

    def rounded(self, states: torch.Tensor) -> torch.Tensor:
        """What is read back of what was written, in the dtype of `states`."""
        kind, _, each = self.format.partition("/")
        wide = states.float()
        if self.scale is None:
            over = (0, 2, 3) if each == "head" else (0, 1, 2, 3)
            self.scale = (wide.abs().amax(dim=over, keepdim=True) / LARGEST[kind]).clamp_min(TINY)
        scaled = wide / self.scale
        self.elements += scaled.numel()
        self.clipped += int((scaled.abs() > LARGEST[kind]).sum())
        kept = stored(scaled, kind)
        read = kept if self.ignored else kept * self.scale
        self.error += float((read - wide).pow(2).sum())
        self.written += float(wide.pow(2).sum())
        return read.to(states.dtype)


class QuantizedLayers:
    """The layers of a cache of the modelling library that hold keys and values, with a format put into each."""

    def __init__(self, cache: Any, format: str, ignored: bool = False) -> None:
        self.quantizers: list[Quantizer] = []
        self.layers = [layer for layer in cache.layers if holds_keys(layer)]
        for layer in self.layers:
            pair = Quantizer(format, ignored), Quantizer(format, ignored)
            self.quantizers += pair
            layer.update = _Update(layer.update, *pair)

    def largest_scale(self) -> float:
        """The largest scale of any layer."""
        return max(float(one.scale.max()) for one in self.quantizers if one.scale is not None)

    def clipped_share(self) -> float:
        """The share of written elements beyond the scale."""
        elements = sum(one.elements for one in self.quantizers)
        return sum(one.clipped for one in self.quantizers) / elements if elements else 0.0

    def readback_error(self) -> float:
        """‖read − written‖ / ‖written‖ of the worst keys or values of a layer."""
        return max(math.sqrt(one.error / one.written) for one in self.quantizers if one.written > 0)


class _Update:
    """A layer's update: rounded states go into the cache, the present ones come back as they are."""

    def __init__(self, update: Any, keys: Quantizer, values: Quantizer) -> None:
        self.update, self.keys, self.values = update, keys, values

    def __call__(
        self, keys: torch.Tensor, values: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        new = keys.shape[-2]
        all_keys, all_values = self.update(self.keys.rounded(keys), self.values.rounded(values), *args, **kwargs)
        return (
            torch.cat([all_keys[..., :-new, :], keys], dim=-2),
            torch.cat([all_values[..., :-new, :], values], dim=-2),
        )


def holds_keys(layer: Any) -> bool:
    """Whether a layer of a cache holds plain keys and values of every token (or of a window's)."""
    return type(layer).__name__ in ("DynamicLayer", "DynamicSlidingWindowLayer")
