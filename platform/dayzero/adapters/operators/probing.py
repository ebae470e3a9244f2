"""Reading torch's dispatcher. Imported by child processes only."""

from collections.abc import Iterable
from typing import Any

import torch
from torch._decomp import decomposition_table

from dayzero.adapters.operators.sampling import parts_of
from dayzero.domain.operators import Decomposition, OperatorManifest, OperatorSupport, SupportKind
from dayzero.domain.verdict import Grade

DISPATCH_KEYS = {"cpu": "CPU", "cuda": "CUDA", "npu": "PrivateUse1", "hpu": "HPU", "xpu": "XPU", "mps": "MPS"}
"""The dispatch key of a torch device type (c10/core/DispatchKey.h)."""

_COMPOSITE_KEYS = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")


_SAFE_COMPOSITES = frozenset(
    "aten::" + name
    for name in (
        "argsort", "chunk", "conv1d", "layer_norm", "linear", "log_softmax.int", "matmul", "reshape", "rms_norm",
        "scaled_dot_product_attention", "softmax.int",
    )
)  # fmt: skip
"""Composites of C++ that are run on a sample; others crash the process on arguments that do not fit."""


def torch_manifest(device: str = "cpu", platform: str | None = None) -> OperatorManifest:
    """What the dispatcher declares for every ATen operator on a device, with the decompositions that torch brings.

    Native: a kernel is registered for the device's own key. Composite: torch makes it of others. Grade declared: nothing
    was run. KeyError for a device type whose dispatch key is not known.
    """
    key = DISPATCH_KEYS[device]
    overloads = list(_overloads())
    supports = [support for name, _ in overloads if (support := _support(name, key)) is not None]
    supports.sort(key=lambda support: support.name)
    return OperatorManifest(platform or device, "torch", str(torch.__version__), tuple(supports), _decompositions(overloads))


def _overloads() -> Iterable[tuple[str, Any]]:
    """Every ATen overload: its dispatcher name and its Python handle."""
    for qualified in sorted(torch._C._dispatch_get_all_op_names()):
        if not qualified.startswith("aten::"):
            continue
        base, _, overload = qualified.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, base, None)
        handle = getattr(packet, overload or "default", None)
        if handle is not None:
            yield qualified, handle


def graph_name(qualified: str) -> str:
    """aten::add.Tensor and aten::mm by the names that graphs carry: aten.add.Tensor, aten.mm.default."""
    base, _, overload = qualified.removeprefix("aten::").partition(".")
    return f"aten.{base}.{overload or 'default'}"


def _support(qualified: str, key: str) -> OperatorSupport | None:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if has(qualified, key):
        return OperatorSupport(graph_name(qualified), SupportKind.NATIVE, Grade.DECLARED)
    composite = next((name for name in _COMPOSITE_KEYS if has(qualified, name)), None)
    if composite is None:
        return None
    return OperatorSupport(graph_name(qualified), SupportKind.COMPOSITE, Grade.DECLARED, constraints=(composite,))


def _decompositions(overloads: Iterable[tuple[str, Any]]) -> tuple[Decomposition, ...]:
    """Decompositions of torch's own table, and of composites that models use, seen on a sample each.

    Other arguments may take other parts; an operator for which no sample was found is left out.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found: list[Decomposition] = []
    for qualified, handle in overloads:
        run = decomposition_table.get(handle)
        if run is None and qualified in _SAFE_COMPOSITES and has(qualified, "CompositeImplicitAutograd"):
            run = handle
        if run is None or _writes(handle):
            continue
        parts = parts_of(handle, run)
        name = graph_name(qualified)
        if parts and name not in parts:
            found.append(Decomposition(name, parts))
    return tuple(sorted(found, key=lambda rule: rule.name))


def _writes(handle: Any) -> bool:
    return any(item.alias_info is not None and item.alias_info.is_write for item in handle._schema.arguments)
