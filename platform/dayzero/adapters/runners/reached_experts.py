"""Experts of one layer that are read when tokens first reach them."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from dayzero.adapters.runners.poisoned import poisoned

NUMBER = re.compile(r"\.experts\.(\d+)\.")
CHOICES = "top_k_index"
"""What the library calls the experts that each token takes, in the call of its experts."""

AT_ONCE = 16
"""Experts that are read together: while they are, they are there twice."""

Rows = Callable[["ReachedExperts", list[int]], Mapping[int, torch.Tensor]]
"""Reads those experts: for each stacked parameter (by its placeholder) the rows [experts read, …]."""


def expert_of(key: str) -> int | None:
    """The expert's number in a checkpoint's name; None in that of a tensor of all."""
    matched = NUMBER.search(key)
    return None if matched is None else int(matched[1])


@dataclass(frozen=True, slots=True)
class Stacks:
    """A module of experts, as many as `count`, and its parameters [count, …] by name."""

    module: Any
    count: int
    leaves: tuple[str, ...]


def stacks_in(layer: Any) -> list[Stacks]:
    """Modules of the layer that are told which experts their tokens take, and keep all experts in one parameter each."""
    found = []
    for module in layer.modules():
        count = getattr(module, "num_experts", None)
        own = {leaf: one for leaf, one in module._parameters.items() if one is not None}
        if not isinstance(count, int) or not own or CHOICES not in inspect.signature(type(module).forward).parameters:
            continue
        if all(one.dim() >= 2 and one.shape[0] == count and one.is_floating_point() for one in own.values()):
            found.append(Stacks(module, count, tuple(own)))
    return found


class ReachedExperts:
    """The stacked parameters of one module of experts: not a number but for the experts that were read."""

    def __init__(self, stacks: Stacks, read: Rows) -> None:
        self._stacks, self._read = stacks, read
        self._placeholders = {leaf: stacks.module._parameters[leaf] for leaf in stacks.leaves}
        self.there: set[int] = set()
        self._into: list[dict[str, torch.Tensor]] = []
        self.values = {leaf: self._promised(poisoned(tuple(one.shape), one.dtype)) for leaf, one in self._placeholders.items()}
        self._into.append({leaf: one.data for leaf, one in self.values.items()})
        self._handle = stacks.module.register_forward_pre_hook(_reads_first(self), with_kwargs=True)

    def _promised(self, tensor: torch.Tensor) -> torch.nn.Parameter:
        made = torch.nn.Parameter(tensor, requires_grad=False)
        made.reached_experts = self
        return made

    @property
    def count(self) -> int:
        """How many experts there are."""
        return self._stacks.count

    def by_placeholder(self) -> dict[int, torch.nn.Parameter]:
        """The parameters, by what stands for them."""
        return {id(one): self.values[leaf] for leaf, one in self._placeholders.items()}

    @contextmanager
    def shrunk(self, experts: int) -> Iterator[list[tuple[Any, Any]]]:
        """For a while the module has placeholders of so many experts; yields (placeholder of all, of these)."""
        before = dict(self._stacks.module._parameters)
        small = []
        for leaf, whole in self._placeholders.items():
            fewer = torch.nn.Parameter(torch.empty((experts, *whole.shape[1:]), dtype=whole.dtype, device="meta"))
            self._stacks.module._parameters[leaf] = fewer.requires_grad_(False)
            small.append((whole, fewer))
        try:
            yield small
        finally:
            self._stacks.module._parameters.update(before)

    def in_dtype(self, parameter: Any, dtype: torch.dtype) -> torch.nn.Parameter:
        """A copy of one of the parameters in the dtype, which gets every expert that is read from now on."""
        leaf = next(name for name, one in self.values.items() if one is parameter)
        copy = poisoned(tuple(parameter.shape), dtype)
        for expert in sorted(self.there):
            copy[expert] = parameter.data[expert].to(dtype)
        self._into.append({leaf: copy})
        return torch.nn.Parameter(copy, requires_grad=False)

    def need(self, experts: set[int]) -> None:
        """Read those of them that are not there yet."""
        new = sorted(expert for expert in experts - self.there if 0 <= expert < self.count)
        if not new:
            return
        for first in range(0, len(new), AT_ONCE):
            self._need(new[first : first + AT_ONCE])

    def _need(self, new: list[int]) -> None:
        rows = self._read(self, new)
        for leaf, placeholder in self._placeholders.items():
            for into in self._into:
                if leaf in into:
                    for at, expert in enumerate(new):
                        into[leaf][expert].copy_(rows[id(placeholder)][at])
        self.there.update(new)

    def all(self) -> bool:
        """Read the rest; whether there was any."""
        lacking = len(self.there) < self.count
        self.need(set(range(self.count)))
        return lacking

    def close(self) -> None:
        """Forget everything: parameters and this hold each other, and would stay until somebody looks for cycles."""
        self._handle.remove()
        self._into.clear()
        for parameter in self.values.values():
            del parameter.reached_experts
        self.values.clear()


def _reads_first(reached: ReachedExperts) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], None]:
    """A hook that reads what a call reaches; a function, so that copies of the module share it."""

    def hook(module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        bound = inspect.signature(type(module).forward).bind(module, *args, **named)
        reached.need(set(bound.arguments[CHOICES].unique().tolist()))

    return hook
