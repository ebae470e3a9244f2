"""Directions of vectors: how far a gradient lies from its reference, by itself and joined over a module's parameters."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping

import torch

from dayzero.adapters.runners.figures import finite
from dayzero.domain.observed_training import DirectionError

_EXPERT = re.compile(r"experts\.\d+\.")


class Direction:
    """Sums over pairs of tensors, from which the error of their joined vector follows; computed in float64."""

    def __init__(self) -> None:
        self.n = self.nonfinite = 0
        self.error = self.own = self.reference = self.product = 0.0

    def add(self, actual: torch.Tensor | None, reference: torch.Tensor) -> None:
        """Join a tensor; one that is missing counts as zero."""
        right = reference.detach().to(torch.float64).reshape(-1)
        left = torch.zeros_like(right) if actual is None else actual.detach().to("cpu").to(torch.float64).reshape(-1)
        known = torch.isfinite(right)
        self.nonfinite += int((known & ~torch.isfinite(left)).sum())
        usable = known & torch.isfinite(left)
        left, right = torch.where(usable, left, 0.0), torch.where(usable, right, 0.0)
        self.n += int(usable.sum())
        self.error += float((left - right).pow(2).sum())
        self.own += float(left.pow(2).sum())
        self.reference += float(right.pow(2).sum())
        self.product += float((left * right).sum())

    def result(self) -> DirectionError:
        """The figures; a zero reference that is not met has no finite error."""
        if self.own == 0.0 and self.reference == 0.0:
            return DirectionError(self.n, 0.0, 1.0, 1.0, self.nonfinite)
        norm = math.sqrt(self.reference)
        both = norm * math.sqrt(self.own)
        return DirectionError(
            self.n,
            finite(math.sqrt(self.error) / norm) if norm else None,
            finite(self.product / both) if both else 0.0,
            finite(math.sqrt(self.own) / norm) if norm else None,
            self.nonfinite,
        )


def direction_error(actual: torch.Tensor | None, reference: torch.Tensor) -> DirectionError:
    """The error of one tensor as a vector."""
    joined = Direction()
    joined.add(actual, reference)
    return joined.result()


def by_module(
    actual: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor], module_of: Callable[[str], str]
) -> dict[str, DirectionError]:
    """The error of each module's parameters joined, and of all ("")."""
    joined: dict[str, Direction] = defaultdict(Direction)
    for name, value in reference.items():
        for module in ("", module_of(name)):
            joined[module].add(actual.get(name), value)
    return {module: direction.result() for module, direction in joined.items()}


def module_of(parameter: str) -> str:
    """The module that holds the parameter; single experts of a layer are one, for few tokens reach each of them."""
    module = _EXPERT.sub("experts.*.", parameter).rpartition(".")[0]
    return module.removesuffix(".base")
