"""One step of a model on one pipeline stage: seconds by operator and by link, for any degrees."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dayzero.domain.architecture import Layer, ModelSpec
from dayzero.domain.costs import Efficiencies, Load, Matrix, Operation
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.cost.efficiency import figures_of
from dayzero.stages.cost.exchanges import Exchanges, LayerClass
from dayzero.stages.cost.feed_forward import expert_share, expert_slices, feed_forward_operations, permutation
from dayzero.stages.cost.links import Network
from dayzero.stages.cost.matrices import feed_forward_matrices, head_matrix, mixer_matrices
from dayzero.stages.cost.mixers import ACTIVATION_BYTES, core_operations, linear, mixer_operations
from dayzero.stages.cost.rates import Rates
from dayzero.stages.cost.roofline import Line, Roofline

_RESIDUAL_PASSES = 8
"""Times that norms, residual additions and rotary embeddings read or write a token's hidden state in one layer."""


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds of one operator or exchange of a step: compute, memory or a link's name is what binds it."""

    what: str
    resource: str
    seconds: float
    hidden_s: float = 0.0


class StepCost:
    """Seconds of a step of one model on one platform, at one bound of the efficiencies. Answers are kept: a search asks for
    the same layer under thousands of plans."""

    def __init__(
        self, spec: ModelSpec, profile: PlatformProfile, rates: Rates, efficiencies: Efficiencies, bound: str = "likely"
    ) -> None:
        self.spec = spec
        figures: Mapping[str, float] = figures_of(efficiencies, bound)
        self.figures = figures
        assert profile.memory_bandwidth_bytes_per_s is not None
        self.roofline = Roofline(profile.memory_bandwidth_bytes_per_s.value, rates.by_scheme, figures)
        self.network = Network(
            profile, figures["link"], figures["wide_link"], figures["collective_s"], figures["wide_collective_s"]
        )
        self.classes, self.class_of = _classes(spec.layers)
        self._exchanged = Exchanges(self.classes, spec.hidden_size or 0, self.network, figures)
        self._matrices = [[(mixer, mixer_matrices(spec, mixer)) for mixer in kind.mixers] for kind in self.classes]
        self._forward = [feed_forward_matrices(spec, kind.feed_forward) for kind in self.classes]
        self._head = head_matrix(spec)
        self._lines: dict[tuple[str, int, int], tuple[Line, ...]] = {}
        self._mixing_s: dict[tuple[int, int, Load, float], tuple[float, ...]] = {}
        self._linear_s: dict[tuple[int, float], tuple[tuple[float, ...], ...]] = {}
        self._forward_s: dict[tuple[int, int, int, float], tuple[float, ...]] = {}
        self._layer_s: dict[tuple[int, int, int, int, Load, float, bool], tuple[float, ...] | None] = {}
        self._head_s: dict[tuple[int, int], float] = {}

    def stage_s(self, counts: Iterable[tuple[int, int]], degrees: Degrees, load: Load, cache: float, *, head: bool,
                compressed: bool = False) -> float | None:  # fmt: skip
        """Seconds of one step on a stage with so many layers of each class; None when a link's figures are missing."""
        times = self.layer_s(degrees, load, cache, compressed)
        if times is None:
            return None
        total = self.figures["step_s"] + sum(count * times[kind] for kind, count in counts)
        return total + self.sampling_s(degrees, load) if head else total

    def sampling_s(self, degrees: Degrees, load: Load) -> float:
        """The head's part of a step: only the last position of a prompt is sampled from."""
        key = (degrees.tp, _sampled(load))
        if key not in self._head_s:
            self._head_s[key] = self.head_s(key[1], degrees.tp)
        return self._head_s[key]

    def layer_s(self, degrees: Degrees, load: Load, cache: float, compressed: bool) -> tuple[float, ...] | None:
        """Seconds of one layer of each class, exchanges and all; None when a link's figures are missing."""
        key = (degrees.tp, degrees.cp, degrees.ep, degrees.etp, load, cache, compressed)
        if key not in self._layer_s:
            self._layer_s[key] = self._layers(degrees, load, cache, compressed)
        return self._layer_s[key]

    def exchange_s(
        self, counts: Iterable[tuple[int, int]], degrees: Degrees, load: Load, *, compressed: bool = False
    ) -> float | None:
        """What the exchanges between ranks are of `stage_s`."""
        exchanged = self._exchanged.of(degrees, _tokens(degrees, load), compressed)
        if exchanged is None:
            return None
        return sum(count * (exchanged[kind][0] - exchanged[kind][1]) for kind, count in counts)

    def head_s(self, tokens: float, tp: int) -> float:
        """Logits of so many tokens on one of tp ranks."""
        return self.roofline.total_s(linear((self._head,), tokens, tp))

    def matrices_of(self, kind: int) -> tuple[tuple[Matrix, ...], tuple[Matrix, ...], int]:
        """The matrices of one class of layers: for every token, of one expert, and how many experts there are."""
        feed_forward = self.classes[kind].feed_forward
        mixing = [matrix for _, matrices in self._matrices[kind] for matrix in matrices]
        held = feed_forward.routed_experts if feed_forward is not None else 0
        return (*mixing, *self._forward[kind].always), self._forward[kind].expert, held

    def operations(self, kind: int, degrees: Degrees, load: Load, cache: float) -> tuple[Operation, ...]:
        """The operators of one layer of a class on one rank."""
        tokens, forward = _tokens(degrees, load), self.classes[kind].feed_forward
        found = [self._norms(tokens)]
        for mixer, matrices in self._matrices[kind]:
            found += mixer_operations(mixer, matrices, load, degrees.tp, degrees.cp, cache)
        if forward is not None:
            found += feed_forward_operations(forward, self._forward[kind], tokens, degrees, self.figures["imbalance"])
        return tuple(found)

    def parts(self, counts: Iterable[tuple[int, int]], degrees: Degrees, load: Load, cache: float, *, head: bool,
              compressed: bool = False) -> tuple[Part, ...]:  # fmt: skip
        """What `stage_s` sums, one part for each operator of each class of layers and each exchange."""
        exchanged = self._exchanged.of(degrees, _tokens(degrees, load), compressed)
        roofline = self.roofline
        found: list[Part] = [Part("step", "launch", self.figures["step_s"])]
        for kind, count in counts:
            for operation in self.operations(kind, degrees, load, cache):
                found.append(Part(operation.what, roofline.binding(operation), count * roofline.seconds(operation)))
            link = exchanged[kind] if exchanged is not None else (0.0, 0.0)
            if link[0]:
                far = self.network.farthest(degrees.tp * degrees.attention_dp, 1)
                found.append(Part("exchange between ranks", far, count * link[0], count * link[1]))
        if head:
            heads = linear((self._head,), _sampled(load), degrees.tp)
            found += [Part(one.what, roofline.binding(one), roofline.seconds(one)) for one in heads]
        return tuple(found)

    def _layers(self, degrees: Degrees, load: Load, cache: float, compressed: bool) -> tuple[float, ...] | None:
        tokens = _tokens(degrees, load)
        exchanged = self._exchanged.of(degrees, tokens, compressed)
        if exchanged is None:
            return None
        apart = zip(self._mixing(degrees, load, cache), self._forwards(degrees, tokens), exchanged, strict=True)
        return tuple([mixing + forward + link - hidden for mixing, forward, (link, hidden) in apart])

    def _mixing(self, degrees: Degrees, load: Load, cache: float) -> tuple[float, ...]:
        """Norms and mixers of one layer of each class: what `operations` has of them."""
        key = (degrees.tp, degrees.cp, load, cache)
        if key not in self._mixing_s:
            tokens = _tokens(degrees, load)
            norms, found = self.roofline.seconds(self._norms(tokens)), []
            for mixers, linear_s in zip(self._matrices, self._linear(degrees.tp, tokens), strict=True):
                total = norms
                for (mixer, _), seconds in zip(mixers, linear_s, strict=True):
                    total += seconds
                    total += self.roofline.total_s(core_operations(mixer, load, degrees.tp, degrees.cp, cache))
                found.append(total)
            self._mixing_s[key] = tuple(found)
        return self._mixing_s[key]

    def _linear(self, tp: int, tokens: float) -> tuple[tuple[float, ...], ...]:
        """The projections of each mixer of each class, from lines worked out once, whatever the cache holds."""
        key = (tp, tokens)
        if key not in self._linear_s:
            self._linear_s[key] = tuple(
                tuple(self.roofline.lines_s(self._lines_of(f"mixer {at}", kind, tp, matrices), tokens)
                      for at, (_, matrices) in enumerate(mixers))
                for kind, mixers in enumerate(self._matrices)
            )  # fmt: skip
        return self._linear_s[key]

    def _forwards(self, degrees: Degrees, tokens: float) -> tuple[float, ...]:
        """The feed-forward of one layer of each class: what `operations` has of it; equal ones are worked out once."""
        key = (degrees.tp, degrees.ep, degrees.etp, tokens)
        if key not in self._forward_s:
            known: dict[object, float] = {}
            for kind, one in enumerate(self.classes):
                if one.feed_forward not in known:
                    known[one.feed_forward] = self._feed_forward(kind, degrees, tokens)
            self._forward_s[key] = tuple([known[one.feed_forward] for one in self.classes])
        return self._forward_s[key]

    def _feed_forward(self, kind: int, degrees: Degrees, tokens: float) -> float:
        forward, matrices = self.classes[kind].feed_forward, self._forward[kind]
        if forward is None:
            return 0.0
        total = self.roofline.lines_s(self._lines_of("always", kind, degrees.tp, matrices.always), tokens)
        if forward.routed_experts:
            pairs, touched = expert_share(forward, tokens, degrees, self.figures["imbalance"])
            slices = expert_slices(degrees)
            key = ("experts", kind, slices)
            if key not in self._lines:
                self._lines[key] = self.roofline.lines(matrices.expert, slices, slices, "experts", "expert_stream")
            total += self.roofline.lines_s(self._lines[key], pairs, touched)
            total += self.roofline.seconds(permutation(matrices, pairs))
        return total

    def _lines_of(self, name: str, kind: int, tp: int, matrices: tuple[Matrix, ...]) -> tuple[Line, ...]:
        key = (name, kind, tp)
        if key not in self._lines:
            self._lines[key] = self.roofline.lines(matrices, None, tp, "gemm", "stream")
        return self._lines[key]

    def _norms(self, tokens: float) -> Operation:
        moved = _RESIDUAL_PASSES * self.spec.residual_streams * tokens * (self.spec.hidden_size or 0) * ACTIVATION_BYTES
        return Operation("norms and residual", 0.0, moved, "native", "gemm", "stream", 4)


def _tokens(degrees: Degrees, load: Load) -> float:
    """Tokens that go through every matrix of a rank: prefill is shared by context-parallel ranks."""
    return load.prefill_tokens / degrees.cp + load.decode_sequences


def _sampled(load: Load) -> int:
    return load.decode_sequences + min(1, load.prefill_tokens)


def _classes(layers: Iterable[Layer]) -> tuple[tuple[LayerClass, ...], tuple[int, ...]]:
    found: dict[LayerClass, int] = {}
    of = []
    for layer in layers:
        kind = LayerClass(layer.mixers, layer.feed_forward)
        of.append(found.setdefault(kind, len(found)))
    return tuple(found), tuple(of)
