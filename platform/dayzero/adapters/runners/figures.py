"""Error figures of tensors. Shapes: any, rows along all but the last dimension; figures are computed in float64."""

import math
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from dayzero.domain.observations import TensorError

ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24, torch.float64: 2.0**-53}
"""Unit roundoff: the largest relative error of correct rounding (IEEE 754; bfloat16 has 8 significant bits)."""
WITHIN = 1e-3
"""Elements count as right within this share of max(|reference|, rms) (design, single operators)."""


def finite(value: float) -> float | None:
    """The number, or None where it is NaN or infinite."""
    return value if math.isfinite(value) else None


def dtype_name(dtype: torch.dtype) -> str:
    """bfloat16 for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def rows(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as float64 rows [rows, last dimension]."""
    wide = tensor.detach().to(torch.float64)
    return wide.reshape(-1, wide.shape[-1]) if wide.dim() > 1 else wide.reshape(1, -1)


def tokens_of(hidden: torch.Tensor) -> int:
    """How many tokens hidden states have: [1, tokens, …], or [tokens, width] in towers that know no batch."""
    return int(hidden.shape[1] if hidden.dim() > 2 else hidden.shape[0])


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    """The value with its floating tensors in the dtype (None: as they are)."""
    if dtype is None:
        return value
    return tree_map(lambda leaf: leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf, value)


def standard_error(values: torch.Tensor) -> float | None:
    """Of the mean of so many independent values; None for fewer than two, or where it is not finite."""
    count = values.numel()
    return finite(float(values.std() / count**0.5)) if count > 1 else None


def tensor_error(actual: torch.Tensor, reference: torch.Tensor, keep: torch.Tensor | None = None) -> TensorError:
    """Figures of `actual` against `reference`, over the rows that `keep` [rows] marks (None: all)."""
    if actual.shape != reference.shape:
        raise ValueError(f"shapes {tuple(actual.shape)} and {tuple(reference.shape)} cannot be compared")
    left, right = rows(actual), rows(reference)
    if keep is not None:
        left, right = left[keep], right[keep]
    known = torch.isfinite(right)
    nonfinite = int((known & ~torch.isfinite(left)).sum())
    usable = known & torch.isfinite(left)
    if not bool(usable.any()):
        # Nothing finite on both sides: not equal, however alike the two look.
        return TensorError(0, None, None, None, nonfinite)
    left, right = torch.where(usable, left, 0.0), torch.where(usable, right, 0.0)
    error = left - right
    scale = right.pow(2).mean(-1).sqrt()
    relative = error.pow(2).mean(-1).sqrt() / scale.clamp_min(torch.finfo(torch.float64).tiny)
    relative = torch.where(scale > 0, relative, torch.where(error.abs().amax(-1) > 0, math.inf, 0.0))
    norms = left.norm(dim=-1) * right.norm(dim=-1)
    cosines = torch.where(norms > 0, (left * right).sum(-1) / norms.clamp_min(torch.finfo(torch.float64).tiny), 1.0)
    return TensorError(
        int(usable.sum()),
        finite(float(relative.mean())),
        finite(float(error.abs().max())),
        finite(float(cosines.min())),
        nonfinite,
    )


def share_within(actual: torch.Tensor, reference: torch.Tensor, inner_roundings: int = 0) -> float:
    """Share of elements within 1e-3 of the reference, beyond the rounding that the actual dtype cannot avoid.

    `inner_roundings`: how often the operator rounds intermediate results to that dtype by design. Each moves an element by
    at most a unit of rounding of the tensor's scale.
    """
    left, right = actual.detach().to(torch.float64), reference.detach().to(torch.float64)
    both = torch.isfinite(left) & torch.isfinite(right)
    same = (left == right) | (torch.isnan(left) & torch.isnan(right))
    scale = right[torch.isfinite(right)].pow(2).mean().sqrt() if torch.isfinite(right).any() else torch.tensor(0.0)
    unit = ROUNDING.get(actual.dtype, 0.0)
    allowed = (WITHIN + inner_roundings * unit) * torch.maximum(right.abs(), scale) + unit * right.abs()
    good = same | (both & ((left - right).abs() <= allowed))
    return float(good.to(torch.float64).mean()) if good.numel() else 1.0


def first_float(out: Any) -> torch.Tensor | None:
    """The first floating tensor with elements among the outputs."""
    for leaf in tree_flatten(out)[0]:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel():
            return leaf
    return None


def floats(out: Any) -> list[torch.Tensor]:
    """The floating tensors with elements among the outputs.

    Weights of chosen experts come in the order of the choice, which ties make arbitrary: where a router returns its choice
    beside them, they are given back by expert.
    """
    leaves = [leaf for leaf in tree_flatten(out)[0] if isinstance(leaf, torch.Tensor) and leaf.numel()]
    chosen = [leaf for leaf in leaves if not leaf.is_floating_point() and leaf.dtype is not torch.bool]
    found = [leaf for leaf in leaves if leaf.is_floating_point()]
    if len(chosen) != 1:
        return found
    experts = max((leaf.shape[-1] for leaf in found), default=0)
    return [_by_expert(leaf, chosen[0], experts) if leaf.shape == chosen[0].shape else leaf for leaf in found]


def _by_expert(weights: torch.Tensor, chosen: torch.Tensor, experts: int) -> torch.Tensor:
    size = max(experts, int(chosen.max()) + 1)
    return torch.zeros(*weights.shape[:-1], size, dtype=weights.dtype).scatter(-1, chosen.to(torch.int64), weights)
