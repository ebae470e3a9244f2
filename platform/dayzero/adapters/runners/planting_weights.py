"""Faults of one layer's norms, feed-forward, router and experts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from dayzero.adapters.runners.loading import config_json
from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.errors import BadInputError

SHARED = ("shared_experts", "shared_expert")
ROUTERS = ("gate", "router")
LARGEST_E4M3 = 448.0


def feed_forward_of(layer: Any) -> Any:
    """The layer's feed-forward, by the names of the modelling library, or None."""
    return getattr(layer, "mlp", None) or getattr(layer, "feed_forward", None)


def has_mlp(layer: Any) -> bool:
    """Whether the feed-forward is dense, with three projections."""
    return hasattr(feed_forward_of(layer), "up_proj")


def has_gate_up(layer: Any) -> bool:
    """Whether there is a gate beside an up projection, in modules or fused in experts."""
    return has_mlp(layer) or hasattr(experts_of(layer), "gate_up_proj")


def has_input_norm(layer: Any) -> bool:
    """Whether a norm comes first in the layer."""
    return hasattr(layer, "input_layernorm")


def experts_of(layer: Any) -> Any:
    """The module with all routed experts, or None."""
    return getattr(feed_forward_of(layer), "experts", None)


def has_experts(layer: Any) -> bool:
    """Whether the layer has routed experts, fused in one tensor."""
    return isinstance(getattr(experts_of(layer), "down_proj", None), torch.nn.Parameter)


def has_shared_expert(layer: Any) -> bool:
    """Whether an expert takes every token."""
    return any(hasattr(feed_forward_of(layer), name) for name in SHARED)


def router_of(layer: Any) -> Any:
    """The module that chooses experts, or None."""
    found = (getattr(feed_forward_of(layer), name, None) for name in ROUTERS)
    return next((module for module in found if hasattr(module, "top_k")), None)


def has_router(layer: Any) -> bool:
    """Whether the layer routes."""
    return router_of(layer) is not None


def norm_eps(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """The first norm has ten times its epsilon."""
    norm = layer.input_layernorm
    name = "variance_epsilon" if hasattr(norm, "variance_epsilon") else "eps"
    planting.swap(norm, name, 10 * getattr(norm, name))


def gate_up(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """Gate and up projection in each other's place."""
    mlp = feed_forward_of(layer)
    if has_mlp(layer):
        gate, up = mlp.gate_proj, mlp.up_proj
        planting.swap(mlp, "gate_proj", up)
        planting.swap(mlp, "up_proj", gate)
        return
    experts = experts_of(layer)
    for name in ("gate_up_proj", "gate_up_proj_bias"):
        if hasattr(experts, name):
            planting.swap(experts, name, _parameter(_halves_swapped(getattr(experts, name), experts)))


def _halves_swapped(fused: torch.Tensor, experts: Any) -> torch.Tensor:
    """Gate and up swapped in a fused tensor: rows of halves, or, where they are interleaved, columns of neighbours."""
    if hasattr(experts, "gate_up_proj_bias"):
        return fused.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    first, second = fused.chunk(2, 1)
    return torch.cat((second, first), 1)


def shared_expert(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """The expert that takes every token gives nothing."""
    mlp = feed_forward_of(layer)
    planting.swap(mlp, next(name for name in SHARED if hasattr(mlp, name)), _Nothing())


class _Nothing(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Zeros of the input's shape."""
        return torch.zeros_like(x)


def topk_norm(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """Weights of the chosen experts are normalised where they should not be, or the other way round."""
    router = router_of(layer)
    if hasattr(router, "norm_topk_prob"):
        planting.swap(router, "norm_topk_prob", not router.norm_topk_prob)
        return
    original, after_choice = router.forward, hasattr(router, "bias")

    def planted(hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logits, weights, indices = original(hidden_states)
        if after_choice:
            return logits, logits.softmax(-1).gather(-1, indices), indices
        return logits, weights / weights.sum(-1, keepdim=True), indices

    planting.swap(router, "forward", planted)


def router_downcast(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """The router's logits are computed in bfloat16."""

    def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        half = torch.bfloat16
        return torch.nn.functional.linear(x.to(half), weight.to(half), None if bias is None else bias.to(half)).to(x.dtype)

    planting.rename_globals(router_of(layer), {"F": SimpleNamespace(linear=linear)})


def expert(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """One expert's down projection is transposed where it is square, else that of its neighbour."""
    experts = experts_of(layer)
    weights = experts.down_proj.clone()
    index = seed % weights.shape[0]
    square = weights.shape[1] == weights.shape[2]
    weights[index] = weights[index].T.clone() if square else experts.down_proj[(index + 1) % weights.shape[0]]
    planting.swap(experts, "down_proj", _parameter(weights))


def quantization_scale(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """The up projection's quantized values are used without the scales of their blocks.

    BadInputError: the checkpoint's configuration names no block size.
    """
    # A model whose weights were dequantized forgets how they were stored; its checkpoint does not.
    stored = config_json(Path(model.config._name_or_path)).get("quantization_config")
    block = stored.get("weight_block_size") if isinstance(stored, dict) else None
    if not isinstance(block, list) or len(block) != 2:
        raise BadInputError("the model is not quantized in blocks.", remedy="Plant this in one that is.")
    weight = feed_forward_of(layer).up_proj.weight
    blocks = weight.unflatten(0, (-1, block[0])).unflatten(2, (-1, block[1]))
    scales = blocks.abs().amax((1, 3), keepdim=True).float() / LARGEST_E4M3
    values = (blocks.float() / scales).to(torch.float8_e4m3fn).to(weight.dtype)
    planting.swap(feed_forward_of(layer).up_proj, "weight", _parameter(values.reshape(weight.shape)))


def _parameter(values: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(values, requires_grad=False)
