"""Arguments made up from an operator's schema, to see what it is made of. Imported by child processes only."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_SIDE = 4
_RANKS = (4, 2, 3, 1)
_SHAPE_LISTS = ("size", "shape", "output_size", "normalized_shape", "sizes")


class _Names(TorchDispatchMode):  # type: ignore[misc]
    """Collects the names of all operators that reach the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def parts_of(handle: Any, run: Callable[..., Any]) -> tuple[str, ...]:
    """The operators that `run` reaches on the first sample that it accepts, sorted; empty when it accepts none.

    A sample counts only when `run` gives the shapes and dtypes that the operator itself gives
    and reaches nothing but ATen operators (torch's `prims` are in no manifest).
    """
    for arguments, options in _samples(handle._schema):
        names = _Names()
        try:
            with torch.no_grad(), torch.device("meta"):
                expected = _outline(handle(*arguments, **options))
                with names:
                    made = _outline(run(*arguments, **options))
        except Exception:  # noqa: BLE001 - a sample that does not fit can raise anything; the next one is tried
            continue
        if made == expected and all(name.startswith("aten.") for name in names.names):
            return tuple(sorted(set(names.names)))
    return ()


def _outline(tree: Any) -> list[object]:
    """Shapes and dtypes of a result: a decomposition that gives others than the operator itself is none."""
    return [(tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf for leaf in tree_leaves(tree)]


def _samples(schema: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    for rank in _RANKS:
        for dtype in (torch.float32, torch.int64):
            positional, options = [], {}
            try:
                for argument in schema.arguments:
                    if argument.has_default_value():
                        continue
                    value = _value(argument, rank, dtype)
                    if argument.kwarg_only:
                        options[argument.name] = value
                    else:
                        positional.append(value)
            except LookupError:
                return
            yield positional, options


def _value(argument: Any, rank: int, dtype: torch.dtype) -> Any:
    """A value for one argument; LookupError for a type that nobody can make up."""
    kind, name = str(argument.type), argument.name
    if kind.startswith("Optional["):
        return None
    if kind == "Tensor":
        wants_integers = name in ("indices", "index")
        shape = (_SIDE,) if name in ("weight", "bias", "running_mean", "running_var") and rank == 1 else (_SIDE,) * rank
        return torch.zeros(shape, dtype=torch.int64 if wants_integers else dtype, device="meta")
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        return [torch.zeros((_SIDE,) * rank, dtype=dtype, device="meta")] * 2
    if kind.startswith("List["):
        return [_SIDE] * (1 if name == "normalized_shape" else rank) if name in _SHAPE_LISTS else [0]
    plain: dict[str, Any] = {"int": 0 if "dim" in name else 1, "float": 0.5, "number": 1, "bool": False, "str": "mean"}
    return plain[kind]
