"""The rule of every tensor of a structure: one table that the sharder, the planner and the loader go by."""

import re
from dataclasses import replace

from dayzero.domain.architecture import FeedForward, Layer, Mixer, ModelSpec
from dayzero.stages.layout.names import Leaf, Part, TensorPlace
from dayzero.stages.layout.rules_mixers import mixer_rule
from dayzero.stages.layout.runs import WHOLE, PartitionKind, Rule, Run, column, row
from dayzero.stages.structure.families import Family, family_of, sharding_known

_VOCABULARY = re.compile(r"(?:^|\.)(?:embed_tokens|lm_head|shared_head\.head)$")
_FUSED_NAME = re.compile(r"qkv|query_key_value|kv_proj$|gate_up|in_proj|c_attn|w_pack|gate_proj_up|h_to_4h", re.IGNORECASE)
_EXPERT = re.compile(r"(?:^|\.)experts\.(?:\{e\}\.)?")
_SHARED = re.compile(r"(?:^|\.)shared_(?:experts?|mlp)\.")
_GATES, _DOWNS = ("gate_proj", "up_proj", "w1", "w3"), ("down_proj", "w2")
_COLUMNS = "feed-forward columns"


class Rules:
    """The rules of one structure; each is made once."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.family = family_of(spec) if sharding_known(spec) else None
        kinds: dict[tuple[object, ...], int] = {}
        self.kind_of = tuple(
            kinds.setdefault((layer.mixer, layer.feed_forward, layer.parallel), len(kinds)) for layer in spec.layers
        )
        """The kind of each layer: those of one kind have the same parts."""
        self._like = dict(zip(self.kind_of, spec.layers, strict=True))
        self._made: dict[tuple[str, Leaf, Part, int | None], Rule] = {}

    def rule_at(self, place: TensorPlace) -> Rule:
        """The rule of a tensor; tensors with no known place are whole."""
        if self.family is None or place.leaf is Leaf.BUFFER:
            return WHOLE
        if place.part in (Part.EMBEDDINGS, Part.HEAD, Part.PREDICTION) and _VOCABULARY.search(place.module):
            return Rule(PartitionKind.VOCABULARY)
        if place.part not in (Part.LAYER, Part.PREDICTION) or place.layer is None:
            return WHOLE
        inside = place.part is Part.LAYER and place.layer < len(self.kind_of)
        key = (place.module, place.leaf, place.part, self.kind_of[place.layer] if inside else None)
        if key not in self._made:
            layer = self._like[self.kind_of[place.layer]] if inside else self._draft_like(place.module)
            self._made[key] = self._make(place, layer)
        return self._made[key]

    def _draft_like(self, module: str) -> Layer | None:
        """The last layer that has such a module: draft layers are like it."""
        last = sorted(self._like.values(), key=lambda layer: -layer.index)
        return next((layer for layer in last if self._known(module, layer) is not None), None)

    def _make(self, place: TensorPlace, layer: Layer | None) -> Rule:
        found = self._known(place.module, layer) if layer is not None else None
        if found is None:
            if _FUSED_NAME.search(place.module.rsplit(".", 1)[-1]):
                return replace(WHOLE, refused="holds several projections in one tensor; how they lie in it is not known")
            return WHOLE
        # A bias after a cut input is whole on every rank and added once.
        biased = place.leaf is Leaf.BIAS and found.kind is PartitionKind.ROW
        return replace(WHOLE, expert=found.expert, fused=found.fused) if biased else found

    def _known(self, module: str, layer: Layer) -> Rule | None:
        assert self.family is not None
        for mixer in layer.mixers:
            name = _below_mixer(module, mixer, layer, self.family)
            found = mixer_rule(name, mixer) if name is not None else None
            if found is not None:
                return found
        return _feed_forward_rule(module, layer.feed_forward, self.family) if layer.feed_forward is not None else None


_MIXERS = ("self_attn", "attn", "linear_attn", "mixer", "mamba")


def _below_mixer(module: str, mixer: Mixer, layer: Layer, family: Family) -> str | None:
    """The path below the mixer's own, or None when the module is not of this mixer."""
    head, _, below = module.partition(".")
    if head not in _MIXERS or not below:
        return None
    if layer.parallel is not None and (head == family.prefix) != (mixer.recurrence is not None):
        return None
    return below


def _feed_forward_rule(module: str, feed_forward: FeedForward, family: Family) -> Rule | None:
    name = module.rsplit(".", 1)[-1]
    routed = _EXPERT.search(module) is not None and feed_forward.routed_experts > 0
    if routed:
        size, what = feed_forward.intermediate_size or 0, "columns of an expert"
    elif _SHARED.search(module):
        size, what = feed_forward.shared_intermediate_size or 0, "shared expert columns"
    else:
        size = (feed_forward.dense_size if feed_forward.routed_experts else feed_forward.intermediate_size) or 0
        what = _COLUMNS
    each = Run(size, size, what)
    fused = routed and "{e}" not in module
    if name in _GATES:
        rule = column(each)
    elif name in _DOWNS:
        rule = row(each)
    elif name == "gate_up_proj":
        # gpt-oss lays gate and up column by column in turn; all others one after the other.
        rule = column(Run(2 * size, size, what)) if fused and family.experts == "fused" else column(each, each)
    else:
        return None
    if not size:
        return replace(WHOLE, refused="has a width that the structure does not state")
    return replace(rule, expert=routed, fused=fused)
