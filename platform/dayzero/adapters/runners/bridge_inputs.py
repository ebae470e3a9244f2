"""Inputs for one operator: the shapes of a model's own calls, drawn from several distributions, with each flag on and off."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dayzero.adapters.runners.figures import dtype_name
from dayzero.domain.bridges import CallShape, GapTask
from dayzero.stages.coverage.shape_classes import sizes_of

TOKENS = 24
"""Tokens that T stands for here; S, the context of a decode step, is one more."""
LARGEST_ELEMENTS = 1 << 20
"""Tensors with more elements are tried smaller: their sizes above LARGEST_SIZE become that size, wherever they occur."""
LARGEST_SIZE = 128
DISTRIBUTIONS = ("normal", "uniform", "heavy tails", "tiny")
_INDEX = re.compile(r"^(indices|index|idx|offs|offsets|.*_ids?)$")
_MASK = re.compile(r"mask")


@dataclass(frozen=True, slots=True)
class Input:
    """One call: positional and named arguments on the host, and what was drawn, in words."""

    args: list[Any]
    kwargs: dict[str, Any]
    words: str
    shapes: str


def inputs_for(handle: Any, task: GapTask) -> Iterator[tuple[CallShape, list[Input] | str]]:
    """For each call of the task its inputs, or why none can be made."""
    for call in task.calls:
        try:
            yield call, list(_of_call(handle._schema, call, task.symbols))
        except LookupError as error:
            yield call, f"{call.shape_class}: {error.args[0]}"


def _of_call(schema: Any, call: CallShape, symbols: Mapping[str, int]) -> Iterator[Input]:
    shapes = _smaller(sizes_of(call.shape_class, {**symbols, "T": TOKENS, "S": TOKENS + 1}))
    flags = [item.name for item in schema.arguments if str(item.type) == "bool" and item.default_value is False]
    for position, kind in enumerate(DISTRIBUTIONS):
        yield _one(schema, call, shapes, kind, position, None)
    for flag in flags:
        yield _one(schema, call, shapes, DISTRIBUTIONS[0], len(DISTRIBUTIONS), flag)


def _smaller(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if all(math.prod(shape) <= LARGEST_ELEMENTS for shape in shapes):
        return shapes
    return [tuple(min(size, LARGEST_SIZE) for size in shape) for shape in shapes]


def _one(schema: Any, call: CallShape, shapes: list[tuple[int, ...]], kind: str, seed: int, flag: str | None) -> Input:
    generator = torch.Generator().manual_seed(seed)
    waiting, args, kwargs = list(shapes), [], {}
    for item in schema.arguments:
        wants_tensor = "Tensor" in str(item.type)
        if wants_tensor and "List" in str(item.type):
            raise LookupError(f"no list of tensors can be made for {item.name}")
        if wants_tensor and waiting:
            value = _tensor(item.name, waiting.pop(0), call.dtypes, kind, generator, shapes)
        elif item.name == flag:
            value = True
        elif item.has_default_value() or wants_tensor:
            value = item.default_value if item.has_default_value() else None
        else:
            value = _plain(item, shapes)
        if item.kwarg_only:
            kwargs[item.name] = value
        else:
            args.append(value)
    if waiting:
        raise LookupError(f"it takes fewer than {len(shapes)} tensors")
    words = kind + (f", {flag}" if flag else "")
    return Input(args, kwargs, words, ",".join(f"({','.join(map(str, shape))})" for shape in shapes))


def _tensor(
    name: str,
    shape: tuple[int, ...],
    dtypes: tuple[str, ...],
    kind: str,
    generator: torch.Generator,
    shapes: list[tuple[int, ...]],
) -> torch.Tensor:
    named = [getattr(torch, dtype) for dtype in dtypes]
    floats = [dtype for dtype in named if dtype.is_floating_point]
    integers = [dtype for dtype in named if not dtype.is_floating_point and dtype is not torch.bool]
    if _MASK.search(name) and torch.bool in named:
        mask = torch.rand(shape, generator=generator) > 0.3
        mask[..., 0] = True
        return mask
    if _INDEX.match(name) or not floats:
        return _indices(name, shape, (integers or [torch.int64])[0], generator, shapes)
    return drawn(shape, kind, generator).to(floats[0])


def _indices(
    name: str, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, shapes: list[tuple[int, ...]]
) -> torch.Tensor:
    """Indices into the first tensor's first dimension; for groups their ends, the last of which is that dimension."""
    limit = shapes[0][0] if shapes and shapes[0] else 1
    if name.startswith("offs"):
        cuts = torch.randint(0, limit + 1, shape, generator=generator).sort().values
        cuts[..., -1] = limit
        return cuts.to(dtype)
    return torch.randint(0, max(limit, 1), shape, generator=generator).to(dtype)


def drawn(shape: tuple[int, ...], kind: str, generator: torch.Generator) -> torch.Tensor:
    """float32 values of a distribution: normal, uniform over [-8, 8], cubes of normal ones, or normal ones times 1e-3."""
    if kind == "uniform":
        return 16 * torch.rand(shape, generator=generator) - 8
    normal = torch.randn(shape, generator=generator)
    return normal**3 if kind == "heavy tails" else normal * 1e-3 if kind == "tiny" else normal


def _plain(item: Any, shapes: list[tuple[int, ...]]) -> Any:
    """A value for an argument without a default; LookupError for a kind that nobody can make up."""
    kind, name = str(item.type), item.name
    last = shapes[0][-1] if shapes and shapes[0] else 1
    if kind == "int":
        return -1 if "dim" in name else min(4, last)
    if kind.startswith("List[int") and name == "normalized_shape":
        return [last]
    if kind in ("float", "number"):
        return 0.5
    if kind == "bool":
        return False
    raise LookupError(f"no value can be made for {name} ({kind})")


def dtypes_of(made: Input) -> tuple[str, ...]:
    """The dtypes of the tensors in it, each once."""
    tensors = [value for value in (*made.args, *made.kwargs.values()) if isinstance(value, torch.Tensor)]
    return tuple(dict.fromkeys(dtype_name(tensor.dtype) for tensor in tensors))
