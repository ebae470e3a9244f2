"""Towers in a model, and what each calls its layers with."""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from transformers import PreTrainedModel

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.figures import cast
from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.adapters.runners.three_ways import Call, in_precision, outside_in
from dayzero.errors import BlockedError

FAILURES = (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""What a tower's own code raises about an input that is not of its kind."""


class _AllCalled(Exception):
    """The last layer was called."""


def towers_in(model: Any) -> tuple[str, ...]:
    """Paths of the outermost models inside the model that are not, hold, or are part of its language model."""
    text = loading.text_models(model)
    inner = [name for name, module in model.named_modules() if name and isinstance(module, PreTrainedModel)]
    beside = [name for name in inner if not any(_within(name, one) or _within(one, name) for one in text)]
    return tuple(name for name in beside if not any(_within(name, other) for other in beside if other != name))


def _within(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}.")


def tower_calls(tower: Any, given: Mapping[str, Any], dtype: torch.dtype) -> Call:
    """What enters the tower's first layer, and each layer's keyword arguments, in that dtype, without running them.

    BlockedError: the tower does not take such an input, or its layers hand on more than hidden states.
    """
    _, layers = loading.decoder_layers(tower)
    first: list[torch.Tensor] = []
    seen: list[dict[str, Any]] = []
    failure: Exception | None = None
    answers: tuple[Callable[[torch.Tensor], Any], ...] = (lambda out: out, lambda out: (out,))
    for answer in answers:
        first.clear()
        seen.clear()
        with ExitStack() as stack:
            _stand_in(layers, Planting(stack), first, seen, answer)
            for table in tower.modules():
                if isinstance(table, torch.nn.Embedding):
                    stack.callback(table.register_forward_hook(lambda _module, _args, out: out.to(dtype)).remove)
            try:
                with torch.no_grad(), in_precision(dtype):
                    outside = outside_in(tower, tower, dtype)
                    torch.func.functional_call(tower, outside, (), cast(dict(given), dtype), tie_weights=False)
            except _AllCalled:
                return first[0].to(dtype), seen
            except FAILURES as error:
                failure = failure or error
    said = str(failure).strip().splitlines()[0] if failure is not None and str(failure).strip() else "not all layers are called"
    raise BlockedError(
        f"{type(tower).__name__} cannot be led to its layers ({said}).", remedy="Its layers need a recipe of their own."
    ) from failure


def _stand_in(
    layers: Any, swaps: Planting, first: list[torch.Tensor], seen: list[dict[str, Any]], answer: Callable[[torch.Tensor], Any]
) -> None:
    """Put what only notes its arguments in the place of each layer."""
    names = list(inspect.signature(layers[0].forward).parameters)[1:]

    def standing(last: bool) -> Callable[..., Any]:
        def note(hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            first.append(hidden_states)
            seen.append({**dict(zip(names, args, strict=False)), **kwargs})
            if last:
                raise _AllCalled
            return answer(hidden_states)

        return note

    for index, one in enumerate(layers):
        swaps.swap(one, "forward", standing(index == len(layers) - 1))
        swaps.swap(one, "_forward_pre_hooks", OrderedDict())
        swaps.swap(one, "_forward_hooks", OrderedDict())
