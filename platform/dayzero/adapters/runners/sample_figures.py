"""The target's results and the host kernel's, both against float64, on one drawn input."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dayzero.adapters.runners.figures import dtype_name, finite, rows, share_within
from dayzero.domain.sampling import CallSample, SampleFigures
from dayzero.stages.precision import limits as precision

Result = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Target, native, wide: the same result three ways, all on the host."""


def triples(target: Any, native: Any, wide: Any) -> list[Result]:
    """The tensors with elements of the three results, matched; ValueError where they are not the same number or shape."""
    found = [[leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)] for result in (target, native, wide)]
    if len({len(leaves) for leaves in found}) > 1:
        raise ValueError("the three give other numbers of results")
    rows = [row for row in zip(*found, strict=True) if row[2].numel() or row[0].numel()]
    for row in rows:
        if row[0].is_floating_point() and dtype_name(row[0].dtype) not in precision.RELATIVE_TOLERANCE:
            raise ValueError(f"no limit is known for {dtype_name(row[0].dtype)}")
        if row[0].shape != row[2].shape or row[1].shape != row[2].shape:
            raise ValueError(f"a result has the shape {tuple(row[0].shape)}, in float64 {tuple(row[2].shape)}")
    return rows


def identical(rows: list[Result]) -> bool:
    """Whether the target equals the host's kernel bit for bit (a NaN is a NaN)."""
    return all(one.dtype == other.dtype and torch.equal(_bits(one), _bits(other)) for one, other, _ in rows)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Floats as integers, so that signs of zero count; NaNs all alike."""
    if not tensor.is_floating_point():
        return tensor
    as_integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return torch.where(tensor.isnan(), torch.full_like(tensor, torch.nan), tensor).contiguous().view(as_integer)


def sample_of(distribution: str, rows: list[Result], roundings: int, *, inputs_flushed: bool = False) -> CallSample:
    """The figures of the worst of the results, and counts over all of them."""
    same = identical(rows)
    floating = [row for row in rows if row[0].is_floating_point() and row[2].is_floating_point()]
    exact = [row for row in rows if not row[0].is_floating_point()]
    found = [_floating(row, roundings, same=same) for row in floating]
    made = CallSample(
        distribution,
        dtype=found[0].dtype if found else None,
        n=sum(one.n for one in found),
        identical=same,
        nonfinite=sum(one.nonfinite for one in found),
        otherwise=sum(one.otherwise for one in found),
        saturated=sum(one.saturated for one in found),
        exact_n=sum(row[0].numel() for row in exact),
        mismatched=sum(_mismatched(row) for row in exact),
        flushed=sum(one.flushed for one in found),
        inputs_flushed=inputs_flushed,
    )
    compared = [one for one in found if one.target is not None]
    if not compared:
        return made
    worst = max(compared, key=_badness)
    return replace(made, dtype=worst.dtype, target=worst.target, native=worst.native, ratio_max=worst.ratio_max)


def _badness(one: "_Floating") -> float:
    assert one.target is not None and one.native is not None, "only compared results are ranked"
    floor = max(one.native.rms_relative or 0.0, precision.RELATIVE_TOLERANCE[one.dtype])
    return max((one.target.rms_relative or 0.0) / floor, one.ratio_max or 0.0)


def _mismatched(row: Result) -> int:
    """Integers and truth values that are neither the host kernel's nor float64's; where those two differ nothing is said."""
    target, native, wide = row
    if target.is_complex() or wide.is_complex():
        return 0
    agreed = native.to(wide.dtype) == wide
    return int((agreed & (target.to(wide.dtype) != wide)).sum())


@dataclass(frozen=True, slots=True)
class _Floating:
    """One floating result, as in CallSample."""

    dtype: str
    n: int
    nonfinite: int
    otherwise: int
    saturated: int
    flushed: int
    target: SampleFigures | None = None
    native: SampleFigures | None = None
    ratio_max: float | None = None


def _floating(row: Result, roundings: int, *, same: bool) -> _Floating:
    target, native, wide = (rows(tensor) for tensor in row)
    limits = torch.finfo(row[0].dtype)
    tiny, largest, eps = float(limits.tiny), float(limits.max), float(limits.eps)
    in_range = wide.isfinite() & (wide.abs() <= largest)
    nonfinite = in_range & native.isfinite() & ~target.isfinite()
    flushed = in_range & (wide != 0) & (wide.abs() < tiny) & (target == 0) & (native != 0)
    rounded = _kind(torch.where(wide.abs() > largest, wide * torch.inf, wide))
    strange = ~in_range & (_kind(target) != _kind(native)) & (_kind(target) != rounded)
    saturated = strange & (target.abs() == largest) & native.isinf() & (target.sign() == native.sign())
    usable = in_range & target.isfinite() & native.isfinite() & ~flushed
    counts = _Floating(
        dtype_name(row[0].dtype), int(usable.sum()), int(nonfinite.sum()), int((strange & ~saturated).sum()),
        int(saturated.sum()), int(flushed.sum()),
    )  # fmt: skip
    if not counts.n:
        return counts
    kept = usable.any(-1)
    target, native, wide = (torch.where(usable, tensor, 0.0)[kept] for tensor in (target, native, wide))
    number = usable[kept].sum(-1)
    power = wide.pow(2).sum(-1) / number
    scale = power.sqrt().clamp_min(max(tiny, eps * float(power.mean().sqrt())))
    errors = (target - wide).abs(), (native - wide).abs()
    floor = torch.maximum(errors[1].amax(-1), precision.K * eps * scale)

    def figures(error: torch.Tensor, result: torch.Tensor) -> SampleFigures:
        relative = finite(float(((error.pow(2).sum(-1) / number).sqrt() / scale).mean()))
        share = finite(share_within(result.to(row[0].dtype), wide, roundings))
        return SampleFigures(relative, *ulps(error, wide, row[0].dtype, counts.n), share)

    ours = figures(errors[0], target)
    theirs = ours if same else figures(errors[1], native)
    ratio = finite(float((errors[0].amax(-1) / floor).max()))
    return replace(counts, target=ours, native=theirs, ratio_max=ratio)


def ulps(error: torch.Tensor, wide: torch.Tensor, dtype: torch.dtype, n: int) -> tuple[float | None, float | None]:
    """The largest error in units of the last place of the reference in the dtype, and the share of `n` beyond one unit."""
    limits = torch.finfo(dtype)
    exponent = torch.frexp(wide.abs().clamp_min(float(limits.tiny)))[1] - 1
    units = error / (float(limits.eps) * torch.exp2(exponent.to(torch.float64)))
    return finite(float(units.max())), float((units > 1).sum()) / max(n, 1)


def _kind(tensor: torch.Tensor) -> torch.Tensor:
    """0 for a finite number, 2 for NaN, the sign of an infinity."""
    kind = torch.where(tensor.isinf(), tensor.sign(), torch.zeros_like(tensor))
    return torch.where(tensor.isnan(), 2.0, kind)
