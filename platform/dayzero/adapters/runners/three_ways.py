"""The three runs of a model: higher precision, native dtype, target. Layers are called one by one on given hidden states."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.codegen.common
from torch.overrides import TorchFunctionMode

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.figures import dtype_name
from dayzero.adapters.runners.placing import HOST, on, placed
from dayzero.domain.runs import RunRequest

Call = tuple[torch.Tensor, list[dict[str, Any]]]
"""Hidden states that enter the first layer, and each layer's keyword arguments."""


class InFloat64(TorchFunctionMode):  # type: ignore[misc]
    """Model code that says float32 (norms, softmax) gets float64, so that a float64 reference is one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.float:
            return args[0].to(torch.float64)
        if kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = torch.float64
        return func(*(torch.float64 if value is torch.float32 else value for value in args), **kwargs)


def reference_dtype(native: torch.dtype) -> torch.dtype:
    """float32 above half precision; float64 where the native dtype is float32 (design)."""
    return torch.float32 if native in (torch.bfloat16, torch.float16) else torch.float64


def in_precision(dtype: torch.dtype) -> Any:
    """The context in which code of that precision runs."""
    return InFloat64() if dtype is torch.float64 else torch.no_grad()


def widened(module: Any, dtype: torch.dtype) -> Any:
    """A copy of the module with every floating tensor in the dtype: memory for one copy, so take one layer at a time."""
    return copy.deepcopy(module).to(dtype)


def layer_calls(model: Any, ids: torch.Tensor, dtype: torch.dtype) -> Call:
    """What the model would call its layers with, in that dtype, without running them (masks, positions, rotary tables)."""
    _, layers = loading.decoder_layers(model)
    first: list[torch.Tensor] = []
    seen: list[dict[str, Any]] = []

    def note(hidden_states: torch.Tensor, *_args: Any, **kwargs: Any) -> torch.Tensor:
        first.append(hidden_states)
        seen.append(kwargs)
        return hidden_states

    for layer in layers:
        layer.forward = note
    try:
        with torch.no_grad(), in_precision(dtype):
            embedded = model.get_input_embeddings()(ids).to(dtype)
            model.base_model(inputs_embeds=embedded, use_cache=False)
    finally:
        for layer in layers:
            del layer.forward
    for kwargs in seen:
        # Layers that route by token want the tokens themselves, which the model does not know when it is given embeddings.
        if kwargs.get("input_ids", ids) is None:
            kwargs["input_ids"] = ids
    return first[0], seen


def run_layer(layer: Callable[..., Any], hidden: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
    """The layer's hidden states [1, tokens, width]."""
    with torch.no_grad():
        out = layer(hidden, **kwargs)
    return out[0] if isinstance(out, tuple) else out


def run_wide(layer: Any, hidden: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
    """The same for a widened layer."""
    with in_precision(hidden.dtype):
        return run_layer(layer, hidden, kwargs)


@dataclass(frozen=True, slots=True)
class Target:
    """The target's module tree (patched, sharing weights), the layers to call, and the path that they take, in words."""

    model: Any
    layers: list[Callable[..., Any]]
    path: str
    reference_path: str


def make_target(native: Any, device: torch.device = HOST) -> Any:
    """A patched copy of the native model on other kernels: fused attention and grouped experts where it has them.

    On the host it shares the native model's weights; a device holds a copy of its own.
    """
    target = loading.shadow(native) if device == HOST else placed(copy.deepcopy(native), device)
    for setter, value in (("set_attn_implementation", "sdpa"), ("set_experts_implementation", "grouped_mm")):
        try:
            getattr(target, setter)(value)
        except (ValueError, AttributeError, NotImplementedError) as error:
            print(f"target {setter}({value}): {str(error).splitlines()[0]}")
    return target


def path_of(model: Any) -> str:
    """The kernels that a model is set to, in words."""
    experts = getattr(model.config.get_text_config(), "_experts_implementation", None)
    attention = getattr(model.config.get_text_config(), "_attn_implementation", None)
    return f"attention {attention}" + (f", experts {experts}" if experts else "")


def compile_target(native: Any, target: Any, request: RunRequest, call: Call) -> Target:
    """Compile each layer of the target by itself; eager, and said so, where that is off or does not work."""
    device = call[0].device
    _, layers = loading.decoder_layers(target)
    reference_path = f"eager, {path_of(native)}"
    kernels = path_of(target) + on(device)
    if request.options.get("compile", True) is not True:
        return Target(target, list(layers), f"eager, {kernels} (compilation is switched off)", reference_path)
    if device.type != "cpu" and torch._inductor.codegen.common.get_scheduling_for_device(device.type) is None:
        why = f"torch's compiler generates no code for {device.type}"
        return Target(target, list(layers), f"eager, {kernels} ({why})", reference_path)
    torch._dynamo.config.recompile_limit = max(16, 2 * len(layers))
    compiled = [torch.compile(layer, dynamic=False) for layer in layers]
    try:
        for layer, kwargs in zip(compiled, call[1], strict=True):
            run_layer(layer, call[0], kwargs)
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises, the path becomes another one and says so
        first = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
        print(f"compile: {type(error).__name__}: {error}")
        return Target(target, list(layers), f"eager, {kernels} (compilation failed: {first})", reference_path)
    return Target(target, list(compiled), f"compiled layer by layer (inductor), {kernels}", reference_path)


def describe(dtype: torch.dtype) -> str:
    """The dtype's name."""
    return dtype_name(dtype)
