"""Tensors of the device, and how an operator on them reaches the unit."""

from typing import Any

import torch

from dayzero.adapters.simulated.memory import DeviceMemory
from dayzero.adapters.simulated.unit import DEVICE_KEY, Unit, graph_name, has_own, mapped, tensors_in
from dayzero.domain.platforms import Device

TRANSFERS = frozenset({"aten._to_copy.default", "aten.copy_.default", "aten._copy_from.default"})
"""Operators that may see tensors of host and device at once."""
HOST_INDICES = frozenset(
    {"aten.index.Tensor", "aten.index_put_.default", "aten.index_put.default", "aten._index_put_impl_.default"}
)


class SimulatedTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor of the device: the sizes that torch sees, its bytes on the host, and its share of the device's memory."""

    machine: "Machine"
    host: torch.Tensor
    held: object

    @staticmethod
    def __new__(cls, host: torch.Tensor, machine: "Machine") -> "SimulatedTensor":
        """Wrap a host tensor as one of the device; OutOfMemoryError."""
        held = machine.memory.hold(host)
        tensor: SimulatedTensor = torch.Tensor._make_wrapper_subclass(
            cls, host.size(), strides=host.stride(), storage_offset=host.storage_offset(), dtype=host.dtype,
            device=machine.torch_device, requires_grad=False,
        )  # fmt: skip
        tensor.host, tensor.machine, tensor.held = host, machine, held
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        machine = next(leaf.machine for leaf in tensors_in((args, kwargs)) if isinstance(leaf, SimulatedTensor))
        return machine.dispatch(func, *args, **(kwargs or {}))

    def __repr__(self) -> str:
        return f"SimulatedTensor({self.host!r}, device='{self.device}')"


class Machine:
    """One simulated device: its memory and its unit."""

    def __init__(self, device: Device) -> None:
        self.name = device.torch_device
        self.memory = DeviceMemory(device)
        self.unit = Unit(device)

    @property
    def torch_device(self) -> torch.device:
        """The device by the name that torch learns when the backend is set up."""
        return torch.device(self.name, 0)

    def dispatch(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        """An operator on tensors of the device, or one that makes some: by a registered kernel, in parts, or by the unit."""
        if torch.is_inference_mode_enabled():
            # Host tensors made outside of inference mode have versions, which views made inside of it cannot share.
            with torch.inference_mode(False), torch.no_grad():
                return self.dispatch(operator, *args, **kwargs)
        name = operator.name()
        if has_own(name):
            return operator._op_dk(DEVICE_KEY, *args, **kwargs)
        leaves = tensors_in((args, kwargs))
        self._check(operator, leaves)
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
            return operator.decompose(*args, **kwargs)
        self._require(args, kwargs, leaves)
        given = {id(leaf.host): leaf for leaf in leaves if isinstance(leaf, SimulatedTensor)}
        to_host = _is_host(kwargs.get("device")) or not (given or _names_device(kwargs))
        host_args, host_kwargs = mapped(self._unwrap, (args, kwargs))
        out = self.unit.run(operator, host_args, host_kwargs)
        wrapped = mapped(lambda value: self._wrap(value, given, to_host), out)
        self._check_dtypes(operator, [leaf for leaf in tensors_in(wrapped) if isinstance(leaf, SimulatedTensor)])
        return wrapped

    def _check(self, operator: Any, leaves: list[torch.Tensor]) -> None:
        ours = [leaf for leaf in leaves if isinstance(leaf, SimulatedTensor)]
        self.unit.admit(operator, ours if graph_name(operator.name()) not in TRANSFERS else [])
        if torch.Tag.inplace_view in operator.tags:
            self.unit.refuse(operator, ours, "it changes a tensor's sizes in place")
        strangers = [leaf for leaf in leaves if not isinstance(leaf, SimulatedTensor) and leaf.dim()]
        if strangers and graph_name(operator.name()) not in TRANSFERS | HOST_INDICES:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {operator.name()} got {strangers[0].device} "
                f"beside {self.torch_device}"
            )

    def _check_dtypes(self, operator: Any, made: list["SimulatedTensor"]) -> None:
        known = self.unit.dtypes_of("aten::empty.memory_format")
        for tensor in made:
            if str(tensor.dtype).removeprefix("torch.") not in known:
                self.unit.refuse(operator, [tensor], f"a tensor of it cannot be on the device; it knows {', '.join(known)}")

    def _require(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[torch.Tensor]) -> None:
        """Before a factory asks the host for memory that the device does not have."""
        if leaves or not args or not isinstance(args[0], list | tuple) or not all(isinstance(size, int) for size in args[0]):
            return
        width = (kwargs.get("dtype") or torch.get_default_dtype()).itemsize
        self.memory.require(torch.Size(args[0]).numel() * width)

    def _unwrap(self, value: Any) -> Any:
        if isinstance(value, SimulatedTensor):
            return value.host
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == self.name else value

    def _wrap(self, value: Any, given: dict[int, "SimulatedTensor"], to_host: bool) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, SimulatedTensor):
            return value
        known = given.get(id(value))
        return known if known is not None else value if to_host else SimulatedTensor(value, self)


def _is_host(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cpu"


def _names_device(kwargs: dict[str, Any]) -> bool:
    return kwargs.get("device") is not None and not _is_host(kwargs["device"])
