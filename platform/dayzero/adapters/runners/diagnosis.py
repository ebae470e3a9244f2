"""Which known mistake explains a guilty module: each is made in a copy of the reference's layer and its output compared.

The mistakes are those that `planted-fault` can plant. What none of them reproduces stays unnamed.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from dayzero.adapters.runners import loading, planting
from dayzero.adapters.runners.figures import dtype_name, floats, tensor_error
from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.domain.observations import TensorError
from dayzero.errors import BadInputError
from dayzero.stages.precision import limits as precision

Call = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]


def known_mistake(model: Any, layer: Any, name: str, call: Call, ours: list[torch.Tensor], native: TensorError) -> str | None:
    """The mistake with which the reference's module gives the target's outputs `ours`, in words; None: none that is known.

    `call` makes the module's arguments anew, which a call may change; `native` is the native dtype's own error of that module,
    by which the outputs may differ.
    """
    for fault in planting.LAYER_FAULTS.values():
        if fault.applies(layer) and _gives(fault, model, layer, name, call, ours, native):
            return fault.words
    return None


def _gives(
    fault: planting.LayerFault, model: Any, layer: Any, name: str, call: Call, ours: list[torch.Tensor], native: TensorError
) -> bool:
    trial = loading.shadow(layer)
    with ExitStack() as stack, torch.no_grad():
        try:
            fault.plant(Planting(stack), model, trial, 0)
            args, named = call()
            theirs = floats(dict(trial.named_modules())[name](*args, **named))
        except (BadInputError, RuntimeError, TypeError, ValueError, KeyError):
            return False
    pairs = [(left, right) for left, right in zip(ours, theirs, strict=False) if left.shape == right.shape]
    return bool(pairs) and not any(
        precision.mean_line(tensor_error(left, right), native, dtype_name(right.dtype)).stands_out for left, right in pairs
    )
