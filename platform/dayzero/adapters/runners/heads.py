"""From the last layer's hidden states to logits, in any precision."""

from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.layer_sources import LayerSource, as_source
from dayzero.adapters.runners.three_ways import in_precision, layer_calls, run_wide, widened
from dayzero.errors import BlockedError


def final_norm(model: Any) -> Any:
    """The norm beside the list of layers; BlockedError when there is none by a known name."""
    path = loading.decoder_layers(model)[0].rpartition(".")[0]
    parent = model.get_submodule(path) if path else model
    for name in ("norm", "final_layernorm", "ln_f", "norm_f"):
        if hasattr(parent, name):
            collapse = getattr(parent, "hc_head", None)
            return getattr(parent, name) if collapse is None else _Collapse(collapse, getattr(parent, name))
    raise BlockedError("no final norm was found beside the layers.", remedy="This architecture needs its own recipe.")


class _Collapse(torch.nn.Module):  # type: ignore[misc]
    """The norm, after whatever joins several streams a token into one."""

    def __init__(self, collapse: Any, norm: Any) -> None:
        super().__init__()
        self.collapse, self.norm = collapse, norm

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [1, tokens, width]."""
        joined: torch.Tensor = self.norm(self.collapse(hidden))
        return joined


def head_logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Logits [tokens, vocabulary]: final norm, head, and the cap on logits where the configuration has one."""
    return _logits(model, _head_parts(model, hidden.dtype), hidden)


def _head_parts(model: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """Final norm and head in the dtype."""
    norm, head = final_norm(model), model.get_output_embeddings()
    return (norm, head) if dtype is head.weight.dtype else (widened(norm, dtype), widened(head, dtype))


def _logits(model: Any, parts: tuple[Any, Any], hidden: torch.Tensor) -> torch.Tensor:
    norm, head = parts
    with torch.no_grad(), in_precision(hidden.dtype):
        logits: torch.Tensor = head(norm(hidden))[0]
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    return torch.tanh(logits / cap) * cap if cap else logits


def wide_logits(model: Any, ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Logits [tokens, vocabulary] of the model in the wider dtype, one widened layer in memory at a time."""
    return wide_logits_each(model, [ids], dtype)[0]


def wide_logits_each(given: Any, windows: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """The same for several inputs that know nothing of each other; each layer is widened once for all of them.

    `given` is a model, or a source of layers.
    """
    source: LayerSource = as_source(given)
    calls = [layer_calls(source.model, ids, dtype) for ids in windows]
    hidden = [first for first, _ in calls]
    for index in range(source.count):
        with source.layer(index) as layer:
            wide = widened(layer, dtype)
            hidden = [run_wide(wide, states, kwargs[index]) for states, (_, kwargs) in zip(hidden, calls, strict=True)]
    return wide_heads(source.model, hidden, dtype)


def wide_heads(model: Any, hidden: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """Logits from each of those hidden states; norm and head are widened once for all."""
    parts = _head_parts(model, dtype)
    return [_logits(model, parts, states) for states in hidden]
