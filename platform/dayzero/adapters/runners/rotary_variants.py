"""Variants of rotary embeddings, to name the one that somebody took by trying: base, scaling, dimensions, pairing, positions.

At position 0 every variant is the identity; only later positions tell them apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from dayzero.adapters.runners.figures import ROUNDING

ALIKE = 8.0
"""Tables are alike when they differ by no more than this many roundings of their dtype: products and sines round too."""
USUAL_BASES = (10_000.0, 100_000.0, 150_000.0, 500_000.0, 1_000_000.0, 5_000_000.0, 10_000_000.0)
"""Bases that published models have."""


@dataclass(frozen=True, slots=True)
class Rotary:
    """Frequencies by pair, the factor on cosine and sine, the shift of positions, and whether pairs lie side by side."""

    frequencies: torch.Tensor
    factor: float = 1.0
    shift: int = 0
    side_by_side: bool = False

    def tables(self, positions: torch.Tensor, doubled: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each [positions, pairs], every entry twice where `doubled`; in float64."""
        angles = (positions.to(torch.float64) + self.shift)[:, None] * self.frequencies.to(torch.float64)[None]
        if doubled:
            angles = angles.repeat_interleave(2, -1) if self.side_by_side else torch.cat((angles, angles), -1)
        return angles.cos() * self.factor, angles.sin() * self.factor


def frequencies(base: float, dimensions: int, pairs: int | None = None) -> torch.Tensor:
    """base^(-2i/d) for the first pairs (all d/2 of them by default), RoFormer's formula."""
    steps = torch.arange(pairs or dimensions // 2, dtype=torch.float64)
    return torch.as_tensor(base, dtype=torch.float64) ** (-2.0 * steps / dimensions)


def variants(right: Rotary, base: float, head_dim: int) -> Iterator[tuple[str, Rotary]]:
    """Known mistakes about a right embedding of that base and head dimension, by name."""
    pairs = right.frequencies.numel()
    yield "the pairs lie side by side, not in halves", Rotary(right.frequencies, right.factor, side_by_side=True)
    for shift in (-1, 1):
        word = "early" if shift < 0 else "late"
        yield f"positions are one too {word}", Rotary(right.frequencies, right.factor, shift)
    if right.factor != 1.0:
        yield f"the factor {right.factor:.4g} on cosine and sine is missing", Rotary(right.frequencies)
    yield "the scaling of frequencies is missing", Rotary(frequencies(base, 2 * pairs), right.factor)
    yield "scaling and its factor are missing", Rotary(frequencies(base, 2 * pairs))
    if head_dim != 2 * pairs:
        yield "frequencies are spread over the whole head", Rotary(frequencies(base, head_dim, pairs), right.factor)
    for other in USUAL_BASES:
        if other != base:
            yield f"base {other:.0f} instead of {base:.0f}", Rotary(frequencies(other, 2 * pairs), right.factor)


def of_tables(rotary: Any, ours: list[torch.Tensor], positions: torch.Tensor) -> str | None:
    """The mistake that gives these tables [1, tokens, pairs or twice as many] at those positions; None: none that is known.

    `rotary` is the right embedding's module.
    """
    config: Any = getattr(rotary, "config", None)
    right_frequencies = getattr(rotary, "inv_freq", None)
    parameters = getattr(config, "rope_parameters", None) or {}
    if len(ours) != 2 or right_frequencies is None or "rope_theta" not in parameters or int(positions.max()) < 1:
        return None
    right = Rotary(right_frequencies, float(getattr(rotary, "attention_scaling", 1.0)))
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return named(right, float(parameters["rope_theta"]), int(head_dim), ours, positions)


def named(right: Rotary, base: float, head_dim: int, ours: list[torch.Tensor], positions: torch.Tensor) -> str | None:
    """The name of the first variant whose tables these are."""
    cosine, sine = (leaf.reshape(-1, leaf.shape[-1]) for leaf in ours)
    doubled = cosine.shape[-1] == 2 * right.frequencies.numel()
    for name, variant in variants(right, base, head_dim):
        tables = variant.tables(positions.flatten(), doubled)
        if all(table.shape == leaf.shape and _alike(leaf, table) for leaf, table in zip((cosine, sine), tables, strict=True)):
            return name
    return None


def _alike(ours: torch.Tensor, table: torch.Tensor) -> bool:
    # An angle of p turns has p times the rounding of its frequency: long prompts need more room.
    room = ALIKE * (ROUNDING[ours.dtype] + ours.shape[0] * ROUNDING[torch.float32])
    return bool((ours.to(torch.float64) - table).abs().max() <= room * max(1.0, float(table.abs().max())))


def turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, side_by_side: bool) -> torch.Tensor:
    """The first dimensions of x [..., head] rotated by tables [..., pairs], in halves or in neighbours; the rest as it is."""
    size = 2 * cosine.shape[-1]
    head, rest = x[..., :size], x[..., size:]
    if side_by_side:
        even, odd = head[..., 0::2], head[..., 1::2]
        rotated = torch.stack((even * cosine - odd * sine, odd * cosine + even * sine), -1).flatten(-2)
    else:
        first, second = head.chunk(2, -1)
        rotated = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
    return torch.cat((rotated, rest), -1)
