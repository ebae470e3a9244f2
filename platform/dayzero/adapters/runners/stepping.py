"""A model run in steps with a cache, each of its layers given the reference's hidden states; and caches that are copied."""

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.measuring import cache_of
from dayzero.adapters.runners.outer_parts import MASK, TABLES
from dayzero.adapters.runners.placing import fetched, placed
from dayzero.adapters.runners.three_ways import in_precision

Cache = dict[str, Any]
"""A model's cache under the name by which its forward takes it; empty before the first call."""
Segment = tuple[int, int]
"""First position and the one after the last."""


@dataclass(slots=True)
class Steps:
    """What each call gave: outputs of each layer by segment, and the tables and masks that its layers got."""

    outputs: dict[Segment, list[torch.Tensor]] = field(default_factory=dict)
    kwargs: dict[Segment, list[dict[str, Any]]] = field(default_factory=dict)
    caches: dict[Segment, Cache] = field(default_factory=dict)

    def joined(self, index: int, segments: list[Segment]) -> torch.Tensor:
        """One layer's outputs over those segments, [1, tokens, width], on the host."""
        return torch.cat([fetched(self.outputs[segment][index]) for segment in segments], 1)


def run_steps(
    model: Any,
    ids: torch.Tensor,
    forced: list[torch.Tensor],
    segments: list[Segment],
    cache: Cache | None = None,
    given: dict[Segment, list[dict[str, Any]]] | None = None,
) -> Steps:
    """The segments one after the other, behind what the cache holds; each layer gets `forced`, and `given` in place of its own
    tables and masks. Keeps a copy of the cache as it was before each segment.
    """
    steps, held = Steps(), cache or {}
    device = next(model.parameters()).device
    dtype = forced[0].dtype
    with torch.no_grad(), in_precision(dtype):
        for segment in segments:
            steps.caches[segment] = copied(held)
            with _forced(model, forced, segment, steps, (given or {}).get(segment)):
                out = model.base_model(placed(ids[:, segment[0] : segment[1]], device), use_cache=True, **held)
            held = cache_of(out) or held
    return steps


@contextmanager
def _forced(
    model: Any, forced: list[torch.Tensor], segment: Segment, steps: Steps, given: list[dict[str, Any]] | None
) -> Iterator[None]:
    """Layers see the reference's hidden states of the segment; what they give and get is kept."""
    layers = loading.decoder_layers(model)[1]
    outputs: list[torch.Tensor] = []
    seen: list[dict[str, Any]] = []

    def before(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        index = len(seen)
        kwargs = dict(kwargs)
        seen.append({name: kwargs[name] for name in (TABLES, MASK) if name in kwargs})
        kwargs.update({name: value for name, value in (given[index] if given else {}).items() if name in kwargs})
        device = next(layer.parameters()).device
        hidden = placed(forced[index][:, segment[0] : segment[1]], device)
        return ((hidden, *args[1:]), kwargs) if args else ((), {**kwargs, "hidden_states": hidden})

    def after(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        outputs.append(out[0] if isinstance(out, tuple) else out)

    handles = [layer.register_forward_pre_hook(before, with_kwargs=True) for layer in layers]
    handles += [layer.register_forward_hook(after, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    steps.outputs[segment], steps.kwargs[segment] = outputs, seen


def copied(value: Any, dtype: torch.dtype | None = None) -> Any:
    """A deep copy of a cache; with a dtype, its floating tensors in it."""
    copy_of = copy.deepcopy(value)
    return copy_of if dtype is None else _cast(copy_of, dtype, set())


def _cast(value: Any, dtype: torch.dtype, seen: set[int]) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _cast(item, dtype, seen) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cast(item, dtype, seen) for item in value)
    if is_cache(value) and id(value) not in seen:
        seen.add(id(value))
        for name, item in list(vars(value).items()):
            if name == "dtype":
                setattr(value, name, dtype)
            elif not inspect.isroutine(item):
                setattr(value, name, _cast(item, dtype, seen))
    return value


def is_cache(value: Any) -> bool:
    """Whether the argument is one of the modelling library's caches."""
    return type(value).__module__.startswith("transformers.cache")
