"""Low-rank adapters on the linear layers of the decoder (Hu et al. 2021), as small as a check needs them.

Not peft: three module trees in three precisions must get equal adapters, some of them with bridges and planted operators in
them, and peft would bring accelerate into every child process for these thirty lines.
"""

from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.dummy_weights import normal

RANK, ALPHA = 8, 16
ROUTERS = ("gate", "router", "wg")
"""Names of linear layers that choose experts: an adapter there is no usual practice."""


class LoraLinear(torch.nn.Module):  # type: ignore[misc]
    """base(x) + x Aᵀ Bᵀ · alpha / rank; the base is frozen, B starts at zero."""

    def __init__(self, base: Any, name: str) -> None:
        super().__init__()
        self.base = base
        weight = base.weight
        first = normal(f"{name}.lora", (RANK, base.in_features), 0) * base.in_features**-0.5
        self.lora_a = torch.nn.Parameter(first.to(weight))
        self.lora_b = torch.nn.Parameter(torch.zeros(base.out_features, RANK, dtype=weight.dtype, device=weight.device))

    @property
    def weight(self) -> torch.Tensor:
        """The base's: some models look at it (dtype, device)."""
        weight: torch.Tensor = self.base.weight
        return weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in] to [..., out]."""
        added = torch.nn.functional.linear(torch.nn.functional.linear(x, self.lora_a), self.lora_b)
        out: torch.Tensor = self.base(x) + added * (ALPHA / RANK)
        return out


def with_adapters(model: Any) -> dict[str, Any]:
    """Freeze the model, put an adapter on every linear layer of its decoder but routers; the adapters' parameters by name."""
    model.requires_grad_(False)
    path, layers = loading.decoder_layers(model)
    places = [
        (parent, child, f"{path}.{name}.{child}" if name else f"{path}.{child}")
        for name, parent in layers.named_modules()
        for child, module in parent.named_children()
        if type(module) is torch.nn.Linear and child not in ROUTERS
    ]
    for parent, child, name in places:
        setattr(parent, child, LoraLinear(getattr(parent, child), name))
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
