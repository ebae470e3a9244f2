"""Where the target of an observation lives: on the host, or on the device that the request names."""

from typing import Any

import torch
from torch.utils._pytree import tree_map

from dayzero.domain.runs import RunRequest
from dayzero.registry import device_plugin

HOST = torch.device("cpu")


def device_for(request: RunRequest) -> torch.device:
    """The request's device, known to torch from now on; NotFoundError or DependencyError without its plugin."""
    if request.device is None:
        return HOST
    device_plugin(request.device.torch_device).install(request.device)
    return torch.device(request.device.torch_device, 0)


def placed(value: Any, device: torch.device) -> Any:
    """The value with every tensor in it on the device; a module is moved and returned."""
    if isinstance(value, torch.nn.Module):
        return value.to(device)
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)


def fetched(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the host, where it is compared."""
    return tensor.to(HOST)


def on(device: torch.device) -> str:
    """Where a path ran, in words; nothing for the host."""
    return "" if device.type == "cpu" else f" on {device.type}"


def peak_bytes(device: torch.device) -> int | None:
    """The most that the device held at once, by its own count; None for the host, or where the device does not say."""
    module = None if device.type == "cpu" else getattr(torch, device.type, None)
    count = getattr(module, "max_memory_allocated", None)
    return None if count is None else int(count())
