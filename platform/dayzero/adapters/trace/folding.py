"""Equal layers are run once and counted as often as they occur. Imported by child processes only."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dayzero.adapters.trace.recording import Recorder
from dayzero.adapters.trace.training import joined, step_of
from dayzero.domain.operators import Phase

_INDEX_NAMES = ("layer_idx", "layer_id", "layer_index", "layer_number")
_PLAIN = (int, float, str, bool, type(None))
_ORIGINAL = "_dayzero_forward"


def fold_layers(model: Any, recorder: Recorder) -> int:
    """Make each layer that equals an earlier one repeat what that one recorded; returns the number of distinct layers.

    Two calls are equal when the layers agree in class, parameter shapes, buffers and plain attributes at every depth (the
    layer's own index apart) and the arguments agree in shapes, dtypes and plain values. So counts stay exact for any order of
    layers. In a training step a layer's gradient runs with its forward, so that both are repeated.
    """
    recorded: dict[object, tuple[int, int, Any]] = {}
    layers = [layer for stack in _stacks(model) for layer in stack]
    signatures = [_signature(layer) for layer in layers]
    for layer, signature in zip(layers, signatures, strict=True):
        layer.__dict__[_ORIGINAL] = layer.__dict__.get("forward")
        layer.forward = _folded(layer.forward, signature, recorded, recorder)
    return len(set(signatures))


def first_of_each_kind(model: Any) -> int:
    """How many layers, from the first on, hold every kind of layer that the model has."""
    signatures = [_signature(layer) for stack in _stacks(model) for layer in stack]
    return max((signatures.index(kind) + 1 for kind in set(signatures)), default=1)


def unfold_layers(model: Any) -> None:
    """Give every layer its own forward back."""
    for stack in _stacks(model):
        for layer in stack:
            original = layer.__dict__.pop(_ORIGINAL, None)
            layer.__dict__.pop("forward", None)
            if original is not None:
                layer.forward = original


def _stacks(model: Any) -> list[Any]:
    """The outermost lists of more than two modules: the layer stacks."""
    found: list[Any] = []
    names: list[str] = []
    for name, module in model.named_modules():
        inside = any(name.startswith(outer + ".") for outer in names)
        if isinstance(module, torch.nn.ModuleList) and not inside and len(module) > 2:
            found.append(module)
            names.append(name)
    return found


def _folded(run: Callable[..., Any], signature: object, recorded: dict[object, Any], recorder: Recorder) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        key = (recorder.phase, signature, _arguments((args, kwargs)))
        earlier = recorded.get(key)
        if earlier is not None:
            begin, end, out = earlier
            recorder.calls.extend(recorder.calls[begin:end])
            return joined(out, (args, kwargs), recorder) if recorder.phase is Phase.TRAIN else out
        begin = len(recorder.calls)
        if recorder.phase is Phase.TRAIN:
            out = step_of(run, args, kwargs, recorder)
            recorded[key] = (begin, len(recorder.calls), out)
            return joined(out, (args, kwargs), recorder)
        out = run(*args, **kwargs)
        recorded[key] = (begin, len(recorder.calls), out)
        return out

    return forward


def _signature(layer: Any) -> object:
    rows: list[object] = []
    for name, module in layer.named_modules():
        plain = sorted(
            (key, repr(value))
            for key, value in vars(module).items()
            if not key.startswith("_") and key not in _INDEX_NAMES and _is_plain(value)
        )
        rows.append((name, type(module).__qualname__, tuple(plain)))
    rows.extend((name, tuple(value.shape), str(value.dtype)) for name, value in layer.named_parameters())
    rows.extend((name, tuple(value.shape), str(value.dtype)) for name, value in layer.named_buffers())
    return tuple(rows)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, list | tuple) and all(isinstance(item, _PLAIN) for item in value))


def _arguments(tree: Any) -> object:
    rows: list[object] = []
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            rows.append((tuple(leaf.shape), str(leaf.dtype)))
        elif isinstance(leaf, _PLAIN):
            rows.append(leaf)
        else:
            rows.append(type(leaf).__qualname__)
    return tuple(rows)
