"""Parameters of multi-token-prediction layers, in closed form where the family's are known."""

from dataclasses import replace

from dayzero.domain.architecture import Layer, ModelSpec
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.parameters.counting import layer_tensors
from dayzero.stages.structure.families import Family, family_of


def prediction_elements(spec: ModelSpec, config: ModelConfig) -> int | None:
    """Parameters that the checkpoint holds for its draft layers; 0 without any, None when this family's are not known.

    DeepSeek (DeepSeek-V3, README of the weights) and GLM keep a copy of embeddings and head with each; Qwen shares them
    (transformers, qwen3_next: mtp_use_dedicated_embeddings); Nemotron-H names the blocks of its own.
    """
    if not spec.predict_layers:
        return 0
    family = family_of(spec)
    if family is None or not spec.layers or spec.hidden_size is None or spec.vocabulary_size is None:
        return None
    if family.layout == "blocks":
        return _nemotron(spec, config, family)
    if family.drafts == "copies":
        joined = 2 * spec.hidden_size**2 + 3 * spec.hidden_size
        each = _layer(spec, family, spec.layers[-1]) + joined + 2 * spec.vocabulary_size * spec.hidden_size
        return spec.predict_layers * (each + spec.layers[-1].experts)
    if family.drafts == "shared":
        attention = next((layer for layer in spec.layers if layer.mixer and layer.mixer.recurrence is None), None)
        if attention is None:
            return None
        return spec.predict_layers * _layer(spec, family, attention) + 2 * spec.hidden_size**2 + 3 * spec.hidden_size
    return None


def _layer(spec: ModelSpec, family: Family, layer: Layer) -> int:
    return sum(tensor.elements for tensor in layer_tensors(layer, family, replace(spec, residual="add")))


def _nemotron(spec: ModelSpec, config: ModelConfig, family: Family) -> int | None:
    """One block of each kind that the pattern names, each as the main model's; two norms, a joining projection, a last norm."""
    kinds = {"attention": _is_attention, "moe": _has_experts}
    total = 2 * (spec.hidden_size or 0) ** 2 + 3 * (spec.hidden_size or 0)
    for block in config.hybrid.prediction_blocks or ():
        like = next((layer for layer in spec.layers if block in kinds and kinds[block](layer)), None)
        if like is None:
            return None
        biases = like.experts if like.feed_forward and like.feed_forward.correction_bias else 0
        total += _layer(spec, family, like) + biases
    return spec.predict_layers * total if config.hybrid.prediction_blocks else None


def _is_attention(layer: Layer) -> bool:
    return layer.mixer is not None and layer.mixer.recurrence is None


def _has_experts(layer: Layer) -> bool:
    return bool(layer.experts)
