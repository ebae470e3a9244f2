"""Faults outside of the layers: rotary tables, masks, head, positions."""

import math
import sys
from typing import Any

import torch

from dayzero.adapters.runners.planting_attention import all_before
from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.errors import BadInputError

OTHER_BASE = {True: 10_000.0, False: 1_000_000.0}
"""The base that is taken for a large one, and for a small one."""
INIT_STD = 0.02
MASKS = {True: "create_sliding_window_causal_mask", False: "create_causal_mask"}
"""What makes masks in the modelling library: with windows, and without."""


def rotary_base(planting: Planting, model: Any, seed: int) -> None:
    """Frequencies of another base: the usual one for a long context's, or the other way round."""
    rotary = _rotary(model)
    base = float(rotary.config.rope_parameters["rope_theta"])
    other = OTHER_BASE[base > 100_000.0]
    planting.swap(rotary, "inv_freq", rotary.inv_freq ** (math.log(other) / math.log(base)))


def stale_position(planting: Planting, model: Any, seed: int) -> None:
    """Tokens behind a filled cache are rotated as if they stood one position earlier."""
    rotary = _rotary(model)
    original = rotary.forward

    def planted(x: torch.Tensor, position_ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        late = position_ids - 1 if int(position_ids.min()) > 0 else position_ids
        return original(x, late, *args, **kwargs)

    planting.swap(rotary, "forward", planted)


def _rotary(model: Any) -> Any:
    rotary = getattr(model.base_model, "rotary_emb", None)
    if rotary is None or "rope_theta" not in (getattr(rotary.config, "rope_parameters", None) or {}):
        raise BadInputError("the model has no rotary embedding beside its layers.", remedy="Plant another fault.")
    return rotary


def mask_off_by_one(planting: Planting, model: Any, seed: int) -> None:
    """A token sees the one behind it; where the model has windows, the window is one too long instead."""
    base = model.base_model
    home = sys.modules[type(base).__module__]
    sliding = "sliding_attention" in (getattr(base.config, "layer_types", None) or ())
    name = MASKS[sliding]
    if not hasattr(home, name):
        raise BadInputError("the model makes its masks in a way of its own.", remedy="Plant another fault.")
    settings: Any = base.config
    original, window = getattr(home, name), int(getattr(base.config, "sliding_window", 0) or 0)

    def planted(*args: Any, **kwargs: Any) -> Any:
        mask = original(*args, **kwargs)
        # The reference makes its masks by the same function, from a configuration of its own.
        if kwargs.get("config") is not settings:
            return mask
        keys = kwargs["inputs_embeds"].shape[1] if mask is None else mask.shape[-1]
        queries = kwargs["inputs_embeds"].shape[1]
        if sliding:
            return _window_longer(mask, queries, keys, window)
        return all_before(mask, queries, keys, more=1)

    planting.swap(home, name, planted)


def _window_longer(mask: torch.Tensor | None, queries: int, keys: int, window: int) -> torch.Tensor | None:
    """The mask with the key that has just left each token's window."""
    if mask is None:
        return None
    edge = torch.arange(queries)[:, None] + (keys - queries) - torch.arange(keys)[None] == window
    return mask | edge if mask.dtype is torch.bool else mask.masked_fill(edge, 0.0)


def head_untied(planting: Planting, model: Any, seed: int) -> None:
    """A head that should share the embeddings' weights keeps those that it was initialised with."""
    head = model.get_output_embeddings()
    if not getattr(model.config.get_text_config(), "tie_word_embeddings", False):
        raise BadInputError("the model's head is not tied to its embeddings.", remedy="Plant this in one whose head is.")
    drawn = torch.randn(head.weight.shape, generator=torch.Generator().manual_seed(seed)) * INIT_STD
    planting.swap(head, "weight", torch.nn.Parameter(drawn.to(head.weight.dtype), requires_grad=False))
