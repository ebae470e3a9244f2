"""An activation that is right forward and wrong backward: what only a check of gradients can see."""

from typing import Any

import torch


class _WrongBackward(torch.autograd.Function):  # type: ignore[misc]
    """silu forward; its derivative times a scale backward."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        """silu(x)."""
        context.save_for_backward(x)
        context.scale = scale
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The gradient times the scale: wrong unless it is 1."""
        (x,) = context.saved_tensors
        share = torch.sigmoid(x)
        return gradients[0] * share * (1 + x * (1 - share)) * context.scale, None


class PlantedGradient(torch.nn.Module):  # type: ignore[misc]
    """An activation module with the wrong gradient."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """silu(x)."""
        out: torch.Tensor = _WrongBackward.apply(x, self.scale)
        return out
