"""Sketches of module outputs as a model computes: per block of tokens a few signed sums, and statistics.

A sign is a product of one drawn from the token's number and one from the channel's, both counted in the whole tensor: a rank
that holds some channels, or a part of a sum, sketches what it has, and sketches of all ranks add up to that of the whole.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_flatten

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.placing import HOST
from dayzero.domain.fingerprints import PROJECTIONS, TOKEN_BLOCK, Point, RankPrints, TensorPrint
from dayzero.errors import BlockedError
from dayzero.stages.fingerprints.packing import pack

_CACHED_BYTES = 2 << 20
"""Of a tensor, what a core's second-level cache holds beside what else it needs."""
TOKENS, CHANNELS = 0, 1
"""Axes, told apart in the counter that a sign is drawn from."""
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
NUMBER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")
NOT_COMPUTED = ("rotary",)
"""Modules that return tables, not what the tokens became."""
ABSENT = ("Passed", "PipelineIdentityLayer")
"""Classes that stand where another pipeline stage has a module: ours, and the modelling library's."""


Part = tuple[int, int]
"""First and number: of channels, or of ranks."""


class Shower(Protocol):
    """What is shown tensors while a model computes."""

    def show(self, module: str, point: Point, value: Any, part: Part | None = None, group: Part | None = None) -> None:
        """The value at that point of the module. `part`: the first channel and the number of those that the rank computes, if
        it returns no more; `group`: the first rank and the number of those that sum it."""
        ...


Cuts = Mapping[str, frozenset[Part]]
"""By module, the parts (first channel, channels) of its output that ranks hold."""


def signs(seed: int, axis: int, first: int, count: int, projections: int) -> torch.Tensor:
    """Signs of the axis's indices from `first` on, float32 [count, projections] of -1 and 1: the bits of SplitMix64."""
    counter = torch.arange(first, first + count, dtype=torch.int64) + 1
    mixed = (counter + _signed((2 * seed + axis) << 40)) * _signed(_GOLDEN)
    mixed = (mixed ^ _shifted(mixed, 30)) * _signed(_FIRST)
    mixed = (mixed ^ _shifted(mixed, 27)) * _signed(_SECOND)
    mixed = mixed ^ _shifted(mixed, 31)
    bits = (mixed[:, None] >> torch.arange(projections)) & 1
    return (1 - 2 * bits).to(torch.float32)


def _signed(number: int) -> int:
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def _shifted(numbers: torch.Tensor, by: int) -> torch.Tensor:
    """A shift that brings in zeros."""
    return (numbers >> by) & ((1 << (64 - by)) - 1)


