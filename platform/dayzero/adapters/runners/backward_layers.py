"""Each layer's backward three ways: given the reference's input, and the gradient of the reference's output.

What a layer hands on then is its own work: gradients of its parameters, and of its input without what the residual stream
passes through. Inside a layer that stands out, each module gets the native reference's input and output gradient.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_map

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.directions import direction_error
from dayzero.adapters.runners.figures import cast, dtype_name, first_float
from dayzero.adapters.runners.forced_choices import RecordedChoices, forcing
from dayzero.adapters.runners.placing import placed
from dayzero.adapters.runners.three_ways import layer_calls
from dayzero.adapters.runners.training import Tensors, in_grad_precision, loss_of
from dayzero.domain.observed_training import BackwardError
from dayzero.stages.precision import training as limits

LARGEST = 2.0**8
"""The largest element of a gradient after scaling by a power of two: far from float16's smallest and largest numbers."""


class Passed:
    """What the reference brought to each layer, and the gradient that came back to its output."""

    def __init__(self, wide: Any, ids: torch.Tensor) -> None:
        _, layers = loading.decoder_layers(wide)
        self.inputs: list[torch.Tensor] = []
        self.upstream: dict[int, torch.Tensor] = {}
        handles = [layer.register_forward_pre_hook(self._note_input, with_kwargs=True) for layer in layers]
        handles += [
            layer.register_forward_hook(lambda _module, _args, out, index=index: self._note_output(index, out))
            for index, layer in enumerate(layers)
        ]
        try:
            loss_of(wide, ids).backward()
        finally:
            for handle in handles:
                handle.remove()
        for parameter in wide.parameters():
            parameter.grad = None

    def _note_input(self, _module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.inputs.append((args[0] if args else kwargs["hidden_states"]).detach())

    def _note_output(self, index: int, out: Any) -> None:
        hidden = out[0] if isinstance(out, tuple) else out
        hidden.register_hook(lambda gradient: self.upstream.__setitem__(index, gradient.detach()))

    def given(self, index: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Input and output gradient in the dtype, the gradient scaled by a power of two."""
        upstream = self.upstream[index]
        largest = float(upstream.abs().max())
        scale = 2.0 ** round(torch.log2(torch.tensor(LARGEST / largest)).item()) if largest > 0 else 1.0
        return self.inputs[index].to(dtype), (upstream * scale).to(dtype)


class BackwardRun:
    """The three models with what their layers are called with."""

    def __init__(self, wide: Any, native: Any, target: Any, ids: torch.Tensor, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.wide_dtype = next(wide.parameters()).dtype
        self.device = next(target.parameters()).device
        self.passed = Passed(wide, ids)
        self.path, self.wide_layers = loading.decoder_layers(wide)
        self.native_layers, self.target_layers = (loading.decoder_layers(model)[1] for model in (native, target))
        self.calls = (
            layer_calls(wide, ids, self.wide_dtype)[1],
            layer_calls(native, ids, dtype)[1],
            self._target_calls(target, ids),
        )
        self.suspects: list[BackwardError] = []
        self.identical = True

    def _target_calls(self, target: Any, ids: torch.Tensor) -> list[dict[str, Any]]:
        """What the target's layers are called with; layers that are compiled in place would hide who calls them."""
        compiled = [layer._compiled_call_impl for layer in self.target_layers]
        for layer in self.target_layers:
            layer._compiled_call_impl = None
        calls = layer_calls(target, placed(ids, self.device), self.dtype)[1]
        for layer, one in zip(self.target_layers, compiled, strict=True):
            layer._compiled_call_impl = one
        return calls

    def all_layers(self) -> tuple[BackwardError, ...]:
        """Every layer's gradients; fills `suspects`."""
        return tuple(error for index in range(len(self.wide_layers)) for error in self._layer(index))

    def _layer(self, index: int) -> tuple[BackwardError, ...]:
        given, upstream = self.passed.given(index, self.dtype)
        with RecordedChoices() as recorded:
            exact = _layer_gradients(
                self.wide_layers[index], given.to(self.wide_dtype), self.calls[0][index], upstream.to(self.wide_dtype)
            )
        with forcing(recorded.chosen):
            by_native = _layer_gradients(self.native_layers[index], given, self.calls[1][index], upstream)
        with forcing(recorded.chosen):
            there = placed((given, upstream), self.device)
            by_target = _layer_gradients(self.target_layers[index], there[0], self.calls[2][index], there[1])
        self.identical &= all(torch.equal(by_native[name], by_target.get(name, by_native[name])) for name in by_native)
        module = f"{self.path}.{index}"
        errors = _errors(index, module, 0, (by_target, by_native, exact))
        if any(limits.backward_line(error, dtype_name(self.dtype)).stands_out for error in errors):
            layers = self.native_layers[index], self.target_layers[index], self.wide_layers[index]
            call = given, self.calls[1][index], upstream
            self.suspects += _look_inside(index, module, layers, call, self.device)
        return errors


def _layer_gradients(layer: Any, hidden: torch.Tensor, kwargs: dict[str, Any], upstream: torch.Tensor) -> Tensors:
    """Gradients of the layer's parameters and of its input ("input", less what comes through the residual) on the host."""
    hidden = hidden.detach().requires_grad_()
    parameters = {name: one for name, one in layer.named_parameters() if one.requires_grad}
    with torch.enable_grad(), in_grad_precision(hidden.dtype):
        out = layer(hidden, **kwargs)
        out = out[0] if isinstance(out, tuple) else out
        found = torch.autograd.grad(out, [hidden, *parameters.values()], upstream, allow_unused=True)
    named = dict(zip(("input", *parameters), found, strict=True))
    gradients = {name: value.detach().to("cpu") for name, value in named.items() if value is not None}
    if "input" in gradients and gradients["input"].shape == upstream.shape:
        wide = torch.float64
        gradients["input"] = gradients["input"].to(wide) - upstream.detach().to("cpu").to(wide)
    return gradients


def _errors(index: int, module: str, depth: int, gradients: tuple[Tensors, Tensors, Tensors]) -> tuple[BackwardError, ...]:
    by_target, by_native, exact = gradients
    return tuple(
        BackwardError(
            index, module, name, direction_error(by_target.get(name), value), direction_error(by_native.get(name), value), depth
        )
        for name, value in exact.items()
    )


class _Recorded:
    """Arguments of each submodule's first call in a run of the layer, and the gradient that came to its output."""

    def __init__(self, layer: Any, hidden: torch.Tensor, kwargs: dict[str, Any], upstream: torch.Tensor) -> None:
        self.calls: dict[str, tuple[Any, Any]] = {}
        self.upstream: dict[str, torch.Tensor] = {}
        handles = [
            module.register_forward_hook(
                lambda _module, args, named, out, name=name: self._note(name, args, named, out), with_kwargs=True
            )
            for name, module in layer.named_modules()
            if name
        ]
        try:
            _layer_gradients(layer, hidden, kwargs, upstream)
        finally:
            for handle in handles:
                handle.remove()

    def _note(self, name: str, args: Any, named: Any, out: Any) -> None:
        result = first_float(out)
        if name in self.calls or result is None or not result.requires_grad:
            return
        self.calls[name] = tree_map(_detached, (args, named))
        result.register_hook(lambda gradient: self.upstream.setdefault(name, gradient.detach().clone()))


def _detached(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _look_inside(
    index: int, path: str, layers: tuple[Any, Any, Any], call: tuple[Any, Any, Any], device: torch.device
) -> tuple[BackwardError, ...]:
    """Every gradient of each submodule of the (native, target, wide) layer."""
    native, target, wide = (dict(layer.named_modules()) for layer in layers)
    dtype = next(layers[2].parameters()).dtype
    given = _Recorded(layers[0], *call)
    found: list[BackwardError] = []
    for name, (args, named) in given.calls.items():
        upstream = given.upstream.get(name)
        if upstream is None or name not in target or name not in wide:
            continue
        try:
            with RecordedChoices() as chosen:
                exact = _module_gradients(wide[name], *cast((args, named, upstream), dtype))
            with forcing(chosen.chosen):
                by_native = _module_gradients(native[name], args, named, upstream)
            with forcing(chosen.chosen):
                by_target = _module_gradients(target[name], *placed((args, named, upstream), device))
        except (RuntimeError, TypeError, ValueError) as error:
            print(f"{path}.{name} cannot be differentiated by itself: {str(error).splitlines()[0]}")
            continue
        found += _errors(index, f"{path}.{name}", name.count(".") + 1, (by_target, by_native, exact))
    return tuple(found)


def _module_gradients(module: Any, args: Any, named: Mapping[str, Any], upstream: torch.Tensor) -> Tensors:
    """Gradients of a module's floating inputs (in0, in1 …) and parameters, on the host."""
    inputs: dict[str, torch.Tensor] = {}

    def leaf_of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        start = leaf.detach().requires_grad_()
        inputs[f"in{len(inputs)}"] = start
        # A module may write into its input, which a leaf does not allow.
        return start.clone()

    args, named = tree_map(leaf_of, (args, dict(named)))
    leaves = {**inputs, **{name: one for name, one in module.named_parameters() if one.requires_grad}}
    with torch.enable_grad(), in_grad_precision(upstream.dtype):
        out = first_float(module(*args, **named))
        if out is None or not out.requires_grad:
            return {}
        found = torch.autograd.grad(out, list(leaves.values()), upstream, allow_unused=True)
    return {name: value.detach().to("cpu") for name, value in zip(leaves, found, strict=True) if value is not None}
