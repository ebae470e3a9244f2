"""Recording graph uses: what reaches the dispatcher, and the composites above it. Imported by child processes only."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from dayzero.domain.operators import GraphUse, Phase

TOKENS = 521
"""Tokens of the traced prefill, and the context of the traced decode step: a prime, so that it shows in every shape."""


@dataclass(frozen=True, slots=True)
class UseKey:
    """What makes two calls the same use."""

    name: str
    dtypes: tuple[str, ...]
    shape_class: str
    phase: Phase


@dataclass
class Tally:
    """Calls, FLOPs and bytes of one use, with the modules that made them."""

    calls: int = 0
    flops: int | None = None
    bytes_moved: int | None = None
    modules: set[str] = field(default_factory=set)


class Recorder:
    """Everything seen so far. `modules` is the stack of module paths that run now."""

    def __init__(self) -> None:
        self.phase = Phase.PREFILL
        self.modules: list[str] = []
        self.calls: list[tuple[UseKey, int | None, int | None, str]] = []
        self.answered: Counter[str] = Counter()
        self.inside_composite = 0

    def note(self, name: str, tensors: Sequence[Any], flops: int | None, moved: int | None) -> None:
        """One call of an operator on those tensors."""
        dtypes = tuple(dict.fromkeys(str(tensor.dtype).removeprefix("torch.") for tensor in tensors))
        shapes = ",".join(_shape(tensor.shape, self.phase) for tensor in tensors)
        self.calls.append((UseKey(name, dtypes, shapes, self.phase), flops, moved, self.modules[-1] if self.modules else ""))

    def uses(self) -> tuple[GraphUse, ...]:
        """The calls, summed up by use and sorted."""
        tallies: dict[UseKey, Tally] = {}
        for key, flops, moved, module in self.calls:
            tally = tallies.setdefault(key, Tally())
            tally.calls += 1
            tally.flops = _sum(tally.flops, flops)
            tally.bytes_moved = _sum(tally.bytes_moved, moved)
            tally.modules.add(module)
        rows = [
            GraphUse(key.name, key.dtypes, key.shape_class, key.phase, tally.calls, tuple(sorted(tally.modules)),
                     tally.flops, tally.bytes_moved)
            for key, tally in tallies.items()
        ]  # fmt: skip
        return tuple(sorted(rows, key=lambda use: (use.phase, use.name, use.shape_class, use.dtypes)))


class DispatchRecorder(TorchDispatchMode):  # type: ignore[misc]
    """Notes every operator that reaches the dispatcher, and answers the two that ask for data, which meta has not."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = _tensors((args, kwargs))
        out = self._answer(func, args, kwargs, inputs)
        outputs = _tensors(out)
        # Inside a composite the FLOPs are the composite's, or they would be counted twice.
        flops = 0 if self._recorder.inside_composite else _flops(func, args, kwargs, out)
        self._recorder.note(str(func), inputs or outputs, flops, 0 if _is_view(func) else _bytes((*inputs, *outputs)))
        return out

    def _answer(self, func: Any, args: Any, kwargs: Any, inputs: Sequence[Any]) -> Any:
        on_meta = any(tensor.is_meta for tensor in inputs)
        if on_meta and func is torch.ops.aten.nonzero.default:
            self._recorder.answered["aten.nonzero.default"] += 1
            return torch.empty((1, args[0].dim()), dtype=torch.int64, device="meta")
        if on_meta and func is torch.ops.aten._local_scalar_dense.default:
            self._recorder.answered["aten._local_scalar_dense.default"] += 1
            return 1.0 if args[0].dtype.is_floating_point else 1
        return func(*args, **kwargs)


class CompositeRecorder(TorchFunctionMode):  # type: ignore[misc]
    """Notes fused composites by their own name, above the parts that the dispatcher sees."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        composite = _COMPOSITES.get(func)
        if composite is None:
            return func(*args, **kwargs)
        name, formula = composite
        self._recorder.inside_composite += 1
        try:
            out = func(*args, **kwargs)
        finally:
            self._recorder.inside_composite -= 1
        inputs = _tensors((args, kwargs))
        self._recorder.note(name, inputs, formula(inputs), _bytes((*inputs, *_tensors(out))))
        return out


def _sdpa_flops(inputs: Sequence[Any]) -> int:
    """2·b·h·q·kv·(dk + dv), no discount for causal masks (FlashAttention-2 paper, section 4.1, forward)."""
    query, key, value = inputs[:3]
    batch, heads, queries, width = query.shape
    return int(2 * batch * heads * queries * key.shape[-2] * (width + value.shape[-1]))


_COMPOSITES: dict[Any, tuple[str, Callable[[Sequence[Any]], int | None]]] = {
    torch.nn.functional.scaled_dot_product_attention: ("aten.scaled_dot_product_attention.default", _sdpa_flops),
    torch.nn.functional.rms_norm: ("aten.rms_norm.default", lambda inputs: None),
}


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> int | None:
    """FLOPs by torch's own formulas; those of a grouped product are 2·tokens·k·n, which torch's counter leaves out."""
    packet = func._overloadpacket
    if packet is torch.ops.aten._grouped_mm:
        left, right = args[0], args[1]
        if left.dim() == 2 and right.dim() == 3:
            return 2 * int(left.shape[0]) * int(left.shape[1]) * int(right.shape[2])
        return None
    formula = flop_registry.get(packet)
    return None if formula is None else int(formula(*args, **kwargs, out_val=out))


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(item.alias_info is not None and not item.alias_info.is_write for item in returns)


def _tensors(tree: Any) -> tuple[Any, ...]:
    return tuple(leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _bytes(tensors: Iterable[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _sum(left: int | None, right: int | None) -> int | None:
    return left if right is None else right + (left or 0)


def _shape(shape: Sequence[int], phase: Phase) -> str:
    return "(" + ",".join(_size(int(size), phase) for size in shape) + ")"


def _size(size: int, phase: Phase) -> str:
    """A size in words: T stands for the traced tokens and S for the context of a decode step with its new token."""
    if phase is Phase.DECODE and size == TOKENS + 1:
        return "S"
    if size and size % TOKENS == 0:
        return "T" if size == TOKENS else f"{size // TOKENS}T"
    return str(size)
