"""Runs one operator in one dtype on the device and compares it with float64. Imported by child processes only."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from dayzero.adapters.operators.arguments import NobodyKnowsError, Plan, arguments_for, plans
from dayzero.domain.probing import OperatorProbe, ProbeOutcome, ProbeSample

_SEED = 20260729
_TIMED_RUNS = 5
_WHY_CHARACTERS = 160
_REFERENCE = torch.float64

Distribution = Callable[[torch.Generator, tuple[int, ...]], torch.Tensor]


def distributions(dtype: torch.dtype) -> dict[str, Distribution]:
    """Inputs by name, as float64 values that the dtype can hold."""
    limits = torch.finfo(dtype) if dtype.is_floating_point else None
    large = min(1e4, math.sqrt(float(limits.max)) / 2) if limits else 3.0
    tiny = float(limits.tiny) if limits else 1.0

    def normal(source: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, dtype=_REFERENCE, generator=source)

    def uniform(source: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.rand(shape, dtype=_REFERENCE, generator=source)

    def zeros(source: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
        values = normal(source, shape)
        return torch.where(values.abs() < 0.7, torch.copysign(torch.zeros_like(values), values), values)

    return {
        "normal": normal,
        "uniform": lambda source, shape: 2 * uniform(source, shape) - 1,
        "positive": lambda source, shape: 0.98 * uniform(source, shape) + 0.01,
        "large": lambda source, shape: normal(source, shape) * large,
        "small": lambda source, shape: normal(source, shape) * 1e-3,
        "zeros": zeros,
        "denormal": lambda source, shape: normal(source, shape) * tiny / 4,
    }


_USUAL = ("normal", "positive")
"""Distributions by which arguments are found: some operators take nothing but probabilities."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """How an operator can be called, in which wide dtype, and why its results cannot be compared (None: they can)."""

    plan: Plan
    distribution: str
    wide: torch.dtype
    uncompared: str | None


class Prober:
    """Probes operators on a device, one dtype after the other."""

    def __init__(self, device: str, dtypes: Sequence[str]) -> None:
        self._device = device
        self._dtypes = [(name, getattr(torch, name)) for name in dtypes]

    def probe(self, name: str) -> list[OperatorProbe]:
        """The operator in every dtype. Never raises for what the operator does, short of ending the process."""
        handle = _handle(name)
        if handle is None:
            return [
                OperatorProbe(name, dtype, ProbeOutcome.UNSAMPLED, "torch has no such operator") for dtype, _ in self._dtypes
            ]
        chosen, complaint = _choose(handle)
        if chosen is None:
            why = f"nobody could make up arguments for it: {complaint}"
            return [OperatorProbe(name, dtype, ProbeOutcome.UNSAMPLED, why) for dtype, _ in self._dtypes]
        return [self._in(name, handle, dtype, kind, chosen) for dtype, kind in self._dtypes]

    def _in(self, name: str, handle: Any, dtype: str, kind: torch.dtype, chosen: _Choice) -> OperatorProbe:
        try:
            arguments = _arguments(handle, chosen.plan, kind, self._device, chosen.distribution)
            _run(handle, arguments)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is its answer
            return OperatorProbe(name, dtype, ProbeOutcome.RAISED, _first_line(error))
        tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        used = tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}))
        time_s = self._time(handle, chosen, kind)
        if kind is torch.float32 and chosen.wide is torch.float32:
            why = "it takes nothing wider than float32 to compare it with"
            return OperatorProbe(name, dtype, ProbeOutcome.UNCOMPARED, why, used, (), time_s)
        if chosen.uncompared:
            return OperatorProbe(name, dtype, ProbeOutcome.UNCOMPARED, chosen.uncompared, used, (), time_s)
        samples, complaint = [], ""
        for distribution in distributions(kind):
            try:
                samples.append(self._compare(handle, chosen, kind, distribution))
            except Exception as error:  # noqa: BLE001 - the next distribution may suit it better
                complaint = _first_line(error)
        if not samples:
            why = f"it has no float64 to compare with: {complaint}"
            return OperatorProbe(name, dtype, ProbeOutcome.UNCOMPARED, why, used, (), time_s)
        return OperatorProbe(name, dtype, ProbeOutcome.RAN, None, used, tuple(samples), time_s)

    def _compare(self, handle: Any, chosen: _Choice, kind: torch.dtype, distribution: str) -> ProbeSample:
        arguments = _arguments(handle, chosen.plan, kind, self._device, distribution)
        wide = tree_map(lambda leaf: _widened(leaf, kind, chosen.wide), arguments)
        return _sample(distribution, _run(handle, arguments), _run(handle, wide))

    def _time(self, handle: Any, chosen: _Choice, kind: torch.dtype) -> float:
        best = float("inf")
        for _ in range(_TIMED_RUNS):
            arguments = _arguments(handle, chosen.plan, kind, self._device, chosen.distribution)
            _wait(self._device)
            started = time.perf_counter()
            _run(handle, arguments)
            _wait(self._device)
            best = min(best, time.perf_counter() - started)
        return best


def _choose(handle: Any) -> tuple[_Choice | None, str]:
    """The first plan that the operator accepts on the CPU, in the widest dtype that it takes; else its first complaint."""
    complaint = ""
    for dtype in (_REFERENCE, torch.float32, torch.int64, torch.bool):
        for plan in plans(handle._schema):
            for distribution in _USUAL:
                try:
                    _run(handle, _arguments(handle, plan, dtype, "cpu", distribution))
                except NobodyKnowsError as error:
                    return None, f"its arguments hold a {error.args[0]}"
                except Exception as error:  # noqa: BLE001 - arguments that do not fit can raise anything; the next plan is tried
                    complaint = complaint or _first_line(error)
                    continue
                return _Choice(plan, distribution, dtype, _uncompared(handle, plan, dtype, distribution)), ""
    return None, complaint


def _uncompared(handle: Any, plan: Plan, dtype: torch.dtype, distribution: str) -> str | None:
    """Why there is nothing to compare the operator's results with: another seed, or other memory, gives others."""
    if torch.Tag.nondeterministic_seeded in handle.tags:
        runs = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            runs.append(_run(handle, _arguments(handle, plan, dtype, "cpu", distribution)))
        if not _same(*runs):
            return "it draws random numbers: there is nothing to compare with"
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills memory that nobody wrote with NaN, or the largest integer
    try:
        results = [
            leaf for leaf in tree_leaves(_run(handle, _arguments(handle, plan, dtype, "cpu", distribution))) if _dense(leaf)
        ]
    finally:
        torch.use_deterministic_algorithms(False)
    if results and all(_unwritten(result) for result in results if result.numel()):
        return "its result is whatever memory held: there is nothing to compare with"
    return None


