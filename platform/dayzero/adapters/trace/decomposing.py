"""What torch makes each traced operator of, on the arguments that the model gave it. Imported by child processes only."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from dayzero.adapters.trace.counting import tensors_in
from dayzero.domain.operators import Decomposition

Samples = Mapping[Any, tuple[Any, Any]]
"""Operators with the first arguments that each was called with."""


class _Parts(TorchDispatchMode):  # type: ignore[misc]
    """Collects the operators that are reached, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.samples: dict[Any, tuple[Any, Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.samples.setdefault(func, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def decompositions_of(samples: Samples) -> tuple[Decomposition, ...]:
    """Torch's decompositions of these operators, and of what they are made of, down to operators that torch keeps whole.

    An operator that writes into its argument is made of the one that does not and a copy, as functionalization makes it.
    What reaches torch's `prims`, which no manifest offers, counts as kept whole.
    """
    found: dict[str, tuple[str, ...]] = {}
    waiting = dict(samples)
    while waiting:
        func, (args, kwargs) = waiting.popitem()
        name = str(func)
        if name in found or func.namespace != "aten":
            continue
        found[name] = ()
        twin = _functional_twin(func)
        if twin is not None:
            found[name] = tuple(sorted({str(twin), "aten.copy_.default"}))
            waiting.setdefault(twin, (args, kwargs))
            continue
        run = decomposition_table.get(func)
        parts = _parts(run, args, kwargs) if run is not None and not _writes(func) else {}
        if parts and func not in parts and all(part.namespace == "aten" for part in parts):
            found[name] = tuple(sorted(map(str, parts)))
            waiting = parts | waiting
    return tuple(Decomposition(name, into) for name, into in sorted(found.items()) if into)


def united(*several: Iterable[Decomposition]) -> tuple[Decomposition, ...]:
    """Decompositions of several runs together, each operator once: the first run that reached it says its parts."""
    found = {one.name: one for one in reversed([*chain(*several)])}
    return tuple(found[name] for name in sorted(found))


def _parts(run: Callable[..., Any], args: Any, kwargs: Any) -> dict[Any, tuple[Any, Any]]:
    parts = _Parts()
    try:
        with torch.no_grad(), parts:
            out = run(*args, **kwargs)
    except Exception:  # noqa: BLE001 - a decomposition that fails on these arguments is none
        return {}
    return parts.samples if tensors_in(out) else {}


def _writes(func: Any) -> bool:
    return any(item.alias_info is not None and item.alias_info.is_write for item in func._schema.arguments)


def _functional_twin(func: Any) -> Any:
    """The overload of the same name without the trailing underscore, or None."""
    base = func._schema.name.removeprefix("aten::")
    if not _writes(func) or not base.endswith("_") or base.endswith("__") or base == "copy_":
        return None
    return getattr(getattr(torch.ops.aten, base[:-1], None), func._overloadname, None)
