"""Where a planted fault goes: drawn from a seed, so that whoever knows the seed knows the layer."""

import hashlib


def planted_layer(seed: int, layers: int) -> int:
    """The 0-based layer that the seed draws, uniformly over the layers; ValueError without layers."""
    if layers < 1:
        raise ValueError("a model without layers has none to draw")
    return int.from_bytes(hashlib.sha256(f"planted-fault:{seed}".encode()).digest()[:8], "big") % layers
