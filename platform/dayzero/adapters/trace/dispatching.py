"""What reaches the dispatcher, noted; what was computed once on shapes is not computed again. For child processes only."""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from dayzero.adapters.trace.counting import bytes_of, flops_of, stored_bytes, tensors_in
from dayzero.adapters.trace.recording import COLLECTIVE, Described, Recorder

_ATEN = torch.ops.aten
_ASKS_FOR_DATA = (_ATEN.nonzero.default, _ATEN._local_scalar_dense.default)
_DISTRIBUTED = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
_GATHERS = ("all_gather",)
_COLLECTIVES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "all_to_all",
    "broadcast": "broadcast",
}  # fmt: skip


class Memo:
    """What each operator gave on arguments of these shapes: the meta device's own answers, kept.

    An operator whose result is new memory depends on meta tensors by shape, stride and dtype alone, so that its answer can be
    made again without its (slow, Python) meta kernel.
    """

    def __init__(self) -> None:
        self.outlines: dict[Hashable, Any] = {}

    def key_of(self, func: Any, args: Any, kwargs: Any) -> Hashable | None:
        """What the answer depends on, or None where that cannot be told."""
        key = (func, *map(_key, args), *((name, _key(value)) for name, value in kwargs.items()))
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def answer(self, key: Hashable | None, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result, made again where it was seen before."""
        outline = self.outlines.get(key) if key is not None else None
        if outline is not None:
            return made_again(outline)
        out = func(*args, **kwargs)
        if key is not None:
            self.outlines[key] = outline_of(func, out)
        return out


def _key(value: Any) -> Any:
    kind = type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        # Conjugate and negative views were resolved above the dispatch modes: these four say it all.
        return (value.shape, value.stride(), value.dtype, value.is_meta)
    if kind is list or kind is tuple:
        return (kind, *map(_key, value))
    if isinstance(value, torch.Tensor):
        return []  # cannot be hashed: a subclass may depend on more than its shape
    return (kind, value)


def outline_of(func: Any, out: Any) -> Any:
    """Shapes, strides and dtypes of a result that is new memory on meta; None where it is anything else."""
    if any(item.alias_info is not None for item in (*func._schema.returns, *func._schema.arguments)):
        return None
    leaves = tensors_in(out)
    if not leaves or any(type(leaf) is not torch.Tensor or not leaf.is_meta for leaf in leaves):
        return None
    return tree_map(
        lambda leaf: (leaf.shape, leaf.stride(), leaf.dtype) if isinstance(leaf, torch.Tensor) else _Plain(leaf), out
    )


class _Plain:
    """A result that is no tensor, kept as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def made_again(outline: Any) -> Any:
    """New meta tensors of that outline."""
    if isinstance(outline, _Plain):
        return outline.value
    if isinstance(outline[0], torch.Size):
        shape, stride, dtype = outline
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    return type(outline)(made_again(item) for item in outline)


class MemoMode(TorchDispatchMode):  # type: ignore[misc]
    """Answers again what was answered before. Used while a model is built: hundreds of layers make the same tables."""

    def __init__(self, memo: Memo) -> None:
        super().__init__()
        self._memo = memo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            key = self._memo.key_of(func, args, kwargs)
            return self._memo.answer(key, func, args, kwargs)


class DispatchRecorder(TorchDispatchMode):  # type: ignore[misc]
    """Notes every operator that reaches the dispatcher (or the collectives alone), and answers the two that ask for data,
    which meta has not."""

    def __init__(self, recorder: Recorder, memo: Memo, *, collectives_only: bool = False) -> None:
        super().__init__()
        self._recorder = recorder
        self._collectives_only = collectives_only
        self._memo = memo
        self._described: dict[Hashable, Described] = {}
        self.samples: dict[Any, tuple[Any, Any]] = {}
        """Each operator with the first arguments that it was called with."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            # The sharded tensor runs the operator on its local part, which then comes here.
            return NotImplemented
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            key = self._memo.key_of(func, args, kwargs)
            out = self._answer(key, func, args, kwargs)
            if self._collectives_only and func.namespace not in _DISTRIBUTED:
                return out
            described = self._described.get(key) if key is not None else None
            if described is None:
                described = self._describe(func, args, kwargs, out)
                self.samples.setdefault(func, (args, kwargs))
                if key is not None:
                    self._described[key] = described
        if described.name:
            self._recorder.note(described)
        return out

    def _describe(self, func: Any, args: Any, kwargs: Any, out: Any) -> Described:
        inputs, outputs = tensors_in((args, kwargs)), tensors_in(out)
        if func.namespace in _DISTRIBUTED:
            return self._collective(func, inputs, outputs)
        flops, moved = flops_of(func, args, kwargs, out), bytes_of(func, args, kwargs, out)
        return self._recorder.describe(str(func), inputs or outputs, flops, moved)

    def _collective(self, func: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Described:
        """A collective by one name for both of torch's interfaces; what only waits for one has no name."""
        plain = func._schema.name.split("::", 1)[1].replace("_", "")
        name = next((name for start, name in _COLLECTIVES.items() if plain.startswith(start)), None)
        if name is None:
            return Described("", (), "", None, None)
        message = outputs if name in _GATHERS else inputs[-1:] if name == "reduce_scatter" else inputs[:1]
        return self._recorder.describe(COLLECTIVE + name, message, None, stored_bytes(message))

    def _answer(self, key: Hashable | None, func: Any, args: Any, kwargs: Any) -> Any:
        if func in _ASKS_FOR_DATA and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            self._recorder.answered[str(func)] += 1
            if func is _ATEN.nonzero.default:
                return torch.empty((1, args[0].dim()), dtype=torch.int64, device="meta")
            return 1.0 if args[0].dtype.is_floating_point else 1
        return self._memo.answer(key, func, args, kwargs)
