"""What ranks exchange inside a stage: partial results are summed behind the modules that give them."""

from collections.abc import Callable
from typing import Any

import torch

from dayzero.adapters.runners.rank_groups import Groups
from dayzero.adapters.runners.rank_model import HeldExperts, RankModel
from dayzero.adapters.runners.rank_task import PlantedSum
from dayzero.adapters.runners.rank_vocabulary import wire_vocabulary
from dayzero.adapters.runners.sketching import Shower
from dayzero.domain.fingerprints import Point


def wire(ranked: RankModel, groups: Groups, planted: PlantedSum | None = None, shower: Shower | None = None) -> None:
    """Sum partial results over ranks, but for a planted fault in one sum; `shower` sees the parts before."""
    for path in [*ranked.summed, *(path for path in ranked.expert_parallel if path not in ranked.summed)]:
        module = ranked.model.get_submodule(path)
        routed = path.endswith(".experts")
        if path in ranked.summed:
            _add_bias_once(module, groups.slice_index if routed else groups.tp_index, ranked.weights.device)
        span = groups.ep_span if routed else groups.tp_span
        if shower is not None:
            module.register_forward_hook(
                lambda _module, _args, out, path=path, span=span: shower.show(path, Point.BEFORE_SUM, out, group=span)
            )
        fault, planted = (planted, None) if planted and f"layers.{planted.layer}." in path else (None, planted)
        module.register_forward_hook(_summing(groups, groups.ep if routed else groups.tp, span[1], fault))
    for path, experts in ranked.expert_parallel.items():
        ranked.model.get_submodule(path).register_forward_pre_hook(_only_own(experts))
    for path, width in ranked.normed.items():
        _sum_norm(ranked.model.get_submodule(path), width, groups)
    wire_vocabulary(ranked, groups)


def _summing(groups: Groups, group: Any, ranks: int, fault: PlantedSum | None) -> Callable[..., torch.Tensor]:
    """The sum behind a module. A planted one takes part in the exchange, for the others wait for it, and returns something
    else: its own part, or what a second sum of the same would be."""

    def hook(_module: Any, _args: Any, out: torch.Tensor) -> torch.Tensor:
        if fault is None or fault.rank not in (None, groups.rank):
            return groups.sum(out, group)
        part = out.clone()
        summed = groups.sum(out, group)
        return summed * ranks if fault.doubled else part

    return hook


def _add_bias_once(module: Any, part: int, device: torch.device) -> None:
    """What is added after a cut input stands whole on every rank; only the first one of those that are summed adds it."""
    if part == 0:
        return
    if getattr(module, "bias", None) is not None:
        module.bias = None
    if getattr(module, "down_proj_bias", None) is not None:
        bias = torch.zeros(module.down_proj_bias.shape, dtype=module.down_proj_bias.dtype, device=device)
        module.down_proj_bias = torch.nn.Parameter(bias, requires_grad=False)


def _only_own(experts: HeldExperts) -> Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]:
    """A token's experts by the rank's own numbers; those of other ranks become the first one with a weight of zero."""
    table = torch.full((experts.of,), -1)
    for number, expert in enumerate(experts.numbers):
        if expert in experts.own:
            table[expert] = number

    def hook(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, chosen, weights, *rest = args
        local = table.to(chosen.device)[chosen]
        return (hidden, local.clamp(min=0), weights.masked_fill(local < 0, 0), *rest)

    return hook


def _sum_norm(norm: Any, width: int, groups: Groups) -> None:
    """A root-mean-square norm over all heads, of which the rank has some: squares are summed over ranks. Heads that lie on
    several ranks count once."""
    epsilon = getattr(norm, "variance_epsilon", None) or norm.eps
    copies = norm.weight.shape[0] * groups.tp_size // width

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        wide = hidden.to(torch.float32)
        squares = groups.sum(wide.pow(2).sum(-1, keepdim=True), groups.tp) / copies
        normed = wide * torch.rsqrt(squares / width + epsilon)
        return norm.weight * normed.to(hidden.dtype)

    norm.forward = forward
