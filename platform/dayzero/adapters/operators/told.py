"""The manifest of a device that its plugin brings: what it says of each operator. Imported by child processes only."""

import torch

from dayzero.adapters.operators.probing import _SAFE_COMPOSITES, _overloads, graph_name
from dayzero.adapters.operators.sampling import parts_of
from dayzero.domain.operators import Decomposition, OperatorManifest, SupportKind
from dayzero.domain.platforms import Device
from dayzero.registry import device_plugin


def told_manifest(device: Device, platform: str) -> OperatorManifest:
    """What the installed device declares for every ATen operator.

    Decompositions are those that happen on it by themselves: composites that torch takes apart at dispatch. Those of torch's
    decomposition table are left out, for nothing takes them when a model runs; a bridge has to.
    """
    plugin = device_plugin(device.torch_device)
    plugin.install(device)
    offered = [(name, handle, said) for name, handle in _overloads() if (said := plugin.support(name)) is not None]
    supports = sorted((said for _name, _handle, said in offered), key=lambda said: said.name)
    made_of: list[Decomposition] = []
    for name, handle, said in offered:
        parts = parts_of(handle, handle) if said.kind is SupportKind.COMPOSITE and name in _SAFE_COMPOSITES else ()
        if parts and graph_name(name) not in parts:
            made_of.append(Decomposition(graph_name(name), parts))
    rules = tuple(sorted(made_of, key=lambda rule: rule.name))
    return OperatorManifest(platform, device.torch_device, str(torch.__version__), tuple(supports), rules, takes_apart=False)
