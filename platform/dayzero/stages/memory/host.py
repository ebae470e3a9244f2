"""What a rank takes of the host's memory, and what stays on the device of what moved there."""

from collections.abc import Mapping

HOST = "host_"
"""How the names of items in the host's memory begin."""


def staging_items(weight_bytes: int, on_host: bool) -> Mapping[str, int]:
    """Host memory while weights are loaded: the rank's file lies there whole before it goes to the device (our runner reads a
    rank's tensors and then places the model). Where the host is the device, the weights stay where they were read."""
    return {} if on_host else {f"{HOST}staging": weight_bytes}


def offloaded(items: Mapping[str, int], experts_bytes: int, largest_bytes: int) -> Mapping[str, int]:
    """Items with routed experts in the host's memory, from which those of a layer are brought when they are needed: one
    layer's at work, the next one's on their way."""
    moved = max(0, experts_bytes - 2 * largest_bytes)
    weights = items.get("weights", 0)
    return {**items, "weights": max(0, weights - moved), f"{HOST}experts": experts_bytes}
