"""Distinct operator calls on drawn inputs: on the target, by the host's own kernel, and in float64."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from dayzero.adapters.runners.drawn_inputs import DENORMAL, DISTRIBUTIONS, DRAWN, drawn, generator, is_drawn
from dayzero.adapters.runners.placing import HOST, placed
from dayzero.adapters.runners.sample_figures import Result, sample_of, triples
from dayzero.domain.sampling import CallFact, CallSample, CallSamples

CALL_ELEMENTS = 1 << 20
"""Elements of the inputs of a call above which it is left out: its real activations are compared all the same."""
RUN_ELEMENTS = 1 << 24
"""Elements of all calls of one run; what is left then is new to the next run."""
NATIVE = "the host's own kernel computes it, and would be held against itself"
_WHY_CHARACTERS = 200

Key = tuple[str, tuple[str, ...], str]
ORDERED = (
    "aten.topk", "aten.sort", "aten.argsort", "aten.argmax", "aten.argmin", "aten.max.dim", "aten.min.dim", "aten.median.dim",
)  # fmt: skip
"""Operators that give places of elements: of equal elements any may come, so the elements at those places are compared."""


@dataclass(frozen=True, slots=True)
class Ways:
    """One operator three ways: as dispatched on the target, the operator that is its reference (the same, or the one in whose
    place it stands, which takes only the first `taken` arguments), and the same in float64."""

    target: Callable[..., Any]
    reference: Callable[..., Any]
    wide: Callable[..., Any]
    taken: int | None


@dataclass(slots=True)
class CallSampler:
    """Runs what is new; `known` are facts of this stack, of which `used` were asked for. `device` is the target's. `natives`:
    also what the target leaves to the host's own kernel, which can only show that the sampler invents no errors."""

    device: torch.device = HOST
    known: Mapping[Key, CallFact] = field(default_factory=dict)
    seed: int = 0
    natives: bool = False
    found: list[CallSamples] = field(default_factory=list)
    used: list[CallFact] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    elements: int = 0

    def take(self, key: Key, ways: Ways, call: tuple[Any, Any], module: str, roundings: int, *, shared: bool) -> None:
        """Run the call over all distributions, unless it is the host's own, or known, or there is nothing to draw, or it is
        too large."""
        if not self.natives and self._is_native(ways):
            self.left_out[NATIVE] += 1
            return
        if shared and key in self.known:
            self.used.append(self.known[key])
            return
        why = self._too_much(ways.target, call)
        # Whatever the target can or cannot do, its arguments are looked at on the host.
        call = call if why else placed(call, HOST)
        why = why or _nothing_to_draw(call)
        if why is not None:
            self.left_out[why] += 1
            return
        self.elements += _elements_in(call)
        samples, complaint = [], "no distribution fits it"
        for distribution in DISTRIBUTIONS:
            try:
                samples += self._sample(key, ways, call, distribution, roundings)
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                complaint = f"neither the host's kernel nor float64 takes drawn inputs: {_first_line(error)}"
        self.found.append(CallSamples(*key, module, tuple(samples), roundings, shared, None if samples else complaint))

    def _too_much(self, func: Any, call: tuple[Any, Any]) -> str | None:
        """Why a call is not run at all: it computes nothing, or it is too large."""
        schema = getattr(func, "_schema", None)
        if schema is not None and any(item.alias_info is not None and not item.alias_info.is_write for item in schema.returns):
            return "it only looks at memory in another way"
        size = _elements_in(call)
        if size > CALL_ELEMENTS:
            return f"more than {CALL_ELEMENTS:,} elements in its inputs"
        return f"the run's {RUN_ELEMENTS:,} elements were spent" if self.elements + size > RUN_ELEMENTS else None

    def _is_native(self, ways: Ways) -> bool:
        """Whether the target runs the host's own kernel, by construction."""
        return ways.target is ways.reference and self.device == HOST

    def _on_target(self, ways: Ways, given: tuple[Any, Any]) -> Any:
        there = placed(_copied(given), self.device)
        args, kwargs = tree_map(lambda leaf: self.device if isinstance(leaf, torch.device) else leaf, there)
        return placed(ways.target(*args, **kwargs), HOST)

    def _sample(self, key: Key, ways: Ways, call: tuple[Any, Any], distribution: str, roundings: int) -> list[CallSample]:
        source = generator(self.seed, key, distribution)
        given = drawn(call, DISTRIBUTIONS[distribution], source)
        exact = _exact(ways, given)
        own = _referenced(ways, given)
        native = ways.reference(*own[0], **own[1])
        try:
            target = native if self._is_native(ways) else self._on_target(ways, given)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            return [CallSample(distribution, why=_first_line(error))]
        results = _comparable(ways.reference, given, triples(target, native, exact))
        made = sample_of(distribution, results, roundings)
        if distribution != DENORMAL or made.identical:
            return [made]
        flushed = tree_map(_without_denormals, given)
        again = _comparable(ways.reference, given, triples(target, native, _exact(ways, flushed)))
        return [made, sample_of(distribution, again, roundings, inputs_flushed=True)]