@dataclass(slots=True)
class Sketcher:
    """A Shower that takes fingerprints of the tensors that it is shown; the last showing of a tensor counts.

    `cuts` names parts that are sketched beside the whole.
    """

    tokens: int
    token_block: int = TOKEN_BLOCK
    projections: int = PROJECTIONS
    seed: int = 0
    cuts: Cuts = field(default_factory=dict)
    taken: dict[tuple[str, Point, int | None, int], tuple[Any, ...]] = field(default_factory=dict)
    last: tuple[torch.Tensor, torch.Tensor] | None = None
    drawn: dict[tuple[int, int, int, torch.dtype, torch.device], torch.Tensor] = field(default_factory=dict)

    def show(self, module: str, point: Point, value: Any, part: Part | None = None, group: Part | None = None) -> None:
        """Sketch the first floating tensor of the value; one that an inner module just returned is not sketched again."""
        # A mode that makes float64 of what model code calls float32 is not meant for this code.
        with torch.no_grad(), torch._C.DisableTorchFunction():
            self._show(module, point, first_tensor(value), part, group)

    def _show(self, module: str, point: Point, tensor: torch.Tensor | None, part: Part | None, group: Part | None) -> None:
        rows = None if tensor is None else self._rows(tensor.detach())
        if tensor is None or rows is None:
            return
        # A module that gathers what its ranks computed returns everything.
        first = part[0] if part is not None and part[1] == rows.shape[1] else None
        if self.last is not None and tensor is self.last[0] and point is not Point.BEFORE_SUM:
            if point is Point.INPUT:
                self._keep((module, point, first, rows.shape[1]), self.last[1], group)
            return
        figures = self._figures(rows, first or 0)
        # A sum over ranks may be taken in place: what it returns is another tensor than its part, and the same object.
        self.last = None if point is Point.BEFORE_SUM else (tensor, figures)
        self._keep((module, point, first, rows.shape[1]), figures, group)
        for start, channels in self.cuts.get(module, ()) if point is Point.OUTPUT and first is None else ():
            cut = rows[:, start : start + channels]
            self._keep((module, point, start, channels), self._figures(cut, start), group)

    def prints(self, rank: int) -> RankPrints:
        """What was taken, in the order of the computation. A module that returns tensors of several widths is left out: a
        rank's part of one may be as wide as the whole of another."""
        widths = Counter((module, point) for module, point, first, _ in self.taken if first is None)
        found = tuple(
            TensorPrint(module, _layer(module), point, channels, pack(figures.to(HOST).flatten().tolist()), first, group)
            for (module, point, first, channels), (figures, group) in self.taken.items()
            if first is not None or widths[module, point] == 1
        )
        return RankPrints(rank, self.tokens, self.token_block, self.projections, self.seed, found)

    def _rows(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """[tokens, channels], where the leading dimensions are the tokens, or the last one is; None where neither."""
        leading = 1
        for at, size in enumerate(tensor.shape):
            leading *= size
            if leading == self.tokens and tensor.numel() > leading:
                return tensor.reshape(self.tokens, -1) if at + 1 < tensor.dim() else None
        if tensor.dim() > 1 and tensor.shape[-1] == self.tokens:
            return tensor.reshape(-1, self.tokens).t()
        return None

    def _keep(self, key: tuple[str, Point, int | None, int], figures: torch.Tensor, group: Part | None) -> None:
        # What is shown again (a layer whose arguments were asked for before) takes its place in the order anew.
        self.taken.pop(key, None)
        self.taken[key] = figures, group

    def _figures(self, rows: torch.Tensor, first: int) -> torch.Tensor:
        """[blocks, projections + 3] on the tensor's device, in float32 or wider."""
        if rows.dtype in (torch.bfloat16, torch.float16):
            rows = rows.to(torch.float32)
        whole = rows.shape[0] // self.token_block * self.token_block
        parts = [part for part in (rows[:whole], rows[whole:]) if part.shape[0]]
        found, at = [], 0
        for part in parts:
            size = min(self.token_block, part.shape[0])
            found.append(self._blocks(part, size, at, first))
            at += part.shape[0]
        return found[0] if len(found) == 1 else torch.cat(found)

    def _blocks(self, rows: torch.Tensor, size: int, token: int, first: int) -> torch.Tensor:
        blocks, channels = rows.shape[0] // size, rows.shape[1]
        projected = (rows @ self._signs(CHANNELS, first, channels, rows)) * self._signs(TOKENS, token, rows.shape[0], rows)
        sketch = projected.reshape(blocks, size, -1).sum(1)
        flat = rows.reshape(blocks, size * channels)
        norm, largest = _sizes(flat)
        sound = bool(torch.isfinite(norm).all())
        bad = torch.zeros_like(norm) if sound else (~torch.isfinite(flat)).sum(1).to(norm.dtype)
        return torch.cat([sketch, torch.stack([norm, largest, bad], 1)], 1)

    def _signs(self, axis: int, first: int, count: int, like: torch.Tensor) -> torch.Tensor:
        key = axis, first, count, like.dtype, like.device
        if key not in self.drawn:
            self.drawn[key] = signs(self.seed, axis, first, count, self.projections).to(like.device, like.dtype)
        return self.drawn[key]


def _sizes(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm and the largest magnitude of each row. On a processor several rows at a time, which its caches keep between
    the passes: maximum and minimum are two passes, and yet several times as fast as the norm of infinite order."""
    at_once = max(1, _CACHED_BYTES // (flat.shape[1] * flat.element_size())) if flat.device.type == "cpu" else flat.shape[0]
    parts = flat.split(at_once)
    found = [(torch.linalg.vector_norm(part, dim=1), torch.maximum(part.amax(1), part.amin(1).neg_())) for part in parts]
    return torch.cat([norm for norm, _ in found]), torch.cat([largest for _, largest in found])


def first_tensor(value: Any) -> torch.Tensor | None:
    """The first floating tensor with elements in the value, a distributed one's own part."""
    leaves = [value] if isinstance(value, torch.Tensor) else tree_flatten(value)[0]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel():
            # Of a distributed tensor, what is here; parts of sums look like the whole, and are not.
            partial = any(placement.is_partial() for placement in getattr(leaf, "placements", ()))
            return None if partial else leaf.to_local() if hasattr(leaf, "to_local") else leaf
    return None


def _layer(module: str) -> int | None:
    found = NUMBER.search(module)
    return int(found[1]) if found else None


def watched(model: Any) -> Iterable[tuple[str, Any]]:
    """The modules whose outputs are sketched: all that are called, but for the model itself and tables."""
    for name, module in model.named_modules():
        absent = type(module).__name__ in ABSENT or any(part in name for part in NOT_COMPUTED)
        if name and module is not model.base_model and not absent:
            yield name, module


def watch(model: Any, shower: Shower, part_of: Callable[[str], Part | None] = lambda _: None) -> list[Any]:
    """Show every module's output and every decoder layer's input as the model computes; handles that end it.

    The hooks are closures, which copies of a module share: a widened layer shows what it computes here too.
    """
    handles = []
    for name, module in watched(model):
        handles.append(
            module.register_forward_hook(
                lambda _module, _args, out, name=name: shower.show(name, Point.OUTPUT, out, part_of(name))
            )
        )
    for name, layer in _layers(model):
        if type(layer).__name__ in ABSENT:
            continue
        handles.append(
            layer.register_forward_pre_hook(
                lambda _module, args, kwargs, name=name: shower.show(
                    name, Point.INPUT, args[0] if args else kwargs.get("hidden_states")
                ),
                with_kwargs=True,
            )
        )
    return handles


def _layers(model: Any) -> Iterable[tuple[str, Any]]:
    try:
        path, layers = loading.decoder_layers(model)
    except BlockedError:
        # Without a list of layers there are no inputs of theirs; modules have their outputs all the same.
        return ()
    return ((f"{path}.{index}", layer) for index, layer in enumerate(layers))
