"""The built-in plugin `planted-fault`: a deliberately wrong operator in one layer, to show that the checks can fail.

Options: `seed` (default 0) draws the layer, `scale` (default 1.05) is what the right result is multiplied by; `gradient` leaves
the result right and multiplies the derivative; `fault` plants one of the mistakes of planting.py instead.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from dayzero.adapters.runners.loading import decoder_layers
from dayzero.adapters.runners.planted_gradient import PlantedGradient
from dayzero.adapters.runners.planting import plant
from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.errors import BadInputError
from dayzero.stages.precision.planting import planted_layer


@torch.library.custom_op("dayzero::planted_silu", mutates_args=())  # type: ignore[untyped-decorator]
def planted_silu(x: torch.Tensor, scale: float) -> torch.Tensor:
    """silu(x) · scale: wrong unless scale is 1."""
    return torch.nn.functional.silu(x) * scale


@planted_silu.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


class PlantedSilu(torch.nn.Module):  # type: ignore[misc]
    """An activation module that calls the wrong operator."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """silu(x) · scale."""
        return planted_silu(x, self.scale)


class PlantedFault:
    """Replaces silu in the drawn layer by `dayzero.planted_silu`."""

    name = "planted-fault"
    operator = "aten.silu.default"
    replacement = "dayzero.planted_silu.default"
    platforms: tuple[str, ...] = ()

    @contextmanager
    def install(self, model: Any, options: Mapping[str, str]) -> Iterator[None]:
        """Plant it; BadInputError for an unknown option, a bad number, or a layer without silu."""
        unknown = sorted(set(options) - {"seed", "scale", "gradient", "fault"})
        if unknown:
            raise BadInputError(f"planted-fault has no option {unknown[0]}.", remedy="It has seed, scale, gradient and fault.")
        seed, scale = _number(options, "seed", 0), _number(options, "scale", 1.05)
        gradient = _number(options, "gradient", 1.0)
        with ExitStack() as stack:
            if "fault" in options:
                where = plant(model, options["fault"], int(seed), stack)
                print(f"planted-fault: {options['fault']} in {where}")
            else:
                what = f"derivative of silu × {gradient}" if "gradient" in options else f"silu × {scale}"
                made = partial(PlantedGradient, gradient) if "gradient" in options else partial(PlantedSilu, scale)
                print(f"planted-fault: {what} in {self._in_place_of_silu(model, int(seed), made, stack)} (seed {int(seed)})")
            yield

    def _in_place_of_silu(self, model: Any, seed: int, made: Callable[[], Any], stack: ExitStack) -> str:
        """Put a module wherever the drawn layer has silu; the layer's path."""
        path, layers = decoder_layers(model)
        index = planted_layer(seed, len(layers))
        places = [
            (module, name)
            for module in layers[index].modules()
            for name, child in module.named_children()
            if type(child).__name__ in ("SiLUActivation", "SiLU")
        ]
        if not places:
            raise BadInputError(f"{path}.{index} has no silu to plant a fault in.", remedy="Take a model whose MLP uses silu.")
        for module, name in places:
            Planting(stack).swap(module, name, made())
        return f"{path}.{index}"


def _number(options: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(options.get(name, default))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInputError(f"planted-fault option {name}={options[name]!r} is no number.", remedy="Write a number.")
    return value


PLUGIN = PlantedFault()
