"""One step of a model on one pipeline stage: seconds by operator and by link, for any degrees."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dayzero.domain.architecture import FeedForward, Layer, Mixer, ModelSpec
from dayzero.domain.costs import Efficiencies, Load, Matrix, Operation
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.cost_efficiency import figures_of
from dayzero.stages.cost_feed_forward import feed_forward_operations
from dayzero.stages.cost_links import Network
from dayzero.stages.cost_matrices import feed_forward_matrices, head_matrix, mixer_matrices
from dayzero.stages.cost_mixers import ACTIVATION_BYTES, linear, mixer_operations
from dayzero.stages.cost_rates import Rates

_RESIDUAL_PASSES = 8
"""Times that norms, residual additions and rotary embeddings read or write a token's hidden state in one layer."""


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds of one operator or exchange of a step: compute, memory or a link's name is what binds it."""

    what: str
    resource: str
    seconds: float
    hidden_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerClass:
    """Layers that cost the same: their mixers and feed-forward."""

    mixers: tuple[Mixer, ...]
    feed_forward: FeedForward | None


class StepCost:
    """Seconds of a step of one model on one platform, at one bound of the efficiencies. Answers are kept: a search asks for
    the same layer under thousands of plans."""

    def __init__(
        self, spec: ModelSpec, profile: PlatformProfile, rates: Rates, efficiencies: Efficiencies, bound: str = "likely"
    ) -> None:
        self.spec = spec
        self.figures: Mapping[str, float] = figures_of(efficiencies, bound)
        assert profile.memory_bandwidth_bytes_per_s is not None
        self._bandwidth = profile.memory_bandwidth_bytes_per_s.value
        self._rates = {(scheme or "native"): rate for scheme, rate in rates.by_scheme.items()}
        self.network = Network(profile, self.figures["link"], self.figures["wide_link"], self.figures["collective_s"],
                               self.figures["wide_collective_s"])  # fmt: skip
        self.classes, self.class_of = _classes(spec.layers)
        self._matrices = [[(mixer, mixer_matrices(spec, mixer)) for mixer in kind.mixers] for kind in self.classes]
        self._experts = [feed_forward_matrices(spec, kind.feed_forward) for kind in self.classes]
        self._head = head_matrix(spec)
        self._mixer_s: dict[tuple[int, int, int, Load, float], float] = {}
        self._ffn_s: dict[tuple[int, int, int, int, int, float], float] = {}
        self._layer_s: dict[tuple[int, int, int, int, Load, float, bool], tuple[float, ...] | None] = {}
        self._head_s: dict[tuple[int, Load], float] = {}
        self._link_s: dict[tuple[int, int, int, int, int, float, bool], tuple[tuple[float, float] | None, ...]] = {}

    def stage_s(self, counts: Iterable[tuple[int, int]], degrees: Degrees, load: Load, cache: float, *, head: bool,
                compressed: bool = False) -> float | None:  # fmt: skip
        """Seconds of one step on a stage with so many layers of each class; None when a link's figures are missing."""
        times = self.layer_s(degrees, load, cache, compressed)
        if times is None:
            return None
        total = self.figures["step_s"] + sum(count * times[kind] for kind, count in counts)
        return total + self.sampling_s(degrees, load) if head else total

    def sampling_s(self, degrees: Degrees, load: Load) -> float:
        """The head's part of a step."""
        key = (degrees.tp, load)
        if key not in self._head_s:
            self._head_s[key] = self._sum(self._head_operations(degrees, load))
        return self._head_s[key]

    def layer_s(self, degrees: Degrees, load: Load, cache: float, compressed: bool) -> tuple[float, ...] | None:
        """Seconds of one layer of each class, exchanges and all; None when a link's figures are missing."""
        key = (degrees.tp, degrees.cp, degrees.ep, degrees.etp, load, cache, compressed)
        if key not in self._layer_s:
            self._layer_s[key] = self._layers(degrees, load, cache, compressed)
        return self._layer_s[key]

    def _layers(self, degrees: Degrees, load: Load, cache: float, compressed: bool) -> tuple[float, ...] | None:
        times = []
        for kind, link in enumerate(self._exchanges(degrees, load, compressed)):
            if link is None:
                return None
            own = self._mixer(kind, degrees, load, cache) + self._feed_forward(kind, degrees, load)
            times.append(own + link[0] - link[1])
        return tuple(times)

    def exchange_s(
        self, counts: Iterable[tuple[int, int]], degrees: Degrees, load: Load, *, compressed: bool = False
    ) -> float | None:
        """What the exchanges between ranks are of `stage_s`."""
        exchanged = self._exchanges(degrees, load, compressed)
        total = 0.0
        for kind, count in counts:
            link = exchanged[kind]
            if link is None:
                return None
            total += count * (link[0] - link[1])
        return total

    def head_s(self, tokens: float, tp: int) -> float:
        """Logits of so many tokens on one of tp ranks."""
        return self._sum(linear((self._head,), tokens, tp))

    @property
    def stream_bytes_per_s(self) -> float:
        """Memory bandwidth that long reads and writes reach."""
        return self._bandwidth * self.figures["stream"]

    def matrices_of(self, kind: int) -> tuple[tuple[Matrix, ...], tuple[Matrix, ...], int]:
        """The matrices of one class of layers: for every token, of one expert, and how many experts there are."""
        feed_forward = self.classes[kind].feed_forward
        mixing = [matrix for _, matrices in self._matrices[kind] for matrix in matrices]
        held = feed_forward.routed_experts if feed_forward is not None else 0
        return (*mixing, *self._experts[kind].always), self._experts[kind].expert, held

    def parts(self, counts: Iterable[tuple[int, int]], degrees: Degrees, load: Load, cache: float, *, head: bool,
              compressed: bool = False) -> tuple[Part, ...]:  # fmt: skip
        """What `stage_s` sums, one part for each operator of each class of layers and each exchange."""
        exchanged = self._exchanges(degrees, load, compressed)
        found: list[Part] = [Part("step", "launch", self.figures["step_s"])]
        for kind, count in counts:
            for operation in (*self._mixer_operations(kind, degrees, load, cache), *self._ffn_operations(kind, degrees, load)):
                found.append(Part(operation.what, self.binding(operation), count * self.seconds(operation)))
            link = exchanged[kind]
            if link is not None and link[0]:
                group = degrees.tp * degrees.attention_dp
                found.append(Part("exchange between ranks", self.network.farthest(group, 1), count * link[0], count * link[1]))
        if head:
            found += [Part(op.what, self.binding(op), self.seconds(op)) for op in self._head_operations(degrees, load)]
        return tuple(found)

    def seconds(self, operation: Operation) -> float:
        """The roofline: the longer of arithmetic and memory, and the launch."""
        compute, memory = self._sides(operation)
        return max(compute, memory) + operation.calls * self.figures["kernel_s"]

    def binding(self, operation: Operation) -> str:
        """compute, memory or launch: whichever takes longest."""
        compute, memory = self._sides(operation)
        if operation.calls * self.figures["kernel_s"] > max(compute, memory):
            return "launch"
        return "compute" if compute > memory else "memory"

    def _sides(self, operation: Operation) -> tuple[float, float]:
        figures = self.figures
        compute = operation.flops / (self._rates[operation.rate] * figures[operation.compute])
        return compute, operation.bytes / (self._bandwidth * figures[operation.memory])

    def _sum(self, operations: Iterable[Operation]) -> float:
        return sum(self.seconds(operation) for operation in operations)

    def _mixer(self, kind: int, degrees: Degrees, load: Load, cache: float) -> float:
        key = (kind, degrees.tp, degrees.cp, load, cache)
        if key not in self._mixer_s:
            self._mixer_s[key] = self._sum(self._mixer_operations(kind, degrees, load, cache))
        return self._mixer_s[key]

    def _mixer_operations(self, kind: int, degrees: Degrees, load: Load, cache: float) -> Iterable[Operation]:
        for mixer, matrices in self._matrices[kind]:
            yield from mixer_operations(mixer, matrices, load, degrees.tp, degrees.cp, cache)
        hidden = self.spec.hidden_size or 0
        tokens = load.prefill_tokens / degrees.cp + load.decode_sequences
        moved = _RESIDUAL_PASSES * self.spec.residual_streams * tokens * hidden * ACTIVATION_BYTES
        yield Operation("norms and residual", 0.0, moved, "native", "gemm", "stream", 4)

    def _feed_forward(self, kind: int, degrees: Degrees, load: Load) -> float:
        tokens = load.prefill_tokens / degrees.cp + load.decode_sequences
        key = (kind, degrees.tp, degrees.ep, degrees.etp, degrees.attention_dp, tokens)
        if key not in self._ffn_s:
            self._ffn_s[key] = self._sum(self._ffn_operations(kind, degrees, load))
        return self._ffn_s[key]

    def _ffn_operations(self, kind: int, degrees: Degrees, load: Load) -> Iterable[Operation]:
        feed_forward = self.classes[kind].feed_forward
        if feed_forward is None:
            return ()
        tokens = load.prefill_tokens / degrees.cp + load.decode_sequences
        return feed_forward_operations(feed_forward, self._experts[kind], tokens, degrees, self.figures["imbalance"])

    def _head_operations(self, degrees: Degrees, load: Load) -> Iterable[Operation]:
        # Only the last position of a prompt is sampled from.
        return linear((self._head,), load.decode_sequences + min(1, load.prefill_tokens), degrees.tp)

    def _exchanges(self, degrees: Degrees, load: Load, compressed: bool) -> tuple[tuple[float, float] | None, ...]:
        """For each class of layers, seconds of its exchanges and how much of them hides behind work."""
        tokens = load.prefill_tokens / degrees.cp + load.decode_sequences
        key = (degrees.tp, degrees.cp, degrees.ep, degrees.etp, degrees.attention_dp, tokens, compressed)
        if key not in self._link_s:
            self._link_s[key] = tuple(self._exchange(kind, degrees, tokens, compressed) for kind in self.classes)
        return self._link_s[key]

    def _exchange(self, kind: LayerClass, degrees: Degrees, tokens: float, compressed: bool) -> tuple[float, float] | None:
        element = 1 if compressed else ACTIVATION_BYTES
        message = tokens * (self.spec.hidden_size or 0) * element
        reduced = self.network.all_reduce(message, degrees.tp)
        if reduced is None:
            return None
        routed = kind.feed_forward is not None and kind.feed_forward.routed_experts > 0
        apart = routed and degrees.attention_dp > 1
        total = reduced * (len(kind.mixers) > 0) + reduced * (kind.feed_forward is not None and not apart)
        if degrees.cp > 1 and kind.mixers:
            circled = self.network.all_gather(tokens * degrees.cp * _cached_width(kind) * element, degrees.cp, degrees.tp)
            if circled is None:
                return None
            total += circled
        if not apart:
            return total, 0.0
        assert kind.feed_forward is not None
        sent = self._dispatch(kind.feed_forward, degrees, tokens, element)
        return None if sent is None else (total + sent, sent * self.figures["overlap"])

    def _dispatch(self, feed_forward: FeedForward, degrees: Degrees, tokens: float, element: int) -> float | None:
        """Tokens to the ranks of their experts and back: pairwise to those ranks only, or gathered by all and reduced (the
        faster is taken). The ranks of a tensor-parallel group each send their share of its tokens."""
        size, stride = degrees.tp * degrees.attention_dp, degrees.cp
        width = feed_forward.latent_size or self.spec.hidden_size or 0
        reached = degrees.ep * (1 - (1 - 1 / degrees.ep) ** feed_forward.experts_per_token)
        pairwise = self.network.all_to_all(tokens / degrees.tp * reached * degrees.etp * width * element, size, stride)
        gathered = self.network.all_gather(tokens * degrees.attention_dp * width * element, size, stride)
        if pairwise is None or gathered is None:
            return None
        inside = self.network.all_gather(tokens * width * element, degrees.tp) if degrees.tp > 1 else 0.0
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


def _classes(layers: Iterable[Layer]) -> tuple[tuple[LayerClass, ...], tuple[int, ...]]:
    found: dict[LayerClass, int] = {}
    of = []
    for layer in layers:
        kind = LayerClass(layer.mixers, layer.feed_forward)
        of.append(found.setdefault(kind, len(found)))
    return tuple(found), tuple(of)
