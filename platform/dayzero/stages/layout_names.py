"""What a tensor's name says: which part of the model, which layer, which module, which expert, value or scale."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """The part of the model that a tensor belongs to."""

    EMBEDDINGS = "embeddings"
    LAYER = "layer"
    FINAL_NORM = "final_norm"
    HEAD = "head"
    PREDICTION = "multi_token_prediction"
    TOWER = "tower"
    OTHER = "other"


class Leaf(StrEnum):
    """What a tensor holds of its module."""

    VALUE = "value"
    BIAS = "bias"
    SCALE = "scale"
    BUFFER = "buffer"


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """A parsed name: `module` is the path below the layer (or from the model's root) with the expert's number as `{e}`;
    `suffix` the last part of the name, `layer` the layer's index (multi-token prediction layers have theirs too)."""

    part: Part
    layer: int | None
    module: str
    suffix: str
    leaf: Leaf
    expert: int | None

    @property
    def template(self) -> str:
        """Module and suffix as one name, the same for all layers and experts."""
        if self.suffix.startswith("_") or not self.suffix:
            return self.module + self.suffix
        return f"{self.module}.{self.suffix}"


_TOWER = re.compile(
    r"(?:^|\.)(?:vision_\w+|visual|vision|audio_\w+|audio|image_\w+|vit|multi_modal_projector|mm_projector|mlp1|connector|"
    r"embed_vision|embed_audio)(?:\.|$)"
)
_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h)\.(\d{1,6})\.(.+)$")
_EXPERT = re.compile(r"(^|\.)experts\.(\d{1,7})\.")
_PREDICTION = re.compile(r"(?:^|\.)(?:mtp\w*|nextn\w*)\.")
_SCALES = (
    "weight_scale_inv", "weight_scale_2", "weight_scale", "weight_global_scale", "input_global_scale", "input_scale",
    "activation_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "g_idx", "qzeros", "scales", "biases", "k_scale",
    "v_scale", "q_scale", "scale",
)  # fmt: skip
_VALUES = ("weight_packed", "qweight", "weight")
_OLD_NORM = re.compile(r"(?i:norm)\.(gamma|beta)$")
_BUFFERS = ("inv_freq", "e_score_correction_bias", "rotary_emb", "masked_bias")
# Fused expert parameters join their companions by an underscore: gate_up_proj_blocks, down_proj_bias.
_FUSED = re.compile(
    r"^(?P<module>.*experts\.(?:gate_up_proj|down_proj|gate_proj|up_proj))(?:_(?P<suffix>blocks|scales|bias|scale_inv|scale))?$"
)


def place_of(name: str, layers: int | None) -> TensorPlace:
    """The place of a tensor; `layers` is how many the language model has, so that deeper ones are draft layers.

    LayerNorm.gamma and .beta, as TensorFlow names them, are weight and bias.
    """
    name = _OLD_NORM.sub(lambda match: "norm." + {"gamma": "weight", "beta": "bias"}[match.group(1)], name)
    matched = _LAYER.search(name)
    layer = int(matched.group(1)) if matched else None
    below = matched.group(2) if matched else name
    part = _part(name, layer, below, layers)
    if part in (Part.EMBEDDINGS, Part.FINAL_NORM, Part.HEAD):
        below = below[below.rfind({Part.EMBEDDINGS: "embed_tokens", Part.FINAL_NORM: "norm", Part.HEAD: "lm_head"}[part]) :]
    expert = _EXPERT.search(below)
    number = int(expert.group(2)) if expert else None
    template = _EXPERT.sub(r"\1experts.{e}.", below, count=1)
    module, suffix, leaf = _split(template)
    return TensorPlace(part, layer, module, suffix, leaf, number)


def _part(name: str, layer: int | None, below: str, layers: int | None) -> Part:
    if _TOWER.search(name):
        return Part.TOWER
    if _PREDICTION.search(name):
        return Part.PREDICTION
    if layer is not None:
        return Part.PREDICTION if layers is not None and layer >= layers else Part.LAYER
    parts = below.split(".")
    stem = parts[-2] if len(parts) > 1 else parts[0]
    if stem == "embed_tokens":
        return Part.EMBEDDINGS
    if stem == "norm" and len(parts) <= 4:
        return Part.FINAL_NORM
    return Part.HEAD if stem == "lm_head" else Part.OTHER


def _split(template: str) -> tuple[str, str, Leaf]:
    if fused := _FUSED.match(template):
        suffix = fused.group("suffix") or ""
        leaf = {"scales": Leaf.SCALE, "scale": Leaf.SCALE, "scale_inv": Leaf.SCALE, "bias": Leaf.BIAS}.get(suffix, Leaf.VALUE)
        return fused.group("module"), f"_{suffix}" if suffix else "", leaf
    module, _, suffix = template.rpartition(".")
    if suffix in _BUFFERS:
        return module, suffix, Leaf.BUFFER
    if suffix in _SCALES:
        return module, suffix, Leaf.SCALE
    if suffix == "bias":
        return module, suffix, Leaf.BIAS
    return (module, suffix, Leaf.VALUE) if suffix in _VALUES else (template, "", Leaf.VALUE)
