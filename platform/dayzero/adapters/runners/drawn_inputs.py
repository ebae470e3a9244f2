"""An operator's arguments drawn anew: other values in the same shapes, dtypes and strides, from several distributions."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from dayzero.adapters.runners.placing import HOST

DRAWN = (torch.bfloat16, torch.float16, torch.float32)
"""Dtypes whose values are drawn."""

Draw = Callable[[torch.Generator, tuple[int, ...], torch.dtype], torch.Tensor]


def large_of(dtype: torch.dtype) -> float:
    """The largest magnitude that is drawn: such that a product of two is in the dtype's range."""
    return min(1e4, math.sqrt(torch.finfo(dtype).max) / 2)


def _normal(source: torch.Generator, shape: tuple[int, ...], _dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=source)


def _heavy(source: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Student's t with two degrees of freedom (its variance is infinite), cut at the largest magnitude."""
    normal = torch.randn(shape, dtype=torch.float64, generator=source)
    uniform = torch.rand(shape, dtype=torch.float64, generator=source).clamp_min_(1e-12)
    large = large_of(dtype)
    return (normal / uniform.log_().neg_().sqrt_()).clamp_(-large, large)


def _large(source: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Every decade from 1 to the largest magnitude equally often, in both signs."""
    uniform = torch.rand(shape, dtype=torch.float64, generator=source) * 2 - 1
    return torch.exp(uniform.abs() * math.log(large_of(dtype))).copysign_(uniform)


def _denormal(source: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Numbers below the smallest normal one, mostly."""
    return torch.randn(shape, dtype=torch.float64, generator=source) * (torch.finfo(dtype).tiny / 4)


def _zeros(source: torch.Generator, shape: tuple[int, ...], _dtype: torch.dtype) -> torch.Tensor:
    """About half of them exact zeros, of both signs."""
    values = torch.randn(shape, dtype=torch.float64, generator=source)
    return torch.where(values.abs() < 0.7, torch.zeros_like(values).copysign_(values), values)


DENORMAL = "denormal"
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": _normal, "heavy-tailed": _heavy, "large magnitude": _large, DENORMAL: _denormal, "exact zeros": _zeros,
}  # fmt: skip
"""Inputs by name, as float64 values for a dtype."""


def generator(*seed: object) -> torch.Generator:
    """A generator that the same words give again, in whatever order calls are made."""
    words = hashlib.sha256(repr(seed).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(words[:7], "big"))


def drawn(arguments: Any, draw: Draw, source: torch.Generator) -> Any:
    """The arguments on the host, floating tensors drawn anew; integers, truth values, masks and single numbers are kept."""
    return tree_map(lambda leaf: _leaf(leaf, draw, source), arguments)


def is_drawn(leaf: Any) -> bool:
    """Whether the values of an argument are drawn: a floating tensor that is no single number and no mask."""
    return isinstance(leaf, torch.Tensor) and leaf.dtype in DRAWN and leaf.dim() > 0 and leaf.numel() > 0 and not _is_mask(leaf)


def _is_mask(leaf: torch.Tensor) -> bool:
    """Whether it holds what masks add to scores: minus infinity, or the dtype's least number."""
    return bool(leaf.min() <= torch.finfo(leaf.dtype).min / 2)


def _leaf(leaf: Any, draw: Draw, source: torch.Generator) -> Any:
    if isinstance(leaf, torch.device):
        return HOST
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if not is_drawn(leaf):
        return leaf.to(HOST, copy=True)
    shape, strides = tuple(leaf.shape), leaf.stride()
    # A dimension of stride 0 repeats one value: it is drawn once, and repeated again.
    once = tuple(1 if step == 0 else size for size, step in zip(shape, strides, strict=True))
    values = draw(source, once, leaf.dtype).to(leaf.dtype)
    if once != shape:
        return values.expand(shape)
    return torch.empty_strided(shape, strides, dtype=leaf.dtype).copy_(values) if _apart(shape, strides) else values


def _apart(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether no two elements share memory, and the memory between them is no more than a few times their own."""
    reach = 1
    for step, size in sorted((step, size) for size, step in zip(shape, strides, strict=True) if size > 1):
        if step < reach:
            return False
        reach += step * (size - 1)
    return reach <= 8 * max(math.prod(shape), 1)
