"""What the ranks of one layer exchange, in seconds, and how much of it hides behind work."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.architecture import FeedForward, Mixer
from dayzero.domain.planning import Degrees
from dayzero.stages.cost.links import Network
from dayzero.stages.cost.mixers import ACTIVATION_BYTES

Exchange = tuple[float, float]
"""Seconds in all, and those that hide behind work."""


@dataclass(frozen=True, slots=True)
class LayerClass:
    """Layers that cost the same: their mixers and feed-forward."""

    mixers: tuple[Mixer, ...]
    feed_forward: FeedForward | None


class Exchanges:
    """Exchanges of each class of layers; answers are kept."""

    def __init__(self, classes: tuple[LayerClass, ...], hidden: int, network: Network, figures: Mapping[str, float]) -> None:
        self._classes, self._hidden, self._network, self._figures = classes, hidden, network, figures
        self._known: dict[tuple[int, int, int, int, float, bool], tuple[Exchange, ...] | None] = {}

    def of(self, degrees: Degrees, tokens: float, compressed: bool) -> tuple[Exchange, ...] | None:
        """For each class, when each replica of attention brings so many tokens; None when a link's figures are missing."""
        key = (degrees.tp, degrees.cp, degrees.ep, degrees.etp, tokens, compressed)
        if key not in self._known:
            self._known[key] = self._all(degrees, tokens, 1 if compressed else ACTIVATION_BYTES)
        return self._known[key]

    def _all(self, degrees: Degrees, tokens: float, element: int) -> tuple[Exchange, ...] | None:
        reduced = self._network.all_reduce(tokens * self._hidden * element, degrees.tp)
        if reduced is None:
            return None
        sent: dict[tuple[int, int], float | None] = {}
        found = []
        for kind in self._classes:
            one = self._one(kind, degrees, tokens, element, reduced, sent)
            if one is None:
                return None
            found.append(one)
        return tuple(found)

    def _one(self, kind: LayerClass, degrees: Degrees, tokens: float, element: int, reduced: float,
             sent: dict[tuple[int, int], float | None]) -> Exchange | None:  # fmt: skip
        forward = kind.feed_forward
        apart = forward is not None and forward.routed_experts > 0 and degrees.attention_dp > 1
        total = reduced * (len(kind.mixers) > 0) + reduced * (forward is not None and not apart)
        if degrees.cp > 1 and kind.mixers:
            message = tokens * degrees.cp * _cached_width(kind) * element
            circled = self._network.all_gather(message, degrees.cp, degrees.tp)
            if circled is None:
                return None
            total += circled
        if not apart or forward is None:
            return total, 0.0
        key = (forward.experts_per_token, forward.latent_size or self._hidden)
        if key not in sent:
            sent[key] = self._dispatch(*key, degrees, tokens, element)
        both = sent[key]
        return None if both is None else (total + both, both * self._figures["overlap"])

    def _dispatch(self, per_token: int, width: int, degrees: Degrees, tokens: float, element: int) -> float | None:
        """Tokens to the ranks of their experts and back: pairwise to those ranks only, or gathered by all and reduced (the
        faster is taken). The ranks of a tensor-parallel group each send their share of its tokens."""
        size, stride = degrees.tp * degrees.attention_dp, degrees.cp
        reached = degrees.ep * (1 - (1 - 1 / degrees.ep) ** per_token)
        pairwise = self._network.all_to_all(tokens / degrees.tp * reached * degrees.etp * width * element, size, stride)
        gathered = self._network.all_gather(tokens * degrees.attention_dp * width * element, size, stride)
        if pairwise is None or gathered is None:
            return None
        inside = self._network.all_gather(tokens * width * element, degrees.tp) if degrees.tp > 1 else 0.0
        return None if inside is None else min(2 * pairwise + inside, 2 * gathered)


def _cached_width(kind: LayerClass) -> int:
    """Elements of keys and values that context-parallel ranks pass round for one token."""
    width = 0
    for mixer in kind.mixers:
        if mixer.recurrence is not None:
            continue
        if mixer.kv_lora_rank is not None:
            width += mixer.kv_lora_rank + (mixer.rope_head_dim or 0)
        else:
            width += (mixer.kv_heads or 0) * ((mixer.head_dim or 0) + (mixer.value_head_dim or 0))
    return width
