"""A rank's weights on their way into its module: all before it computes, or layer by layer while the layers before compute."""

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch

from dayzero.adapters.runners.rank_tensors import Source

AHEAD = 2
"""Groups whose bytes the kernel is asked for while one is being copied."""


def filled(values: torch.Tensor) -> torch.nn.Parameter:
    """A parameter with its values, and the mark that the library's own initialisation passes over: it is asked for buffers, and
    would draw the weights of the same module (Gemma-3's embeddings) at random."""
    parameter = torch.nn.Parameter(values, requires_grad=False)
    parameter._is_hf_initialized = True
    return parameter


@dataclass(frozen=True, slots=True)
class _Place:
    """A parameter that has its shape and no values yet."""

    module: Any
    leaf: str
    source: Source
    stands_for_it: torch.nn.Parameter


class WeightLoader:
    """Brings parameters in by groups, in the order of their numbers; modules wait for their own group.

    `dtype` is that of the values; they are made on `device`. A placeholder that was replaced meanwhile stays replaced.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self.device = dtype, device
        self._groups: dict[int, list[_Place]] = defaultdict(list)
        self._there: dict[int, threading.Event] = {}
        self._made: dict[tuple[int, ...], torch.nn.Parameter] = {}
        self._error: BaseException | None = None
        self._stopped = False

    def promise(self, module: Any, leaf: str, source: Source, group: int) -> None:
        """The parameter will have the source's values when its group is there; it has their shape now."""
        placeholder = filled(torch.empty(source.shape, dtype=self._dtype, device="meta"))
        module._parameters[leaf] = placeholder
        self._groups[group].append(_Place(module, leaf, source, placeholder))

    def load(self) -> None:
        """All groups, now."""
        for group in self._order():
            self._bring(group)
        self._groups.clear()

    def start(self, waiting: dict[int, list[Any]]) -> threading.Thread:
        """Bring the groups in from a thread of its own; the modules of `waiting` wait for their group before they compute."""
        order = self._order()
        self._there = {group: threading.Event() for group in order}
        for group, modules in waiting.items():
            for module in modules if group in self._there else ():
                module.register_forward_pre_hook(lambda _module, _args, group=group: self.wait(group))
        thread = threading.Thread(target=self._run, args=(order,), name="weights", daemon=True)
        thread.start()
        return thread

    def wait(self, group: int) -> None:
        """Return when the group is there; what stopped the reading is raised here."""
        self._there[group].wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Bring in no more groups."""
        self._stopped = True

    def _order(self) -> list[int]:
        return sorted(self._groups)

    def _run(self, order: list[int]) -> None:
        try:
            for group in order:
                if self._stopped:
                    break
                self._bring(group)
                self._there[group].set()
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            self._error = error
        finally:
            for event in self._there.values():
                event.set()

    def _bring(self, group: int) -> None:
        order = self._order()
        at = order.index(group)
        for ahead in order[at : at + 1 + AHEAD]:
            for place in self._groups[ahead]:
                place.source.will_need()
        for place in self._groups[group]:
            if place.module._parameters.get(place.leaf) is not place.stands_for_it:
                continue
            # A tied head is the table of embeddings, not a second one.
            same = tuple(id(part) for part in place.source.parts)
            if same not in self._made:
                self._made[same] = filled(place.source.make(self._dtype).to(self.device))
                place.source.let_go()
            place.module._parameters[place.leaf] = self._made[same]
