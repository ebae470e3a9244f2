"""Where the target of an observation lives: on the host, or on the device that the request names."""

from typing import Any

import torch
from torch.utils._pytree import tree_map

from dayzero.domain.runs import RunRequest
from dayzero.errors import BlockedError
from dayzero.registry import DEVICE_GROUP, device_plugin, plugin_names

HOST = torch.device("cpu")


def device_for(request: RunRequest) -> torch.device:
    """The request's device, known to torch from now on: by its plugin, or because torch brings it (cuda, xpu …).

    BlockedError where this host has no such device; DependencyError where the plugin's import lacks something.
    """
    if request.device is None:
        return HOST
    name = request.device.torch_device
    if name in plugin_names(DEVICE_GROUP):
        device_plugin(name).install(request.device)
    elif not _is_available(name):
        raise BlockedError(
            f"torch finds no device {name} on this host, which {request.platform} runs on.",
            remedy=f"Run it where one is; a device that torch does not bring needs a plugin {name} in {DEVICE_GROUP}.",
        )
    return torch.device(name, 0)


def _is_available(name: str) -> bool:
    """Whether torch brings a module of that device and finds one."""
    asked = getattr(getattr(torch, name, None), "is_available", None)
    return asked is not None and bool(asked())


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
