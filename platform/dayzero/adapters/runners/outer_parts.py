"""What stands outside of the layers, each part compared on its own: embeddings, rotary tables, masks, final norm, head.

Layers are called with the tables and masks of their own model; where the target's are wrong, its layers get the reference's,
so that a layer is blamed for nothing but itself.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from dayzero.adapters.runners import rotary_variants
from dayzero.adapters.runners.figures import dtype_name, tensor_error
from dayzero.adapters.runners.heads import final_norm
from dayzero.adapters.runners.placing import fetched, placed
from dayzero.adapters.runners.three_ways import run_layer, run_wide, widened
from dayzero.domain.observations import Part, PartError
from dayzero.errors import BlockedError
from dayzero.stages.precision import limits as precision

TABLES, MASK = "position_embeddings", "attention_mask"
Kwargs = list[dict[str, Any]]


def module_path(model: Any, module: Any) -> str:
    """The module's path in the model; its class where it is no part of it."""
    return next((name for name, found in model.named_modules() if found is module), type(module).__name__)


def embeddings(model: Any, hidden: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> PartError:
    """What enters the first layer in higher precision, on the target and in native dtype."""
    exact, by_target, by_native = hidden
    try:
        path = module_path(model, model.get_input_embeddings())
    except NotImplementedError:
        path = f"{type(model).__name__} (before its layers)"
    return PartError(Part.EMBEDDINGS, path, tensor_error(fetched(by_target), exact), tensor_error(by_native, exact))


def layer_inputs(native: Any, wide: Kwargs, target: Kwargs, plain: Kwargs, positions: torch.Tensor) -> tuple[PartError, ...]:
    """Rotary tables and masks as the layers get them at those positions, each distinct one with the layers that share it."""
    tables = [_tables_error(native, *three, positions) for three in _groups(TABLES, wide, target, plain)]
    masks = [_mask_error(native, *three, positions) for three in _groups(MASK, wide, target, plain)]
    return tuple(error for error in (*tables, *masks) if error is not None)


def corrected(target: Kwargs, plain: Kwargs, parts: tuple[PartError, ...], dtype: torch.dtype, device: torch.device) -> Kwargs:
    """The target's keyword arguments, with the native reference's in place of tables and masks that stand out."""
    fixed = [dict(kwargs) for kwargs in target]
    for error in parts:
        if not precision.part_line(error, dtype_name(dtype)).stands_out or error.part not in (Part.ROTARY, Part.MASK):
            continue
        name = TABLES if error.part is Part.ROTARY else MASK
        for index in error.layers:
            fixed[index][name] = placed(plain[index][name], device)
    return fixed


def after_layers(native: Any, target: Any, exact_hidden: torch.Tensor, dtype: torch.dtype) -> tuple[PartError, ...]:
    """Final norm and head, each given the reference's input to it."""
    try:
        norms = final_norm(native), final_norm(target)
    except BlockedError as error:
        print(f"final norm: {error.message}")
        return ()
    found = [_module_error(Part.FINAL_NORM, native, *norms, exact_hidden, dtype)]
    heads = native.get_output_embeddings(), target.get_output_embeddings()
    if None not in heads:
        wide = widened(norms[0], exact_hidden.dtype)
        found.append(_module_error(Part.HEAD, native, *heads, run_wide(wide, exact_hidden, {}), dtype))
    return tuple(found)


def _module_error(part: Part, native: Any, ours: Any, theirs: Any, exact_hidden: torch.Tensor, dtype: torch.dtype) -> PartError:
    given = exact_hidden.to(dtype)
    device = next(theirs.parameters()).device
    exact = run_wide(widened(ours, exact_hidden.dtype), given.to(exact_hidden.dtype), {})
    by_target = fetched(run_layer(theirs, placed(given, device), {}))
    return PartError(
        part, module_path(native, ours), tensor_error(by_target, exact), tensor_error(run_layer(ours, given, {}), exact)
    )


def _groups(name: str, wide: Kwargs, target: Kwargs, plain: Kwargs) -> Iterator[tuple[Any, Any, Any, tuple[int, ...]]]:
    """Distinct values of that name over the layers: those of the three runs, and the layers that share them."""
    shared: dict[tuple[int, ...], list[int]] = {}
    for index, three in enumerate(zip(wide, target, plain, strict=True)):
        if all(name in kwargs for kwargs in three):
            shared.setdefault(tuple(id(kwargs[name]) for kwargs in three), []).append(index)
    for indices in shared.values():
        first = indices[0]
        yield wide[first][name], target[first][name], plain[first][name], tuple(indices)


def _tables_error(
    native: Any, wide: Any, target: Any, plain: Any, layers: tuple[int, ...], positions: torch.Tensor
) -> PartError | None:
    exact, ours, theirs = (_floats(value) for value in (wide, target, plain))
    if not exact or not len(exact) == len(ours) == len(theirs):
        return None
    joined = [
        torch.cat([fetched(leaf).to(exact[0].dtype).flatten(0, -2) for leaf in found], -1) for found in (exact, ours, theirs)
    ]
    rotary = getattr(native.base_model, "rotary_emb", None)
    path = module_path(native, rotary) if rotary is not None else TABLES
    target_error, native_error = tensor_error(joined[1], joined[0]), tensor_error(joined[2], joined[0])
    error = PartError(Part.ROTARY, path, target_error, native_error, layers)
    if rotary is None or not precision.part_line(error, dtype_name(theirs[0].dtype)).stands_out:
        return error
    suspected = rotary_variants.of_tables(rotary, [fetched(leaf) for leaf in ours], positions)
    return PartError(Part.ROTARY, path, target_error, native_error, layers, suspected)


def _floats(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _mask_error(
    native: Any, wide: Any, target: Any, plain: Any, layers: tuple[int, ...], positions: torch.Tensor
) -> PartError | None:
    given = [None if mask is None else fetched(mask) for mask in (wide, target, plain)]
    keys = next((mask.shape[-1] for mask in given if mask is not None), int(positions.max()) + 1)
    masks = [allowed(mask, positions, keys) for mask in given]
    if any(mask is None for mask in masks):
        return None
    exact, ours, theirs = (mask.to(torch.float64) for mask in masks if mask is not None)
    if not exact.shape == ours.shape == theirs.shape:
        return None
    path = f"{module_path(native, native.base_model)} (mask)"
    return PartError(Part.MASK, path, tensor_error(ours, exact), tensor_error(theirs, exact), layers)


def allowed(mask: Any, positions: torch.Tensor, keys: int) -> torch.Tensor | None:
    """Which of the last keys each query at those positions sees, [queries, keys]; None: a mask of another kind.

    No mask is a causal one.
    """
    if mask is None:
        first = int(positions.max()) + 1 - keys
        return torch.arange(first, first + keys)[None] <= positions.flatten()[:, None]
    if not isinstance(mask, torch.Tensor) or mask.dim() != 4:
        return None
    seen = mask if mask.dtype is torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return seen[0, 0, :, :]
