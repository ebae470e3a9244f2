"""Inside a layer that stands out: which module, and which operator. Every module gets the native reference's input to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from dayzero.adapters.runners import diagnosis
from dayzero.adapters.runners.figures import cast, dtype_name, floats, tensor_error, tokens_of
from dayzero.adapters.runners.operator_capture import OperatorCapture
from dayzero.adapters.runners.placing import HOST, fetched, placed
from dayzero.adapters.runners.three_ways import in_precision, run_layer
from dayzero.domain.observations import ModuleError, TensorError
from dayzero.stages.precision import limits as precision


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


Fresh = Callable[[Any, torch.dtype | None], Any]
"""Makes arguments that a call may change: a copy of what was recorded, in another dtype where one is named."""


def look_inside(
    index: int,
    path: str,
    layers: tuple[Any, Any, Any],
    call: tuple[torch.Tensor, dict[str, Any]],
    replaced: dict[str, str],
    device: torch.device = HOST,
    skip: torch.Tensor | None = None,
    model: Any = None,
) -> tuple[ModuleError, ...]:
    """Errors of each submodule of the (native, uncompiled target, widened) layer; the innermost guilty gets its operator.

    Tokens that `skip` marks are left out of every output that has a row for each token.
    """
    return judge_calls(index, path, layers, recorded_calls(layers[0], *call), call[0], replaced, device, skip, model=model)


def judge_calls(
    index: int,
    path: str,
    layers: tuple[Any, Any, Any],
    calls: dict[str, tuple[Any, Any]],
    hidden: torch.Tensor,
    replaced: dict[str, str],
    device: torch.device = HOST,
    skip: torch.Tensor | None = None,
    fresh: Fresh = cast,
    model: Any = None,
) -> tuple[ModuleError, ...]:
    """The same for calls that were recorded elsewhere; `hidden` is what the layer got. With the native `model`, known mistakes
    are tried."""
    tried = _Trial(layers, hidden.dtype, device, skip, fresh)
    found = [
        ModuleError(index, f"{path}.{name}", None, *errors, name.count(".") + 1)
        for name, arguments in calls.items()
        if (errors := tried.errors(name, arguments)) is not None
    ]
    guilty = precision.guilty_module(tuple(found), index, dtype_name(hidden.dtype))
    if guilty is None:
        return tuple(found)
    inner = guilty.module.removeprefix(f"{path}.")
    module = dict(layers[1].named_modules())[inner]
    operator = _operator(module, placed(fresh(calls[inner], None), device), tokens_of(hidden), guilty.module, replaced)
    likely = tried.known_mistake(model, inner, calls[inner], guilty.native) if model is not None else None
    named_guilty = replace(guilty, operator=operator, suspected=likely)
    return tuple(named_guilty if module is guilty else module for module in found)


@dataclass(frozen=True, slots=True)
class _Trial:
    """One layer's modules called by themselves, three ways."""

    layers: tuple[Any, Any, Any]
    dtype: torch.dtype
    device: torch.device
    skip: torch.Tensor | None
    fresh: Fresh

    def errors(self, name: str, call: tuple[Any, Any]) -> tuple[TensorError, TensorError] | None:
        """Errors of a module's worst output on the target and in native dtype; None: it cannot be called by itself."""
        modules = [dict(layer.named_modules()).get(name) for layer in self.layers]
        if None in modules:
            return None
        native, target, wide = modules
        wide_dtype = next(self.layers[2].parameters()).dtype
        try:
            with torch.no_grad():
                ours = floats(_called(target, placed(self.fresh(call, None), self.device)))
                theirs = floats(_called(native, self.fresh(call, None)))
            with torch.no_grad(), in_precision(wide_dtype):
                exact = floats(_called(wide, self.fresh(call, wide_dtype)))
        except (RuntimeError, TypeError, ValueError) as error:
            print(f"{name} cannot be called by itself: {str(error).splitlines()[0]}")
            return None
        three = [outputs for outputs in zip(ours, theirs, exact, strict=False) if len({leaf.shape for leaf in outputs}) == 1]
        pairs = [(self._error(fetched(mine), right), self._error(other, right)) for mine, other, right in three]
        return max(pairs, key=lambda pair: _excess(precision.mean_line(pair[0], pair[1], dtype_name(self.dtype))), default=None)

    def known_mistake(self, model: Any, name: str, call: tuple[Any, Any], native_error: TensorError) -> str | None:
        """The mistake that explains what the target's module gives, or None."""
        native, target, _wide = self.layers
        with torch.no_grad():
            module = dict(target.named_modules())[name]
            ours = [fetched(leaf) for leaf in floats(_called(module, placed(self.fresh(call, None), self.device)))]
        return diagnosis.known_mistake(model, native, name, lambda: self.fresh(call, None), ours, native_error)

    def _error(self, actual: torch.Tensor, exact: torch.Tensor) -> TensorError:
        rows = exact.numel() // exact.shape[-1]
        return tensor_error(actual, exact, None if self.skip is None or rows != self.skip.shape[0] else ~self.skip)


def _called(module: Any, call: tuple[Any, Any]) -> Any:
    return module(*call[0], **call[1])


def _excess(line: precision.Line) -> float:
    return float("inf") if line.measured is None else line.measured / line.tolerance


def _operator(module: Any, call: tuple[Any, Any], tokens: int, path: str, replaced: dict[str, str]) -> str | None:
    """The first operator of the module that misses its own limit in float64."""
    capture = OperatorCapture(tokens, lambda: path, replaced)
    with torch.no_grad(), capture:
        module(*call[0], **call[1])
    return next((row.operator for row in capture.seen.values() if precision.operator_stands_out(row)), None)
