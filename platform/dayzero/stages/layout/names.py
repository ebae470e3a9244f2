"""What a tensor's name says: which part of the model, which layer, which module, which expert, value or scale."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


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
    "weight_scale_inv", "weight_scale_2", "weight_scale", "scale_weight", "scale_input", "weight_global_scale",
    "input_global_scale", "input_scale",
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


@lru_cache(maxsize=1 << 17)
def place_of(name: str, layers: int | None) -> TensorPlace:
    """The place of a tensor; `layers` is how many the language model has, so that deeper ones are draft layers.

    LayerNorm.gamma and .beta, as TensorFlow names them, are weight and bias. A plan asks for each of a hundred thousand names
    half a dozen times, so that as many are remembered.
    """
    matched = _LAYER.search(name)
    if matched is None:
        layer, before, below = None, "", name
    else:
        layer, before, below = int(matched.group(1)), name[: matched.start(1)], matched.group(2)
    number = None
    expert = _EXPERT.search(below) if "experts." in below else None
    if expert is not None:
        number = int(expert.group(2))
        below = f"{below[: expert.start(2)]}{{e}}{below[expert.end(2) :]}"
    deep = layer is not None and layers is not None and layer >= layers
    part, module, suffix, leaf = _parsed(before, below, layer is not None, deep)
    return TensorPlace(part, layer, module, suffix, leaf, number)


@lru_cache(maxsize=1 << 16)
def _parsed(before: str, below: str, in_layer: bool, deep: bool) -> tuple[Part, str, str, Leaf]:
    """What a name says whatever its layer's and its expert's number: what stands before the number, and below it."""
    below = _OLD_NORM.sub(lambda match: "norm." + {"gamma": "weight", "beta": "bias"}[match.group(1)], below)
    part = _part(f"{before}0.{below}" if in_layer else below, in_layer, below, deep)
    if part in (Part.EMBEDDINGS, Part.FINAL_NORM, Part.HEAD):
        below = below[below.rfind({Part.EMBEDDINGS: "embed_tokens", Part.FINAL_NORM: "norm", Part.HEAD: "lm_head"}[part]) :]
    return part, *_split(below)


def _part(name: str, in_layer: bool, below: str, deep: bool) -> Part:
    if _TOWER.search(name):
        return Part.TOWER
    if _PREDICTION.search(name):
        return Part.PREDICTION
    if in_layer:
        return Part.PREDICTION if deep else Part.LAYER
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
