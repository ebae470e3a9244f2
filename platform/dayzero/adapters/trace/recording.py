"""The record of a trace: every call as a use, with its module and the composite it is a part of.

Imported by child processes only.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from dayzero.adapters.trace.counting import stored_bytes
from dayzero.adapters.trace.shapes import Shapes
from dayzero.domain.operators import CollectiveUse, GraphUse, Phase

COLLECTIVE = "collective."
"""Prefix of the names that collectives are recorded under."""

BACKWARD = ".backward"
"""Suffix of a composite's name for what its gradient runs."""

_NO_ORIGIN = 1 << 62
"""Nodes that store a parameter's gradient have the largest number there is: that is the optimizer's side, and not recorded."""


@dataclass(frozen=True, slots=True)
class Described:
    """One call as it is recorded, whatever module makes it."""

    name: str
    dtypes: tuple[str, ...]
    shape_class: str
    flops: int | None
    moved: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """A described call in its place."""

    what: Described
    phase: Phase
    module: str
    part_of: str | None


@dataclass
class _Tally:
    calls: int = 0
    flops: int | None = None
    moved: int | None = None
    modules: set[str] = field(default_factory=set)

    def add(self, what: Described, calls: int) -> None:
        self.calls += calls
        self.flops = _sum(self.flops, what.flops, calls)
        self.moved = _sum(self.moved, what.moved, calls)


class Recorder:
    """Everything seen so far. `modules` is the stack of module paths that run now, `composites` that of open composites."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.phase = Phase.PREFILL
        self.modules: list[str] = [""]
        self.composites: list[str] = []
        self.calls: list[int] = []
        """Every call in order, each a place in `kinds`."""
        self.kinds: list[Call] = []
        self.answered: Counter[str] = Counter()
        self._places: dict[Call, int] = {}
        self._muted = 0
        self._marks: list[tuple[int, str, str | None]] = [(-1, "", None)]

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Nothing is recorded meanwhile: what runs is ours, not the model's."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    def push(self, path: str) -> None:
        """The module of that path begins."""
        self.modules.append(path)
        self._mark()

    def pop(self) -> None:
        """The running module ends."""
        self.modules.pop()
        self._mark()

    def note(self, what: Described) -> None:
        """One call. While gradients run it belongs to the module and composite whose forward made its node."""
        if self._muted:
            return
        module, part_of = self.modules[-1], self.composites[-1] if self.composites else None
        if self.phase is Phase.TRAIN and (node := torch._C._current_autograd_node()) is not None:
            sequence = node._sequence_nr()
            if sequence >= _NO_ORIGIN:
                return
            module, part_of = self._origin(sequence)
        call = Call(what, self.phase, module, part_of)
        place = self._places.setdefault(call, len(self.kinds))
        if place == len(self.kinds):
            self.kinds.append(call)
        self.calls.append(place)

    def describe(self, name: str, tensors: Sequence[Any], flops: int | None, moved: int | None) -> Described:
        """A call of an operator on those tensors."""
        dtypes = tuple(dict.fromkeys(str(tensor.dtype).removeprefix("torch.") for tensor in tensors))
        return Described(name, dtypes, ",".join(self.shapes.of(tensor.shape) for tensor in tensors), flops, moved)

    @contextmanager
    def composite(self, name: str, inputs: Sequence[Any], outputs: list[Any]) -> Iterator[None]:
        """A composite that runs its parts meanwhile; `outputs` is filled by then. Its FLOPs are those of its parts."""
        if self._muted:
            yield
            return
        begin = len(self.calls)
        self.composites.append(name)
        self._mark()
        try:
            yield
        finally:
            self.composites.pop()
            self._mark()
        inside = [self.kinds[place] for place in self.calls[begin:]]
        parts = [call.what.flops for call in inside if call.part_of == name]
        flops = None if all(one is None for one in parts) else sum(one or 0 for one in parts)
        moved = stored_bytes((*inputs, *outputs))
        self.note(self.describe(name, inputs, flops, moved))
        if self.phase is Phase.TRAIN and any(tensor.requires_grad for tensor in outputs):
            # The gradient reads what came in and out and the gradient of what came out, and writes one for what came in.
            self.note(self.describe(name + BACKWARD, (*outputs, *inputs), None, 2 * moved))

    def _mark(self) -> None:
        if self.phase is Phase.TRAIN:
            part_of = self.composites[-1] + BACKWARD if self.composites else None
            self._marks.append((torch.autograd._get_sequence_nr(), self.modules[-1], part_of))

    def _origin(self, sequence: int) -> tuple[str, str | None]:
        """Module and composite that ran when the node of that number was made."""
        mark = self._marks[bisect_right(self._marks, sequence, key=lambda mark: mark[0]) - 1]
        return mark[1], mark[2]

    def uses(self) -> tuple[GraphUse, ...]:
        """The calls without collectives, summed up by use and sorted."""
        tallies = self._tallies(collectives=False)
        _give_gradients_their_flops(tallies)
        rows = [
            GraphUse(name, dtypes, shape_class, phase, tally.calls, tuple(sorted(tally.modules)), tally.flops, tally.moved,
                     part_of)
            for (name, dtypes, shape_class, phase, part_of), tally in tallies.items()
        ]  # fmt: skip
        return tuple(sorted(rows, key=lambda use: (use.phase, use.name, use.shape_class, use.dtypes, use.part_of or "")))

    def collectives(self, tp: int) -> tuple[CollectiveUse, ...]:
        """The collectives, summed up and sorted."""
        rows = [
            CollectiveUse(name.removeprefix(COLLECTIVE), tp, phase, "/".join(dtypes), shape_class, tally.calls,
                          tally.moved or 0, tuple(sorted(tally.modules)))
            for (name, dtypes, shape_class, phase, _), tally in self._tallies(collectives=True).items()
        ]  # fmt: skip
        return tuple(sorted(rows, key=lambda use: (use.phase, use.name, use.shape_class, use.dtype)))

    def _tallies(self, *, collectives: bool) -> dict[tuple[str, tuple[str, ...], str, Phase, str | None], _Tally]:
        tallies: dict[tuple[str, tuple[str, ...], str, Phase, str | None], _Tally] = {}
        for place, calls in Counter(self.calls).items():
            call = self.kinds[place]
            what = call.what
            if what.name.startswith(COLLECTIVE) is collectives:
                key = (what.name, what.dtypes, what.shape_class, call.phase, call.part_of)
                tally = tallies.setdefault(key, _Tally())
                tally.add(what, calls)
                tally.modules.add(call.module)
        return tallies


def _give_gradients_their_flops(tallies: dict[tuple[str, tuple[str, ...], str, Phase, str | None], _Tally]) -> None:
    """Share the FLOPs of what a composite's gradient ran among the calls of that gradient, equally."""
    for composite in {part_of for *_, part_of in tallies if part_of is not None and part_of.endswith(BACKWARD)}:
        parts = [tally.flops for (*_, part_of), tally in tallies.items() if part_of == composite and tally.flops is not None]
        own = [tally for (name, *_), tally in tallies.items() if name == composite]
        calls = sum(tally.calls for tally in own)
        left, total = calls, sum(parts)
        for tally in own if parts else ():
            tally.flops = total * tally.calls // left
            total, left = total - tally.flops, left - tally.calls


def _sum(total: int | None, one: int | None, calls: int) -> int | None:
    return total if one is None else (total or 0) + one * calls
