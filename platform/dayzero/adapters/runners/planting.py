"""Deliberate faults in a module tree, each a mistake that ports of models really make, to show that checks can fail.

A layer fault goes into one layer, drawn by a seed among those that have what it breaks; a model fault stands outside of
the layers. Every change is undone when the stack closes. Names of attributes are those of the modelling library.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from dayzero.adapters.runners import loading, planting_attention, planting_outside, planting_weights
from dayzero.adapters.runners.planting_swaps import Planting
from dayzero.errors import BadInputError
from dayzero.stages.precision.planting import planted_layer


@dataclass(frozen=True, slots=True)
class LayerFault:
    """What is wrong then, in words, what a layer must have, and how it is broken; `plant` gets model, layer and seed."""

    words: str
    applies: Callable[[Any], bool]
    plant: Callable[[Planting, Any, Any, int], None]


LAYER_FAULTS: Mapping[str, LayerFault] = {
    "rotary_layout": LayerFault(
        "rotary pairs of the other layout", planting_attention.has_rotary, planting_attention.rotary_layout
    ),
    "norm_eps": LayerFault("ten times the norm's epsilon", planting_weights.has_input_norm, planting_weights.norm_eps),
    "attention_scale": LayerFault(
        "attention that is not scaled", planting_attention.has_attention, planting_attention.attention_scale
    ),
    "gate_up": LayerFault("gate and up projection swapped", planting_weights.has_gate_up, planting_weights.gate_up),
    "kv_map": LayerFault(
        "keys and values of the neighbouring group", planting_attention.has_grouped_heads, planting_attention.kv_map
    ),
    "shared_expert": LayerFault("no shared expert", planting_weights.has_shared_expert, planting_weights.shared_expert),
    "topk_norm": LayerFault(
        "weights of chosen experts normalised the other way", planting_weights.has_router, planting_weights.topk_norm
    ),
    "router_downcast": LayerFault("router logits in bfloat16", planting_weights.has_router, planting_weights.router_downcast),
    "expert": LayerFault("another expert's weights", planting_weights.has_experts, planting_weights.expert),
    "window_ignored": LayerFault("no window", planting_attention.has_window, planting_attention.window_ignored),
    "sinks_ignored": LayerFault("no sinks", planting_attention.has_sinks, planting_attention.sinks_ignored),
    "quantization_scale": LayerFault(
        "quantized weights without their scales", planting_weights.has_mlp, planting_weights.quantization_scale
    ),
    "stale_cache": LayerFault(
        "keys one slot behind their values", planting_attention.has_attention, planting_attention.stale_cache
    ),
}
"""Faults of one layer."""

MODEL_FAULTS: Mapping[str, Callable[[Planting, Any, int], None]] = {
    "rotary_base": planting_outside.rotary_base,
    "mask_off_by_one": planting_outside.mask_off_by_one,
    "head_untied": planting_outside.head_untied,
    "stale_position": planting_outside.stale_position,
}
"""Faults outside of the layers."""


def plant(model: Any, fault: str, seed: int, stack: ExitStack) -> str:
    """Plant the named fault; where it is, as a module's path. BadInputError: no such fault, or nothing here that it breaks."""
    planting = Planting(stack)
    with torch.no_grad():
        if fault in MODEL_FAULTS:
            MODEL_FAULTS[fault](planting, model, seed)
            return "the model"
        if fault not in LAYER_FAULTS:
            known = ", ".join(sorted((*LAYER_FAULTS, *MODEL_FAULTS)))
            raise BadInputError(f"planted-fault knows no fault {fault}.", remedy=f"It knows {known}.")
        path, index = place_of(model, fault, seed)
        LAYER_FAULTS[fault].plant(planting, model, loading.decoder_layers(model)[1][index], seed)
        return f"{path}.{index}"


def place_of(model: Any, fault: str, seed: int) -> tuple[str, int]:
    """Path of the list of layers, and the layer that the seed draws among those that have what the fault breaks."""
    path, layers = loading.decoder_layers(model)
    able = [index for index, layer in enumerate(layers) if LAYER_FAULTS[fault].applies(layer)]
    if not able:
        raise BadInputError(f"no layer of {path} has what {fault} breaks.", remedy="Plant it in another architecture.")
    return path, able[planted_layer(seed, len(able))]