def _dense(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and not leaf.is_quantized


def _unwritten(result: torch.Tensor) -> bool:
    if result.is_floating_point() or result.is_complex():
        return bool(result.isnan().all())
    return result.dtype is not torch.bool and bool((result == torch.iinfo(result.dtype).max).all())


def _same(one: Any, other: Any) -> bool:
    pairs = zip(tree_leaves(one), tree_leaves(other), strict=False)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs if _dense(mine) and _dense(theirs))


def _handle(name: str) -> Any:
    _, packet, overload = name.split(".", 2)
    return getattr(getattr(torch.ops.aten, packet, None), overload, None)


def _arguments(handle: Any, plan: Plan, dtype: torch.dtype, device: str, distribution: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of the distribution; each tensor holds values of its own, and the same call gives the same again."""
    source, draw = torch.Generator().manual_seed(_SEED), distributions(dtype)[distribution]
    return arguments_for(handle._schema, plan, dtype, device, lambda shape: draw(source, shape))


def _run(handle: Any, arguments: tuple[list[Any], dict[str, Any]]) -> Any:
    with torch.no_grad():
        return handle(*arguments[0], **arguments[1])


def _widened(leaf: Any, kind: torch.dtype, floating: torch.dtype) -> Any:
    """An argument for the reference: the same value on the CPU, as wide as the operator takes it."""
    floating = floating if floating.is_floating_point else _REFERENCE
    wide = floating if kind.is_floating_point else kind if kind is torch.bool else torch.int64
    if isinstance(leaf, torch.Tensor):
        return leaf.to("cpu").to(wide) if leaf.dtype is kind else leaf.to("cpu", copy=True)
    if isinstance(leaf, torch.dtype):
        return wide if leaf is kind else leaf
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def _wait(device: str) -> None:
    if device != "cpu":
        getattr(torch, device.partition(":")[0]).synchronize()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_WHY_CHARACTERS]


def _sample(distribution: str, found: Any, expected: Any) -> ProbeSample:
    """Every result against its float64: floating ones by error over rms, others by equality."""
    squares = power = 0.0
    count = nonfinite = exact = mismatched = 0
    ours, shape = tree_flatten(found)
    theirs, other = tree_flatten(expected)
    if shape != other:
        raise ValueError("float64 gives another number of results")
    for mine, true in zip(ours, theirs, strict=True):
        if not _dense(mine) or not _dense(true):
            continue
        if mine.shape != true.shape:
            raise ValueError("float64 gives other shapes")
        mine, true = _real(mine.detach().to("cpu")), _real(true.detach())
        if not mine.is_floating_point():
            fits = _fits(true, mine.dtype)
            exact += int(fits.sum())
            mismatched += int((mine.to(true.dtype) != true)[fits].sum())
            continue
        fits = true.isfinite() & (true.abs() <= torch.finfo(mine.dtype).max)
        close, value = mine.to(_REFERENCE)[fits], true.to(_REFERENCE)[fits]
        good = close.isfinite()
        nonfinite += int((~good).sum())
        count += int(fits.sum())
        limits = torch.finfo(mine.dtype)
        # Below the smallest normal number a right rounding is off by up to half a step of fixed size: that is no error.
        error = ((close - value)[good].abs() - float(limits.tiny) * float(limits.eps) / 2).clamp_min(0.0)
        squares += float((error**2).sum())
        power += float((value[good] ** 2).sum()) + float(limits.tiny) ** 2
    relative = math.sqrt(squares / power) if count and power > 0 else None
    return ProbeSample(distribution, count, relative, nonfinite, exact, mismatched)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _fits(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where the wide integer fits the dtype that it is compared in."""
    if dtype is torch.bool or values.dtype is torch.bool:
        return torch.ones_like(values, dtype=torch.bool)
    limits = torch.iinfo(dtype)
    return (values >= limits.min) & (values <= limits.max)
