"""From the last layer's hidden states to logits, in any precision."""

from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.layer_sources import LayerSource, as_source
from dayzero.adapters.runners.three_ways import around_layers, layer_calls, outside_in, run_wide, widened
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
    """Logits [tokens, vocabulary] from what the last layer gives, by the model's own code: norm, head, scales and caps."""
    return heads_of(model, [hidden])[0]


def heads_of(model: Any, hidden: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same for several hidden states of one dtype; what is outside of the layers is widened to it once for all."""
    dtype = hidden[0].dtype
    outside = outside_in(model, model, dtype)
    return [_logits(model, outside, states) for states in hidden]


def _logits(model: Any, outside: dict[str, torch.Tensor], hidden: torch.Tensor) -> torch.Tensor:
    left = len(loading.decoder_layers(model)[1])

    def layer(hidden_states: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
        nonlocal left
        left -= 1
        return hidden if left % count == 0 else hidden_states

    count = left
    ids = torch.zeros((1, hidden.shape[1]), dtype=torch.int64, device=hidden.device)
    out = around_layers(model, model, {"input_ids": ids}, layer, hidden.dtype, outside)
    found: torch.Tensor = out.logits[0]
    return found


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
    return heads_of(source.model, hidden)
