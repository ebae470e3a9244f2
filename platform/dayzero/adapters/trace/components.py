"""Parameters of a built model by component. Imported by child processes only."""

import re
from collections import Counter
from typing import Any

_RULES = (
    (
        "towers",
        re.compile(
            r"(^|\.)(visual|embed_vision|embed_audio|vision\w*|audio\w*|image_\w+|multi_modal_projector|mm_projector)\."
        ),
    ),
    ("embedding", re.compile(r"(^|\.)(embed_tokens|wte|wpe|word_embeddings|embeddings?|embed_in)\.")),
    ("head", re.compile(r"^(\w+\.)?(lm_head|embed_out|cls|score)\.")),
    ("norm", re.compile(r"norm\w*\.(weight|bias)$|(^|\.)ln_\w+\.")),
    ("shared_experts", re.compile(r"shared_expert")),
    ("experts", re.compile(r"(^|\.)experts?(\.|$)")),
    ("router", re.compile(r"(^|\.)(gate|router)(\.|$)")),
    ("attention", re.compile(r"(^|\.)(self_attn|attn|attention|self_attention|linear_attn|mixer|mamba)(\.|$)")),
    ("mlp", re.compile(r"(^|\.)(mlp|ffn|feed_forward|block_sparse_moe|dense\w*|intermediate)(\.|$)")),
)


def component_of(name: str) -> str:
    """The component that a parameter belongs to, by its name: the first rule that matches, else other."""
    return next((component for component, rule in _RULES if rule.search(name)), "other")


def parameters_by_component(model: Any) -> dict[str, int]:
    """Parameter counts by component; a tied tensor counts once, where it first stands."""
    counts: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        counts[component_of(name)] += parameter.numel()
    return dict(sorted(counts.items()))
