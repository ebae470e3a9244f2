"""What executes on the device, and what refuses to: every operator, also those that a kernel calls beneath itself."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dayzero.adapters.simulated.kernels import own_kernel
from dayzero.domain.platforms import Device

HOST_KERNELS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
DEVICE_KEY = torch._C.DispatchKey.PrivateUse1
INTEGERS = ("bool", "int64", "int32", "int16", "int8", "uint8")
"""Indices, masks and counters: every device has them."""
FOREIGN = ("cudnn", "cuda", "miopen", "mkldnn", "onednn", "_for_cpu", "mps", "xpu", "vulkan")
"""Parts of the names of operators that are another device's own."""


@lru_cache(maxsize=4096)
def graph_name(qualified: str) -> str:
    """aten::add.Tensor and aten::mm by the names that graphs carry: aten.add.Tensor, aten.mm.default."""
    namespace, _, rest = qualified.partition("::")
    base, _, overload = rest.partition(".")
    return f"{namespace}.{base}.{overload or 'default'}"


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors among an operator's arguments, which are values or flat lists of them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [tensor for item in value for tensor in tensors_in(item)]


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """The same tuple, list or dictionary with each value changed; a named tuple (torch.return_types) becomes a plain one."""
    if isinstance(value, dict):
        return {key: mapped(change, item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(mapped(change, item) for item in value)
    return [mapped(change, item) for item in value] if isinstance(value, list) else change(value)


def has_own(qualified: str) -> bool:
    """Whether torch.library holds a kernel for the device: a bridge, or the refusal that stands where one is missing."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(qualified, "PrivateUse1"))


class Unit(TorchDispatchMode):  # type: ignore[misc]
    """Runs kernels on host memory and sees each operator that they call in turn, so that a masked one cannot hide in another.

    A masked operator is masked in all its overloads: they share a kernel. Counts what it ran by graph name.
    """

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self._masked: Mapping[str, str] = {_packet(name): reason for name, reason in device.masked_operators.items()}
        self._dtypes = {_packet(name): dtypes for name, dtypes in device.operator_dtypes.items()}
        self.executed: dict[str, int] = {}
        self._reasons: dict[str, str | None] = {}

    def reason(self, qualified: str) -> str | None:
        """Why the device has no kernel of that operator; None when it has one."""
        if qualified not in self._reasons:
            packet = _packet(graph_name(qualified))
            foreign = next((f"it is another device's operator ({part.strip('_')})" for part in FOREIGN if part in packet), None)
            self._reasons[qualified] = self._masked.get(packet, foreign)
        return self._reasons[qualified]

    def dtypes_of(self, qualified: str) -> tuple[str, ...]:
        """The dtypes that the operator works in."""
        return self._dtypes.get(_packet(graph_name(qualified)), (*self.device.dtypes, *INTEGERS))

    def refuse(self, operator: Any, tensors: Iterable[Any], reason: str) -> None:
        """Raise what a missing kernel raises: NotImplementedError with operator, dtypes and device."""
        dtypes = ", ".join(dict.fromkeys(_dtype(tensor) for tensor in tensors)) or "no tensor"
        raise NotImplementedError(
            f"Could not run '{operator.name()}' with {dtypes} on '{self.device.torch_device}': no kernel for it ({reason})"
        )

    def admit(self, operator: Any, tensors: list[Any]) -> None:
        """NotImplementedError when the device has no kernel of that operator, or none in those dtypes."""
        reason = self.reason(operator.name())
        if reason is not None:
            self.refuse(operator, tensors, reason)
        known = self.dtypes_of(operator.name())
        unfit = next((_dtype(tensor) for tensor in tensors if _dtype(tensor) not in known), None)
        if unfit is not None:
            self.refuse(operator, tensors, f"{unfit} is none of {', '.join(known)}")

    def run(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operator on host tensors, by the device's own kernel where it has one."""
        with self:
            return operator(*args, **kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.reason(func.name()) is not None and has_own(func.name()):
            # Beneath another kernel: a bridge answers in its place, and where there is none the refusal does.
            with self:
                return func._op_dk(DEVICE_KEY, *args, **kwargs)
        # Scalars come as tensors without dimensions, float64 among them, which are no values of the device.
        self.admit(func, [tensor for tensor in tensors_in((args, kwargs)) if tensor.dim()])
        name = graph_name(func.name())
        self.executed[name] = self.executed.get(name, 0) + 1
        kernel = own_kernel(func, args)
        if kernel is not None:
            return kernel(*args, **kwargs)
        if func is torch.ops.aten.detach.default:
            # It asks every mode for a copy of the tensor, by this same operator.
            return func.redispatch(HOST_KERNELS, *args, **kwargs)
        if torch.Tag.pointwise in func.tags and any(isinstance(arg, int | float) for arg in args):
            # A number in a tensor's place needs the whole dispatcher; such kernels call no other.
            return func(*args, **kwargs)
        with self:
            return func.redispatch(HOST_KERNELS, *args, **kwargs)


def _packet(name: str) -> str:
    """aten.topk for aten.topk.default and for aten.topk.values."""
    return ".".join(name.split(".")[:2])


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
