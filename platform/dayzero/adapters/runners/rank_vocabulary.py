"""Embeddings and head of which each rank has a share of the rows, padded with zeros behind the vocabulary."""

from typing import Any

import torch

from dayzero.adapters.runners.rank_groups import Groups
from dayzero.adapters.runners.rank_model import RankModel


def wire_vocabulary(ranked: RankModel, groups: Groups) -> None:
    """Rows of other ranks are looked up there and summed; logits are put side by side and cut to the vocabulary, so that no
    padding row, whose logit would be 0, can win."""
    model = ranked.model
    if "embeddings" in ranked.vocabulary and ranked.first_stage:
        _wire_embeddings(model.get_input_embeddings(), groups)
    if "head" in ranked.vocabulary and ranked.last_stage:
        vocabulary = model.config.get_text_config().vocab_size
        model.get_output_embeddings().register_forward_hook(
            lambda _module, _args, logits: groups.gather(logits)[..., :vocabulary]
        )


def _wire_embeddings(embeddings: Any, groups: Groups) -> None:
    rows = embeddings.weight.shape[0]
    first = groups.tp_index * rows
    # The library's padding row may lie on another rank; it matters to training only.
    embeddings.padding_idx = None
    elsewhere: list[torch.Tensor] = []

    def localize(_module: Any, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        local = args[0] - first
        absent = (local < 0) | (local >= rows)
        elsewhere.append(absent)
        return (local.masked_fill(absent, 0), *args[1:])

    def join(_module: Any, _args: Any, found: torch.Tensor) -> torch.Tensor:
        return groups.sum(found.masked_fill(elsewhere.pop().unsqueeze(-1), 0), groups.tp)

    embeddings.register_forward_pre_hook(localize)
    embeddings.register_forward_hook(join)
