"""The three runs of a model: higher precision, native dtype, target. Layers are called one by one on given hidden states."""

import copy
import inspect
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._inductor.codegen.common
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.layer_sources import LayerSource, as_source
from dayzero.adapters.runners.placing import HOST, fetched, on, placed
from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.domain.runs import RunRequest
from dayzero.errors import BlockedError

Call = tuple[torch.Tensor, list[dict[str, Any]]]
"""Hidden states that enter the first layer, and each layer's keyword arguments."""

Calls = Callable[[Any, Any, torch.dtype], Call]
"""What a model would call its layers with, given its input, in that dtype."""


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
    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        # Made here, and not by deepcopy, which would copy each once more in the dtype that it has.
        reached = getattr(parameter, "reached_experts", None)
        if reached is not None:
            memo[id(parameter)] = reached.in_dtype(parameter, dtype)
            continue
        wide = parameter.detach().to(dtype, copy=True) if parameter.is_floating_point() else parameter.detach().clone()
        memo[id(parameter)] = torch.nn.Parameter(wide, requires_grad=False)
    return copy.deepcopy(module, memo).to(dtype)


def layer_calls(model: Any, ids: torch.Tensor, dtype: torch.dtype) -> Call:
    """What the model would call its layers with, in that dtype, without running them (masks, positions, rotary tables)."""
    seen: list[dict[str, Any]] = []
    first: list[torch.Tensor] = []

    # Some models pass masks and caches by position.
    named = list(inspect.signature(loading.decoder_layers(model)[1][0].forward).parameters)[1:]

    def note(hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        first.append(hidden_states)
        seen.append({**dict(zip(named, args, strict=False)), **kwargs})
        return hidden_states

    with torch.no_grad(), in_precision(dtype):
        embedded = model.get_input_embeddings()(ids).to(dtype)
    base = model.base_model
    around_layers(base, model, {"inputs_embeds": embedded}, note, dtype, outside_in(base, model, dtype))
    layers = len(loading.decoder_layers(model)[1])
    for kwargs in seen[-layers:]:
        # Layers that route by token want the tokens themselves, which the model does not know when it is given embeddings.
        if kwargs.get("input_ids", ids) is None:
            kwargs["input_ids"] = ids
    return first[-layers], seen[-layers:]


def around_layers(
    called: Any,
    model: Any,
    given: dict[str, Any],
    layer: Callable[..., torch.Tensor],
    dtype: torch.dtype,
    outside: dict[str, torch.Tensor],
) -> Any:
    """What the model's own code gives when `layer` stands for each of its layers, and `outside` (see outside_in) for the
    parameters around them; rows of embeddings come in the dtype, and nothing pools what comes out."""
    _, layers = loading.decoder_layers(model)
    failure: Exception | None = None
    for answer in (lambda out: out, lambda out: (out,)):
        # Some models unpack what their layers return, which is known only when they do.
        with ExitStack() as stack:
            swaps = Planting(stack)
            if pooler_of(model) is not None:
                swaps.swap(model.base_model, "pooler", None)
            for one in layers:
                swaps.swap(one, "forward", _answering(layer, answer))
                # Whoever looks at layers is not shown what merely stands for them.
                swaps.swap(one, "_forward_pre_hooks", OrderedDict())
                swaps.swap(one, "_forward_hooks", OrderedDict())
            for table in called.modules():
                if isinstance(table, torch.nn.Embedding):
                    stack.callback(table.register_forward_hook(lambda _module, _args, out: out.to(dtype)).remove)
            try:
                with torch.no_grad(), in_precision(dtype):
                    return torch.func.functional_call(called, outside, (), {**given, "use_cache": False}, tie_weights=False)
            except (IndexError, ValueError) as error:
                failure = failure or error
    raise BlockedError(
        f"the layers of {type(model).__name__} hand on more than hidden states ({failure}).",
        remedy="This architecture needs its own recipe.",
    ) from failure


def pooler_of(model: Any) -> Any:
    """What pools an encoder's hidden states, or None: it is no part of what is compared."""
    return getattr(model.base_model, "pooler", None)


def _answering(layer: Callable[..., torch.Tensor], answer: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer(layer(*args, **kwargs))


def outside_in(called: Any, model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Parameters of that part of the model, outside of its layers, of its pooler and of other modalities' towers, in the wider
    dtype where they have another; tables of embeddings stay what they are."""
    modules = dict(called.named_modules())
    layers = loading.decoder_layers(model)[1]
    around = {name for name, module in modules.items() if any(part is layers for part in module.modules())}
    towers = tuple(
        f"{name}." for name, module in modules.items() if isinstance(module, PreTrainedModel) and name and name not in around
    )
    left_out = (layers, pooler_of(model))
    inside = {id(parameter) for part in left_out if part is not None for parameter in part.parameters()}
    found = {}
    for name, parameter in called.named_parameters(remove_duplicate=False):
        owner = modules[name.rpartition(".")[0]]
        narrow = parameter.is_floating_point() and parameter.dtype.itemsize < dtype.itemsize
        if narrow and id(parameter) not in inside and not isinstance(owner, torch.nn.Embedding) and not name.startswith(towers):
            found[name] = parameter.to(dtype)
    return found


def run_layer(layer: Callable[..., Any], hidden: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
    """The layer's hidden states [1, tokens, width]."""
    with torch.no_grad():
        out = layer(hidden, **kwargs)
    return out[0] if isinstance(out, tuple) else out


def run_target(source: LayerSource, layer: Callable[..., Any], hidden: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
    """The same for a layer of the target, while the source has it.

    Experts that were not read are not a number: where the target reached one that the reference did not, all are read.
    """
    out = run_layer(layer, hidden, kwargs)
    if not bool(fetched(torch.isfinite(out)).all()) and source.read_rest():
        return run_layer(layer, hidden, kwargs)
    return out


def run_wide(layer: Any, hidden: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor:
    """The same for a widened layer."""
    with in_precision(hidden.dtype):
        return run_layer(layer, hidden, kwargs)


class CompiledLayer:
    """A layer that is compiled at its first call; it and all after it are eager once one cannot be compiled."""

    def __init__(self, layer: Any, failure: list[str]) -> None:
        self.layer, self.failure = layer, failure
        self.compiled = torch.compile(layer, dynamic=False)
        self.ran_compiled = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The layer's output."""
        if not self.failure:
            try:
                out = self.compiled(*args, **kwargs)
                self.ran_compiled = True
                return out
            except Exception as error:  # noqa: BLE001 - whatever a compiler raises, the path becomes another one and says so
                said = str(error).strip()
                self.failure.append(said.splitlines()[0][:160] if said else type(error).__name__)
                print(f"compile: {type(error).__name__}: {error}")
        return self.layer(*args, **kwargs)


@dataclass(slots=True)
class Target:
    """The target's module tree (patched, sharing weights), and the layers to call while the source holds them.

    `kernels` names what it is set to; `eager_because` says why it is not compiled, where that is known beforehand.
    """

    model: Any
    layers: list[Callable[..., Any]]
    kernels: str
    reference_path: str
    device: torch.device
    eager_because: str = ""
    failure: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The path that the layers took, in words; known when they have run."""
        if self.eager_because:
            return f"eager, {self.kernels} ({self.eager_because})"
        compiled = sum(isinstance(layer, CompiledLayer) and layer.ran_compiled for layer in self.layers)
        if self.failure and not compiled:
            return f"eager, {self.kernels} (compilation failed: {self.failure[0]})"
        after = f"; eager from the one after {compiled} (compilation failed: {self.failure[0]})" if self.failure else ""
        return f"compiled layer by layer (inductor), {self.kernels}{after}"


def make_target(native: Any, device: torch.device = HOST, kernels: str = "fused") -> Any:
    """A patched copy of the native model on other kernels: fused attention and grouped experts where it has them; with
    `kernels` "eager" on the reference's own.

    `native` is a model or a source of layers. On the host the copy shares the native weights; a device holds a copy of its
    own, of what is there: layers that are streamed come to it when the source has them.
    """
    source: LayerSource = as_source(native)
    target = loading.shadow(source.model)
    if device != HOST:
        _move_what_is_there(target, device)
    source.follow(target, device)
    if kernels == "eager":
        return target
    for setter, value in (("set_attn_implementation", "sdpa"), ("set_experts_implementation", "grouped_mm")):
        try:
            getattr(target, setter)(value)
        except (ValueError, AttributeError, NotImplementedError) as error:
            print(f"target {setter}({value}): {str(error).splitlines()[0]}")
    return target


def _move_what_is_there(model: Any, device: torch.device) -> None:
    """The model's tensors on the device, tied ones once; placeholders stay what they are, by which their source knows them."""
    moved: dict[int, Any] = {}
    for module in model.modules():
        for place in (module._parameters, module._buffers):
            for leaf, tensor in place.items():
                if tensor is None or tensor.is_meta:
                    continue
                if id(tensor) not in moved:
                    there = placed(tensor.detach(), device)
                    moved[id(tensor)] = torch.nn.Parameter(there, requires_grad=False) if place is module._parameters else there
                place[leaf] = moved[id(tensor)]


def path_of(model: Any) -> str:
    """The kernels that a model is set to, in words."""
    experts = getattr(model.config.get_text_config(), "_experts_implementation", None)
    attention = getattr(model.config.get_text_config(), "_attn_implementation", None)
    return f"attention {attention}" + (f", experts {experts}" if experts else "")


def compile_target(native: Any, target: Any, request: RunRequest, device: torch.device = HOST) -> Target:
    """Compile each layer of the target by itself, at its first call; eager, and said so, where that is off or does not work."""
    _, layers = loading.decoder_layers(target)
    reference_path = f"eager, {path_of(as_source(native).model)}"
    kernels = path_of(target) + on(device)
    if request.options.get("compile", True) is not True:
        return Target(target, list(layers), kernels, reference_path, device, "compilation is switched off")
    if device.type != "cpu" and torch._inductor.codegen.common.get_scheduling_for_device(device.type) is None:
        why = f"torch's compiler generates no code for {device.type}"
        return Target(target, list(layers), kernels, reference_path, device, why)
    torch._dynamo.config.recompile_limit = max(16, 2 * len(layers))
    failure: list[str] = []
    compiled: list[Callable[..., Any]] = [CompiledLayer(layer, failure) for layer in layers]
    return Target(target, compiled, kernels, reference_path, device, failure=failure)
