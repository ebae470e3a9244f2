"""Real arguments for any operator, made up from its schema. Imported by child processes only.

A *plan* is one way to read the schema (rank, which tensors hold integers); plans are tried until the operator accepts one. The
values of floating tensors come from a distribution, so that one plan gives many samples.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

SIDE = 8
"""Elements a side of a sample; twice as many would not find more, and rank 4 grows fast."""

_RANKS = (2, 1, 3, 4, 5, 0)
_ONE_DIMENSIONAL = (
    "vec",
    "vec1",
    "vec2",
    "bias",
    "running_mean",
    "running_var",
    "save_mean",
    "save_invstd",
    "tau",
    "boundaries",
)
_INTEGERS = ("index", "indices", "target", "offsets", "repeats", "pivots", "idx", "ind", "x_index")
_TRUTHS = ("mask", "condition", "attn_mask_bool", "found_inf")
_SHAPES = ("size", "shape", "sizes", "output_size", "new_size")


Fill = Callable[[tuple[int, ...]], torch.Tensor]


class NobodyKnowsError(Exception):
    """A type of argument that cannot be made up; its one argument is the type."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read a schema: the rank of tensors, where the weight is one-dimensional, which tensors hold integers, and whether
    optional tensors are given."""

    rank: int
    flat_weight: bool
    integers: frozenset[str]
    optional: bool = False


def plans(schema: Any) -> Iterator[Plan]:
    """Ways to read the schema, the most usual first."""
    tensors = [argument.name for argument in schema.arguments if _wanted(argument) and str(argument.type) == "Tensor"]
    named = frozenset(name for name in tensors if name in _INTEGERS)
    others = [frozenset(tensors[1:2]), frozenset(tensors[1:]), frozenset(tensors[:1]), frozenset(tensors)]
    choices = list(dict.fromkeys([named, frozenset(), *others]))
    for optional in (
        (False, True) if any(str(argument.type) == "Optional[Tensor]" for argument in schema.arguments) else (False,)
    ):
        for integers in choices:
            for rank in _RANKS:
                for flat_weight in (False, True) if "weight" in tensors or optional else (False,):
                    yield Plan(rank, flat_weight, integers, optional)


def arguments_for(schema: Any, plan: Plan, dtype: torch.dtype, device: str, fill: Fill) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments; `fill` gives a float64 tensor of a shape. NobodyKnowsError: a type nobody can make."""
    positional: list[Any] = []
    options: dict[str, Any] = {}
    makes_tensors = not any("Tensor" in str(argument.type) and not argument.is_out for argument in schema.arguments)
    for argument in schema.arguments:
        if makes_tensors and argument.name in ("dtype", "device"):
            options[argument.name] = dtype if argument.name == "dtype" else torch.device(device)
            continue
        if not _wanted(argument):
            continue
        value = _value(argument, plan, dtype, device, fill)
        if argument.kwarg_only or argument.is_out:
            options[argument.name] = value
        else:
            positional.append(value)
    return positional, options


def _wanted(argument: Any) -> bool:
    return not argument.has_default_value()


def _value(argument: Any, plan: Plan, dtype: torch.dtype, device: str, fill: Fill) -> Any:
    kind, name = str(argument.type), argument.name
    if argument.is_out:
        return torch.empty(0, dtype=dtype, device=device) if kind == "Tensor" else _unknown(kind)
    if kind == "Optional[Tensor]" and plan.optional:
        return _tensor(name, plan, dtype, device, fill)
    if kind.startswith("Optional["):
        return None
    if kind == "Tensor":
        return _tensor(name, plan, dtype, device, fill)
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        if name == "indices":
            return [torch.arange(SIDE, device=device).flip(0)]
        return [_cast(fill((SIDE,) * plan.rank), dtype, device) for _ in range(2)]
    if kind.startswith("List[int"):
        return _integers(name, plan)
    if kind.startswith("List["):
        return _unknown(kind)
    return _plain(kind, name, dtype)


def _tensor(name: str, plan: Plan, dtype: torch.dtype, device: str, fill: Fill) -> torch.Tensor:
    one = name in _ONE_DIMENSIONAL or (name == "weight" and plan.flat_weight)
    shape = (SIDE,) if one and plan.rank else (SIDE,) * plan.rank
    count = math.prod(shape)
    if name in plan.integers:
        return (torch.arange(count, device=device) % SIDE).reshape(shape)
    if name in _TRUTHS:
        return (torch.arange(count, device=device) % 3 == 0).reshape(shape)
    return _cast(fill(shape), dtype, device)


def _cast(values: torch.Tensor, dtype: torch.dtype, device: str) -> torch.Tensor:
    """The values in the dtype: integers and truth values are small, so that sums of them fit."""
    if dtype is torch.bool:
        values = values > 0
    elif not dtype.is_floating_point and not dtype.is_complex:
        values = values.nan_to_num(0.0, 0.0, 0.0).clamp(-3, 3).round()
        values = values.abs() if dtype is torch.uint8 else values
    return values.to(dtype).to(device)


def _integers(name: str, plan: Plan) -> list[int]:
    if name in _SHAPES:
        return [SIDE] * max(plan.rank, 1)
    if name == "normalized_shape":
        return [SIDE]
    if name in ("dims", "dim", "permutation"):
        return list(range(plan.rank)) if name == "dims" else [0]
    if name in ("stride", "dilation", "kernel_size", "output_padding", "padding", "pad"):
        spatial = max(plan.rank - 2, 1)
        return [0 if "pad" in name else 1] * (2 * spatial if name == "pad" else spatial)
    return [1] * max(plan.rank, 1)


def _plain(kind: str, name: str, dtype: torch.dtype) -> Any:
    if kind == "int":
        if name == "dtype":
            return dtype
        return (
            0
            if "dim" in name or "diagonal" in name or name in ("reduction", "start", "index")
            else 2
            if name in ("k", "n", "end")
            else 1
        )
    if kind == "number":
        return 2 if not dtype.is_floating_point else 1.5
    values: dict[str, Any] = {"float": 0.5, "bool": False, "str": "mean"}
    return values[kind] if kind in values else _unknown(kind)


def _unknown(kind: str) -> Any:
    raise NobodyKnowsError(kind)
