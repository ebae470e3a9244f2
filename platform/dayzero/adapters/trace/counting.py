"""FLOPs and bytes of one operator call, by its tensors' shapes. Imported by child processes only."""

from collections.abc import Iterable
from math import prod
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

_ATEN = torch.ops.aten
_ROWS = frozenset({
    "embedding", "index", "gather", "index_select", "take", "take_along_dim", "_unsafe_index", "slice_backward",
})  # fmt: skip
"""Operators that read of their first tensor no more than they give back."""

_WRITES_PARTS = frozenset({
    "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "index_put", "index_put_",
    "_index_put_impl_", "_unsafe_index_put", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill",
    "index_fill_",
})  # fmt: skip
"""Operators that touch of their first tensor no more than they are given values for."""

_FREE = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "_local_scalar_dense"})


def flops_of(func: Any, args: Any, kwargs: Any, out: Any) -> int | None:
    """FLOPs by torch's own formulas, None where it has none; grouped products, which torch's counter leaves out, by ours."""
    packet = func._overloadpacket
    if packet is _ATEN._grouped_mm:
        return _grouped_flops(args[0], args[1])
    formula = flop_registry.get(packet)
    return None if formula is None else int(formula(*args, **kwargs, out_val=out))


def _grouped_flops(left: Any, right: Any) -> int:
    """2·rows·k·n in every arrangement: each row of a group meets the one matrix of its group (2D by 3D, 3D by 2D), two
    2D tensors share the rows that they are summed over, two 3D ones are a batched product."""
    if left.dim() == 3 and right.dim() == 3:
        return 2 * prod(map(int, left.shape)) * int(right.shape[-1])
    if left.dim() == 3:
        return 2 * int(left.shape[1]) * int(left.shape[2]) * int(right.shape[-1])
    return 2 * prod(map(int, left.shape)) * int(right.shape[-1])


def bytes_of(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """Bytes that the call must read and write at least: each stored element once; views move nothing.

    Look-ups and scatters count the rows that they touch, not the table; a grouped product at most one matrix a row.
    """
    name = func._schema.name.removeprefix("aten::")
    if is_view(func) or name in _FREE:
        return 0
    inputs, outputs = tensors_in((args, kwargs)), tensors_in(out)
    if not inputs or name in ("fill_", "zero_", "copy_"):
        written = stored_bytes(outputs)
        return written + (stored_bytes(inputs[1:]) if name == "copy_" else 0)
    if name in _ROWS:
        return 2 * stored_bytes(outputs) + stored_bytes(inputs[1:])
    if name in _WRITES_PARTS:
        values = stored_bytes(inputs[-1:])
        whole = 0 if name.endswith("_") else stored_bytes(inputs[:1]) + stored_bytes(outputs)
        return whole + values * (3 if "add" in name or "reduce" in name else 2) + stored_bytes(inputs[1:-1])
    if func._overloadpacket is _ATEN._grouped_mm and args[0].dim() == 2 and args[1].dim() == 3:
        rows, groups = int(args[0].shape[0]), int(args[1].shape[0])
        matrices = stored_bytes(args[1:2]) * min(rows, groups) // groups
        return stored_bytes(args[:1]) + matrices + stored_bytes(inputs[2:]) + stored_bytes(outputs)
    return stored_bytes(inputs) + stored_bytes(outputs)


def is_view(func: Any) -> bool:
    """Whether the operator's results all share their argument's memory."""
    returns = func._schema.returns
    return bool(returns) and all(item.alias_info is not None and not item.alias_info.is_write for item in returns)


def tensors_in(tree: Any) -> tuple[Any, ...]:
    """Every tensor of a tree of arguments, in order."""
    return tuple(leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def stored_bytes(tensors: Iterable[Any]) -> int:
    """Bytes of the elements that are stored: a size that an expansion repeats counts once."""
    return sum(
        prod(int(size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0 or size == 0)
        * tensor.element_size()
        for tensor in tensors
    )


def attention_flops(inputs: Any) -> int:
    """2·b·h·q·kv·(dk + dv), no discount for causal masks (FlashAttention-2 paper, section 4.1, forward)."""
    query, key, value = inputs[:3]
    *batch, heads, queries, width = query.shape
    return int(2 * prod(batch) * heads * queries * key.shape[-2] * (width + value.shape[-1]))
