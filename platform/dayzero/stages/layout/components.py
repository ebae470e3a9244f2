"""Which item of the memory a tensor is counted in."""

from dayzero.stages.layout.names import Leaf, Part, TensorPlace
from dayzero.stages.layout.runs import Rule

ITEMS = ("embeddings", "mixer", "feed_forward", "shared_experts", "norms_and_routers", "head", "drafts", "towers", "other")

_OUTSIDE = {Part.EMBEDDINGS: "embeddings", Part.HEAD: "head", Part.PREDICTION: "drafts", Part.TOWER: "towers",
            Part.FINAL_NORM: "norms_and_routers", Part.OTHER: "other"}  # fmt: skip
_MIXERS = ("self_attn", "attn", "attention", "linear_attn", "mixer", "mamba")
_ROUTERS = ("gate", "router", "shared_expert_gate", "per_expert_scale")


def item_of(place: TensorPlace, rule: Rule) -> str:
    """One of ITEMS; experts of any layer are counted by themselves."""
    outside = _OUTSIDE.get(place.part)
    if outside is not None:
        return outside
    names = place.module.split(".")
    last = names[-1]
    if "norm" in last or last in _ROUTERS or "router" in names or place.leaf is Leaf.BUFFER:
        return "norms_and_routers"
    if any(name.startswith("shared_") for name in names):
        return "shared_experts"
    blocks = names[0] == "mixer" and last in ("up_proj", "down_proj", "gate_proj", "fc1_latent_proj", "fc2_latent_proj")
    return "mixer" if names[0] in _MIXERS and not blocks else "feed_forward"
