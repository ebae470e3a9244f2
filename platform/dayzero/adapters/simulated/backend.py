"""The device as torch knows it: set up once a process, by name (entry-point group dayzero.devices)."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._device import _device_constructors
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from dayzero.adapters.simulated.tensor import Machine
from dayzero.adapters.simulated.unit import graph_name
from dayzero.domain.operators import OperatorSupport, SupportKind
from dayzero.domain.platforms import Device
from dayzero.domain.verdict import Grade
from dayzero.errors import BadInputError

HOST_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
"""Where the kernels that the unit runs come from."""
_FACTORIES = ("tensor", "as_tensor")
"""Functions that torch cannot call for a device in Python (an internal assertion); they are made on the host and moved."""


class BackendModule(_DummyBackendModule):  # type: ignore[misc]
    """torch.simnpu: what code asks an accelerator's module for."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def memory_allocated(self, _device: object = None) -> int:
        """Bytes that tensors of the device hold now."""
        return self._machine.memory.used_bytes

    def max_memory_allocated(self, _device: object = None) -> int:
        """The most that they ever held at once."""
        return self._machine.memory.peak_bytes

    def executed(self) -> dict[str, int]:
        """How often each operator ran on the device, also beneath others, by graph name."""
        return dict(self._machine.unit.executed)

    def synchronize(self, _device: object = None) -> None:
        """Nothing runs behind the caller's back."""


class SimulatedBackend:
    """The plugin `simnpu`. `install` may be called once a process, for torch has one place for such a device."""

    name = "simnpu"

    def __init__(self) -> None:
        self._machine: Machine | None = None
        self._libraries: list[torch.library.Library] = []

    def install(self, device: Device) -> None:
        """Make the device known to torch, with what it lacks; BadInputError when another one is there."""
        if self._machine is not None:
            if self._machine.unit.device != device:
                raise BadInputError("another simulated device is set up in this process.", remedy="Take a process for each.")
            return
        machine = Machine(device)
        _setup_privateuseone_for_python_backend(device.torch_device, backend_module=BackendModule(machine))
        everything = torch.library.Library("_", "IMPL")
        everything.fallback(machine.dispatch, "PrivateUse1")
        self._libraries.append(everything)
        self._refuse_masked(machine, device)
        # A device context (`with torch.device("meta")`) knows factories by identity, from its first use on: those of torch.
        _device_constructors()
        for name in _FACTORIES:
            setattr(torch, name, _moved(getattr(torch, name), machine))
        self._machine = machine

    def support(self, qualified: str) -> OperatorSupport | None:
        """What the device says of an ATen operator; None: it has no kernel of it."""
        assert self._machine is not None, "installed before it is asked"
        unit = self._machine.unit
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if unit.reason(qualified) is not None:
            return None
        dtypes = unit.dtypes_of(qualified)
        if has(qualified, "CompositeImplicitAutograd"):
            return OperatorSupport(graph_name(qualified), SupportKind.COMPOSITE, Grade.DECLARED, dtypes)
        if any(has(qualified, key) for key in HOST_KEYS):
            return OperatorSupport(graph_name(qualified), SupportKind.NATIVE, Grade.DECLARED, dtypes)
        return None

    def _refuse_masked(self, machine: Machine, device: Device) -> None:
        """A kernel that refuses stands where one is missing, or torch would make a composite of the missing one unseen."""
        library = torch.library.Library("aten", "IMPL")
        for name in device.masked_operators:
            namespace, base, *_ = name.split(".")
            packet = getattr(getattr(torch.ops, namespace), base, None)
            for overload in packet.overloads() if packet is not None else ():
                operator = getattr(packet, overload)
                with warnings.catch_warnings():
                    # torch itself has kernels for some (autocast) and says that they are replaced.
                    warnings.simplefilter("ignore")
                    library.impl(operator, _refusal(machine, operator), "PrivateUse1")
        self._libraries.append(library)


def _refusal(machine: Machine, operator: Any) -> Callable[..., None]:
    def refuse(*args: Any, **kwargs: Any) -> None:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        machine.unit.refuse(operator, tensors, machine.unit.reason(operator.name()) or "masked")

    return refuse


def _moved(make: Callable[..., Any], machine: Machine) -> Callable[..., Any]:
    def made(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != machine.name:
            return make(data, *args, device=device, **kwargs)
        return make(data, *args, **kwargs).to(device)

    return made


PLUGIN = SimulatedBackend()
