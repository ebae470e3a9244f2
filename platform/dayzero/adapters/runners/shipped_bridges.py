"""Bridges that come with dayzero, each off until it is switched on: one written by hand, and one that is wrong on purpose."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from dayzero.errors import BadInputError


class TopkBySort:
    """The largest elements by a whole sort, for devices that can sort and cannot select."""

    name = "topk-by-sort"
    operator = "aten.topk.default"
    platforms: tuple[str, ...] = ()

    def implementation(self, options: Mapping[str, str]) -> Callable[..., object]:
        """torch.topk in terms of torch.sort; it has no options."""
        if options:
            raise BadInputError(f"{self.name} has no option {sorted(options)[0]}.", remedy="Leave it out.")
        return topk_by_sort


def topk_by_sort(
    values: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest (or smallest) values along the dimension with their indices, in order whether asked for or not."""
    ordered, indices = torch.sort(values, dim=dim, descending=largest)
    return ordered.narrow(dim, 0, k), indices.narrow(dim, 0, k)


class PlantedBridge:
    """A grouped product whose result is scaled: numerically off, so that verification has something to refuse."""

    name = "planted-bridge"
    operator = "aten._grouped_mm.default"
    platforms: tuple[str, ...] = ()

    def implementation(self, options: Mapping[str, str]) -> Callable[..., object]:
        """The composite times `scale` (default 1.05); BadInputError for another option or no number."""
        unknown = sorted(set(options) - {"scale"})
        if unknown:
            raise BadInputError(f"{self.name} has no option {unknown[0]}.", remedy="It has scale.")
        try:
            scale = float(options.get("scale", "1.05"))
        except ValueError:
            scale = math.nan
        if not math.isfinite(scale):
            raise BadInputError(f"{self.name} option scale={options['scale']!r} is no number.", remedy="Write a number.")
        composite = torch.ops.aten._grouped_mm.default

        def scaled(*args: Any, **kwargs: Any) -> Any:
            return composite._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs) * scale

        return scaled


TOPK_BY_SORT = TopkBySort()
PLANTED = PlantedBridge()
