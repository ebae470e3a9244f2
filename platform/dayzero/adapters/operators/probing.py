"""Reading torch's dispatcher. Imported by child processes only."""

from collections.abc import Iterable
from typing import Any

import torch
from torch._decomp import decomposition_table

from dayzero.adapters.operators.sampling import parts_of
from dayzero.domain.operators import Decomposition, OperatorManifest, OperatorSupport, SupportKind
from dayzero.domain.verdict import Grade

DISPATCH_KEYS = {"cpu": "CPU", "cuda": "CUDA", "hpu": "HPU", "xpu": "XPU", "mps": "MPS", "xla": "XLA"}
"""The dispatch key of a torch device type (c10/core/DispatchKey.h)."""

OTHER_DISPATCH_KEY = "PrivateUse1"
"""The key of every device that comes with a package of its own, whatever that package calls it (npu, musa, mlu, …)."""

_OUT_COMPOSITE = "CompositeExplicitAutogradNonFunctional"

_STRAYS = 10
"""A torch without a device still has a stray kernel or two under its key (for example CUDA's pinned memory)."""

_COMPOSITE_KEYS = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", _OUT_COMPOSITE)


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
    was run. A torch that was built without the device still tells the composites, which are the same for all.
    """
    key = DISPATCH_KEYS.get(device, OTHER_DISPATCH_KEY)
    overloads = list(_overloads())
    supports = [support for name, _ in overloads if (support := _support(name, key)) is not None]
    supports.sort(key=lambda support: support.name)
    native = sum(support.kind is SupportKind.NATIVE for support in supports)
    unknown = () if native > _STRAYS else (f"this torch has no kernels for {device}: only what it makes of others is told",)
    return OperatorManifest(
        platform or device,
        "torch",
        str(torch.__version__),
        tuple(support for support in supports if native > _STRAYS or support.kind is not SupportKind.NATIVE),
        (*_through_out(overloads, key), *_decompositions(overloads)),
        source="the dispatcher of the installed torch",
        unknown=unknown,
    )


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


def _through_out(overloads: Iterable[tuple[str, Any]], key: str) -> Iterable[Decomposition]:
    """Functional and in-place operators that torch makes of their out variant, where the device has no kernel of their own."""
    known = dict(overloads)
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for qualified, handle in known.items():
        if has(qualified, key) or not has(qualified, _OUT_COMPOSITE):
            continue
        packet = qualified.removeprefix("aten::").partition(".")[0]
        packet = packet.removesuffix("_") if not packet.endswith("__") else packet
        out = _out_variant(handle, getattr(torch.ops.aten, packet, None))
        if out is not None and "aten::" + out in known:
            yield Decomposition(graph_name(qualified), (graph_name(out),))


def _out_variant(handle: Any, packet: Any) -> str | None:
    """`add.out` for add.Tensor and add_.Tensor: the overload with the same arguments and an out one more."""
    wanted = _plain_arguments(handle)
    for overload in packet.overloads() if packet is not None else ():
        schema = getattr(packet, overload)._schema
        outs = [argument for argument in schema.arguments if argument.is_out]
        plain = [argument for argument in schema.arguments if not argument.is_out]
        if outs and [(argument.name, str(argument.type)) for argument in plain] == wanted:
            return str(schema.name).removeprefix("aten::") + (f".{overload}" if overload != "default" else "")
    return None


def _plain_arguments(handle: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in handle._schema.arguments]


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
