"""The device's memory: every storage counted once, however many tensors look at it, up to a limit."""

from weakref import WeakValueDictionary

import torch

from dayzero.domain.platforms import Device


class Held:
    """Bytes of one storage; they are free again when the last tensor that looks at it is gone."""

    def __init__(self, memory: "DeviceMemory", size_bytes: int) -> None:
        self.memory, self.size_bytes = memory, size_bytes

    def __del__(self) -> None:
        self.memory.used_bytes -= self.size_bytes


class DeviceMemory:
    """Counts what tensors of the device hold. What a kernel needs while it runs is not counted, as on real devices a
    workspace is not."""

    def __init__(self, device: Device) -> None:
        self.name, self.limit_bytes = device.torch_device, device.memory_bytes
        self.used_bytes = self.peak_bytes = 0
        self._held: WeakValueDictionary[int, Held] = WeakValueDictionary()

    def hold(self, tensor: torch.Tensor) -> Held:
        """Count the tensor's storage, or find it counted. OutOfMemoryError with the numbers when it does not fit."""
        storage = tensor.untyped_storage()
        known = self._held.get(storage.data_ptr())
        if known is not None and storage.nbytes():
            return known
        self.require(storage.nbytes())
        held = Held(self, storage.nbytes())
        self.used_bytes += held.size_bytes
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        if held.size_bytes:
            self._held[storage.data_ptr()] = held
        return held

    def require(self, size_bytes: int) -> None:
        """OutOfMemoryError unless so many more bytes fit."""
        if self.limit_bytes is not None and self.used_bytes + size_bytes > self.limit_bytes:
            raise torch.OutOfMemoryError(
                f"{self.name} out of memory: tried to allocate {size_bytes:,} bytes, "
                f"{self.used_bytes:,} of {self.limit_bytes:,} bytes are in use"
            )
