"""How near logits are to their reference where it matters: at its largest ones."""

from collections.abc import Sequence

import torch

from dayzero.adapters.runners.figures import finite
from dayzero.domain.observed_logits import LogitAgreement

LARGEST = (5, 50, 1000)


def agreement(
    exact: Sequence[torch.Tensor], native: Sequence[torch.Tensor], target: Sequence[torch.Tensor]
) -> tuple[LogitAgreement, ...]:
    """For each k that the vocabulary has: figures of logits [tokens, vocabulary], one tensor a window."""
    wide, plain, ours = (torch.cat([part.detach().to(torch.float64) for part in parts]) for parts in (exact, native, target))
    return tuple(_at(k, wide, plain, ours) for k in LARGEST if k < wide.shape[-1])


def _at(k: int, exact: torch.Tensor, native: torch.Tensor, target: torch.Tensor) -> LogitAgreement:
    best = exact.topk(k, dim=-1).indices
    return LogitAgreement(
        k, _error(target, exact, best), _error(native, exact, best), overlap(target, exact, k), overlap(native, exact, k)
    )


def _error(logits: torch.Tensor, exact: torch.Tensor, best: torch.Tensor) -> float | None:
    right = exact.gather(-1, best)
    error = (logits.gather(-1, best) - right).norm(dim=-1) / right.norm(dim=-1).clamp_min(torch.finfo(torch.float64).tiny)
    return finite(float(error.mean()))


def divergence(exact: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Kullback and Leibler's divergence of `other` from `exact`, both log-probabilities [..., vocabulary]: nats a position."""
    return (exact.exp() * (exact - other)).sum(-1)


def overlap(logits: torch.Tensor, exact: torch.Tensor, k: int) -> float:
    """The share of the k likeliest tokens of both that is common, as a mean over positions [tokens, vocabulary]."""
    left, right = logits.topk(k, dim=-1).indices, exact.topk(k, dim=-1).indices
    return float((left[..., :, None] == right[..., None, :]).any(-1).to(torch.float64).mean())
