"""Faults of attention in one layer: scale, heads, rotary pairing, window, sinks, cache."""

import copy
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.adapters.runners.rotary_variants import turned
from dayzero.errors import BadInputError

ROTATES = "apply_rotary_pos_emb"
"""What the modelling library's attention calls where it rotates queries and keys."""
NO_SINK = -1e4
"""A sink's logit that takes nothing from the softmax, in every dtype."""


def attention_of(layer: Any) -> Any:
    """The layer's softmax attention, or None."""
    return getattr(layer, "self_attn", None)


def has_attention(layer: Any) -> bool:
    """Whether the layer has softmax attention."""
    return attention_of(layer) is not None


def has_grouped_heads(layer: Any) -> bool:
    """Whether queries share keys and values in groups, of which there are several."""
    attention = attention_of(layer)
    return getattr(attention, "num_key_value_groups", 1) > 1 and attention.k_proj.out_features > attention.head_dim


def has_window(layer: Any) -> bool:
    """Whether the attention has a sliding window."""
    return bool(getattr(attention_of(layer), "sliding_window", None))


def has_sinks(layer: Any) -> bool:
    """Whether the attention has learned sinks."""
    return isinstance(getattr(attention_of(layer), "sinks", None), torch.nn.Parameter)


def has_rotary(layer: Any) -> bool:
    """Whether the attention rotates queries and keys."""
    attention = attention_of(layer)
    return attention is not None and ROTATES in inspect.unwrap(type(attention).forward).__code__.co_names


def attention_scale(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """Logits of attention are not scaled."""
    attention = attention_of(layer)
    planting.swap(attention, "scale" if hasattr(attention, "scale") else "scaling", 1.0)


def sinks_ignored(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """The softmax knows no sinks."""
    sinks = torch.full_like(attention_of(layer).sinks, NO_SINK)
    planting.swap(attention_of(layer), "sinks", torch.nn.Parameter(sinks, requires_grad=False))


def kv_map(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """Each group of queries reads the keys and values of the group before."""

    def planted(original: Any, module: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> Any:
        return original(module, query, key.roll(1, 1), value.roll(1, 1), mask, **kwargs)

    _in_attention(planting, layer, planted)


def window_ignored(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """A token sees all that come before it."""

    def planted(original: Any, module: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> Any:
        return original(module, query, key, value, all_before(mask, query.shape[2], key.shape[2]), **kwargs)

    _in_attention(planting, layer, planted)


def stale_cache(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """With a filled cache, keys are read one slot behind their values."""

    def planted(original: Any, module: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> Any:
        stale = key.roll(1, 2) if key.shape[2] > query.shape[2] else key
        return original(module, query, stale, value, mask, **kwargs)

    _in_attention(planting, layer, planted)


def all_before(mask: torch.Tensor | None, queries: int, keys: int, more: int = 0) -> torch.Tensor | None:
    """A mask like this one in which each token sees all before it, and `more` behind it; None stays None without more."""
    if mask is None and not more:
        return None
    allowed = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries + more)[None, None]
    if mask is None or mask.dtype is torch.bool:
        return allowed
    return torch.zeros(allowed.shape, dtype=mask.dtype).masked_fill(~allowed, torch.finfo(mask.dtype).min)


def _in_attention(planting: Planting, layer: Any, planted: Callable[..., Any]) -> None:
    """Put a function between this layer's attention module and the kernel that it calls."""
    attention = attention_of(layer)
    implementation = str(attention.config._attn_implementation)
    home = sys.modules[type(attention).__module__]
    original = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, home.eager_attention_forward)

    def kernel(module: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> Any:
        return planted(original, module, query, key, value, mask, **kwargs)

    name = f"planted_{planted.__qualname__.split('.')[0]}_{implementation}"
    planting.swap_item(ALL_ATTENTION_FUNCTIONS, name, kernel)
    config = copy.copy(attention.config)
    config._attn_implementation_internal = name
    planting.swap(attention, "config", config)


def rotary_layout(planting: Planting, model: Any, layer: Any, seed: int) -> None:
    """Pairs of the other layout are rotated: neighbours for halves, or halves for neighbours."""
    attention = attention_of(layer)
    home = sys.modules[type(attention).__module__]
    if getattr(attention.config, "rope_interleave", False) and hasattr(home, "apply_rotary_pos_emb_interleave"):
        planting.rename_globals(attention, {"apply_rotary_pos_emb_interleave": home.apply_rotary_pos_emb})
        return
    rotary = getattr(model.base_model, "rotary_emb", None)
    if rotary is None:
        raise BadInputError("the model has no rotary embedding beside its layers.", remedy="Plant another fault.")
    half = _half_table(rotary)

    def neighbours(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> tuple[Any, Any]:
        size = cos.shape[-1] if half else cos.shape[-1] // 2
        cos, sin = cos[..., :size].unsqueeze(unsqueeze_dim), sin[..., :size].unsqueeze(unsqueeze_dim)
        return turned(q, cos, sin, True), turned(k, cos, sin, True)

    planting.rename_globals(attention, {"apply_rotary_pos_emb": neighbours})


def _half_table(rotary: Any) -> bool:
    """Whether the table has one entry a pair, instead of every entry twice."""
    cos, _sin = rotary(torch.zeros(1, 3, 2), torch.arange(3)[None])
    half = cos.shape[-1] // 2
    return not torch.equal(cos[..., :half], cos[..., half:])
