"""Inside a layer that stands out: which module, and which operator. Every module gets the native reference's input to it."""

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from dayzero.adapters.runners.figures import dtype_name, tensor_error
from dayzero.adapters.runners.operator_capture import OperatorCapture
from dayzero.adapters.runners.placing import HOST, fetched, placed
from dayzero.adapters.runners.three_ways import in_precision, run_layer
from dayzero.domain.observations import ModuleError
from dayzero.stages.precision import limits as precision


def first_float(out: Any) -> torch.Tensor | None:
    """The first floating tensor with elements among the outputs."""
    for leaf in tree_flatten(out)[0]:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel():
            return leaf
    return None


def recorded_calls(layer: Any, hidden: torch.Tensor, kwargs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Arguments of each submodule's first call in a run of the layer."""
    calls: dict[str, tuple[Any, Any]] = {}
    handles = [
        module.register_forward_pre_hook(
            lambda _module, args, given, name=name: (calls.setdefault(name, (args, given)), None)[1], with_kwargs=True
        )
        for name, module in layer.named_modules()
        if name
    ]
    try:
        run_layer(layer, hidden, kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def look_inside(
    index: int,
    path: str,
    layers: tuple[Any, Any, Any],
    call: tuple[torch.Tensor, dict[str, Any]],
    replaced: dict[str, str],
    device: torch.device = HOST,
) -> tuple[ModuleError, ...]:
    """Errors of each submodule of the (native, uncompiled target, widened) layer; the innermost guilty gets its operator."""
    native, _target, wide = layers
    hidden, kwargs = call
    dtype = hidden.dtype
    native_modules, target_modules, wide_modules = (dict(layer.named_modules()) for layer in layers)
    wide_dtype = next(wide.parameters()).dtype
    found: list[ModuleError] = []
    given = recorded_calls(native, hidden, kwargs)
    for name, (args, named) in given.items():
        if name not in target_modules or name not in wide_modules:
            continue
        try:
            with torch.no_grad():
                on_device, named_there = placed((args, named), device)
                ours = first_float(target_modules[name](*on_device, **named_there))
                theirs = first_float(native_modules[name](*args, **named))
            with torch.no_grad(), in_precision(wide_dtype):
                wide_args, wide_named = tree_map(lambda leaf: _cast(leaf, dtype, wide_dtype), (args, named))
                exact = first_float(wide_modules[name](*wide_args, **wide_named))
        except (RuntimeError, TypeError, ValueError) as error:
            print(f"{path}.{name} cannot be called by itself: {str(error).splitlines()[0]}")
            continue
        if ours is None or theirs is None or exact is None:
            continue
        errors = tensor_error(fetched(ours), exact), tensor_error(theirs, exact)
        found.append(ModuleError(index, f"{path}.{name}", None, *errors, name.count(".") + 1))
    guilty = precision.guilty_module(tuple(found), index, dtype_name(dtype))
    if guilty is None:
        return tuple(found)
    inner = guilty.module.removeprefix(f"{path}.")
    operator = _operator(target_modules[inner], placed(given[inner], device), hidden.shape[1], guilty.module, replaced)
    named_guilty = ModuleError(index, guilty.module, operator, guilty.target, guilty.native, guilty.depth)
    return tuple(named_guilty if module is guilty else module for module in found)


def _operator(module: Any, call: tuple[Any, Any], tokens: int, path: str, replaced: dict[str, str]) -> str | None:
    """The first operator of the module that misses its own limit in float64."""
    capture = OperatorCapture(tokens, lambda: path, replaced)
    with torch.no_grad(), capture:
        module(*call[0], **call[1])
    return next((row.operator for row in capture.seen.values() if precision.operator_stands_out(row)), None)


def _cast(leaf: Any, dtype: torch.dtype, wide: torch.dtype) -> Any:
    if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
        return leaf.to(wide)
    return leaf