def _elements_in(call: tuple[Any, Any]) -> int:
    return sum(leaf.numel() for leaf in tree_leaves(call) if isinstance(leaf, torch.Tensor))


def _nothing_to_draw(call: tuple[Any, Any]) -> str | None:
    """Why other values of these arguments (on the host) say nothing, or cannot be held against float64."""
    tensors = [leaf for leaf in tree_leaves(call) if isinstance(leaf, torch.Tensor)]
    if any(tensor.is_complex() or tensor.dtype is torch.float64 for tensor in tensors):
        return "its inputs are wider than float32, or complex"
    return None if any(is_drawn(tensor) for tensor in tensors) else "it has no floating argument to draw"


def argument(func: Any, args: Any, kwargs: Any, name: str) -> Any:
    """The value that the call gives the named argument; None when the operator has no such argument."""
    for position, declared in enumerate(func._schema.arguments):
        if declared.name == name:
            return kwargs.get(name, args[position] if position < len(args) else declared.default_value)
    return None


def _referenced(ways: Ways, given: tuple[Any, Any]) -> tuple[Any, Any]:
    """A copy of the arguments that the reference operator takes."""
    args, kwargs = _copied(given)
    return (args, kwargs) if ways.taken is None else (args[: ways.taken], {})


def _exact(ways: Ways, given: tuple[Any, Any]) -> Any:
    args, kwargs = tree_map(_widened, _referenced(ways, given))
    return ways.wide(*args, **kwargs)


def _widened(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.to(torch.float64) if leaf.dtype in DRAWN else leaf
    return torch.float64 if isinstance(leaf, torch.dtype) and leaf in DRAWN else leaf


def _copied(value: Any) -> Any:
    """The same values in memory of their own, for operators write to their arguments; strides stay."""
    return tree_map(_copy, value)


def _copy(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    repeated = any(step == 0 and size > 1 for size, step in zip(leaf.shape, leaf.stride(), strict=True))
    return leaf if repeated else leaf.clone(memory_format=torch.preserve_format)


def _without_denormals(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.dtype not in DRAWN:
        return leaf
    return torch.where(leaf.to(torch.float64).abs() < torch.finfo(leaf.dtype).tiny, torch.zeros_like(leaf), leaf)


def _comparable(func: Any, given: tuple[Any, Any], rows: list[Result]) -> list[Result]:
    """The results, with places of elements replaced by the elements there, in one order where the operator promises none."""
    if not str(func).startswith(ORDERED) or not given[0]:
        return rows
    dim = argument(func, *given, "dim")
    made = [_elements(row, given[0][0], dim) if row[0].dtype is torch.int64 else row for row in rows]
    if argument(func, *given, "sorted") is False:
        made = [(mine.sort(dim)[0], native.sort(dim)[0], wide.sort(dim)[0]) for mine, native, wide in made]
    return made


def _elements(row: Result, values: torch.Tensor, dim: int | None) -> Result:
    """The elements of `values` at the places of a row along the dimension (None: in the flattened values)."""
    laid = values.reshape(-1) if dim is None else values
    along = 0 if dim is None else dim
    mine, native, wide = (
        laid.gather(along, places if places.dim() == laid.dim() else places.unsqueeze(along)) for places in row
    )
    return mine, native, wide.to(torch.float64) if wide.is_floating_point() else wide


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_WHY_CHARACTERS]
