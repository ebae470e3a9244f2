"""Serving estimates: time to first token, time per token and throughput of a plan under a load, from the cost of its steps.

Continuous batching with chunked prefill: a replica serves `b` sequences in as many micro-batches as there are pipeline
stages (fewer when there are fewer sequences). While every sequence generates `g` tokens, each is replaced once, whose prompt
takes `n` chunks. So of all steps that a replica takes meanwhile, `b × n` carry a chunk beside the decoding sequences, and the
time per token is (b n t_mixed + max(0, g m − b n) t_decode) / g with m micro-batches, and at least one passage of the pipeline.
A prompt waits for those before it as in M/D/1: ρ S / (2 (1 − ρ)) (Pollaczek–Khinchine with fixed service time; Kleinrock,
Queueing Systems I, 5.6), and never longer than half of the others take in turn; ρ is the share of a replica's steps that carry
a chunk.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.costs import Load
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.stages.cost.mixers import ACTIVATION_BYTES
from dayzero.stages.cost.steps import StepCost
from dayzero.stages.layout.laying import stage_layers
from dayzero.stages.memory.state_of_sequence import cache_element_bytes

MOST_SEQUENCES = 4096
"""More sequences on one replica are not asked for when a rate decides how many there are."""


Kinds = tuple[tuple[tuple[tuple[int, int], ...], bool], ...]
"""Stages that differ: layers of each class, and whether the head is there."""


@dataclass(frozen=True, slots=True)
class Served:
    """Times of one plan: seconds to the first token and for each next one, output tokens/s of all devices, sequences at once
    on a replica, how busy prefill is (1: overloaded) and how long a prompt waits."""

    ttft_s: float
    tpot_s: float
    tokens_per_s: float
    sequences: int
    prefill_load: float
    wait_s: float


@dataclass(frozen=True, slots=True)
class Pace:
    """A replica's times at so many sequences: both kinds of step, and what follows from them."""

    mixed_s: float
    decode_s: float
    tpot_s: float
    prefill_s: float
    prefill_load: float


class ServingCost:
    """Answers what a plan would reach; None where a figure is missing."""

    def __init__(self, steps: StepCost, workload: Workload) -> None:
        self.steps = steps
        self.workload = workload
        self.generated = min(workload.generated_tokens, workload.context_tokens)
        self.prompt = max(1, workload.context_tokens - self.generated)
        self._stages: dict[int, Kinds] = {}
        self._decoded: tuple[tuple[Degrees, Load, int, bool] | None, float | None] = (None, None)
        self._native_cache = cache_element_bytes(steps.spec.state.dtype)

    def cache_bytes(self, choices: Choices) -> int:
        """Bytes of one cached element."""
        return cache_element_bytes(choices.cache_dtype) if choices.cache_dtype else self._native_cache

    def chunks(self, choices: Choices) -> tuple[int, int]:
        """Steps that a prompt takes and tokens in each."""
        taken = min(self.prompt, choices.chunk_tokens or self.prompt)
        return -(-self.prompt // taken), taken

    def loads(self, sequences: int, choices: Choices) -> tuple[Load, Load]:
        """The load of a step that carries a chunk and of one that only decodes, on one stage."""
        _, taken = self.chunks(choices)
        seen = self.prompt + self.generated // 2
        return Load(taken, self.prompt // 2, sequences, seen), Load(0, 0, sequences, seen)

    def served(self, degrees: Degrees, choices: Choices) -> Served | None:
        """The estimate at the workload's concurrency, or at the concurrency that its rate leads to (None too when the rate
        overloads the plan: `overload` has the figures)."""
        if self.workload.rate_per_s is not None:
            sequences = self._sequences_at(degrees, choices, self.workload.rate_per_s / degrees.dp)
            if sequences is None:
                return None
            return self.at(degrees, choices, sequences, self.workload.rate_per_s)
        return self.at(degrees, choices, -(-self.workload.concurrency // degrees.dp), None)

    def at(self, degrees: Degrees, choices: Choices, sequences: int, rate_per_s: float | None) -> Served | None:
        """The estimate with so many sequences on each replica; with a rate prompts arrive at random, else one by one as
        others end."""
        pace = self.pace(degrees, choices, sequences)
        if pace is None:
            return None
        own = pace.prefill_s
        load = min(pace.prefill_load, 0.999)
        wait = min(waiting_s(load, own), (sequences - 1) * own / 2) if sequences > 1 else 0.0
        if rate_per_s is None:
            total = min(self.workload.concurrency, sequences * degrees.dp) / pace.tpot_s
        else:
            total = rate_per_s * self.generated
        return Served(own + wait, pace.tpot_s, total, sequences, pace.prefill_load, wait)

    def pace(self, degrees: Degrees, choices: Choices, sequences: int) -> Pace | None:
        """Times of a replica that serves so many sequences."""
        many = min(degrees.pp, sequences)
        steps = self.steps_s(degrees, choices, -(-sequences // many))
        if steps is None:
            return None
        mixed, decode = steps
        chunks, _ = self.chunks(choices)
        carrying = sequences * chunks
        busy = carrying * mixed + max(0, self.generated * many - carrying) * decode
        # A token passes every stage, however few micro-batches there are.
        tpot = max(busy / self.generated, degrees.pp * decode)
        prefill = (chunks + degrees.pp - 1) * mixed
        return Pace(mixed, decode, tpot, prefill, min(1.0, carrying / (self.generated * many)))

    def steps_s(self, degrees: Degrees, choices: Choices, sequences: int) -> tuple[float, float] | None:
        """Seconds of a step with so many sequences on the slowest stage: with a chunk of prefill, and without."""
        mixed, decode = self.loads(sequences, choices)
        cache = self.cache_bytes(choices)
        slowest_mixed = self._slowest(degrees, choices, mixed, cache)
        # The choices of one division differ in their chunks alone: they decode alike.
        key = (degrees, decode, cache, choices.compressed)
        if self._decoded[0] != key:
            self._decoded = (key, self._slowest(degrees, choices, decode, cache))
        slowest = self._decoded[1]
        return None if slowest_mixed is None or slowest is None else (slowest_mixed, slowest)

    def overload(self, degrees: Degrees, choices: Choices) -> dict[str, float] | None:
        """The most requests a second that the plan serves, with the rate that was asked for; None when figures are missing."""
        best = 0.0
        sequences = 1
        while sequences <= MOST_SEQUENCES:
            pace = self.pace(degrees, choices, sequences)
            if pace is None:
                return None
            best = max(best, degrees.dp * sequences / (pace.tpot_s * self.generated))
            sequences *= 2
        return {"rate_per_s": self.workload.rate_per_s or 0.0, "most_per_s": best}

    def _sequences_at(self, degrees: Degrees, choices: Choices, rate_per_s: float) -> int | None:
        """The fewest sequences at once that keep up with so many requests a second on one replica (Little's law); None when
        no number does."""

        def keeps_up(sequences: int) -> bool | None:
            pace = self.pace(degrees, choices, sequences)
            if pace is None:
                return None
            return sequences / (pace.tpot_s * self.generated + pace.prefill_s) >= rate_per_s

        return fewest_sequences(keeps_up)

    def slowest_s(self, degrees: Degrees, choices: Choices, load: Load) -> float | None:
        """Seconds of one step on the slowest stage, with its hop to the next."""
        return self._slowest(degrees, choices, load, self.cache_bytes(choices))

    def decoding_s(self, degrees: Degrees, choices: Choices, sequences: int) -> float | None:
        """Seconds for each token of so many sequences on a replica that decodes alone."""
        load = self.loads(-(-sequences // min(degrees.pp, sequences)), choices)[1]
        step = self.slowest_s(degrees, choices, load)
        return None if step is None else degrees.pp * step

    def _slowest(self, degrees: Degrees, choices: Choices, load: Load, cache: int) -> float | None:
        times = self.steps.layer_s(degrees, load, cache, choices.compressed)
        if times is None:
            return None
        slowest = 0.0
        for counts, head in self._kinds(degrees.pp):
            seconds = sum([count * times[kind] for kind, count in counts])
            slowest = max(slowest, seconds + self.steps.sampling_s(degrees, load) if head else seconds)
        slowest += self.steps.figures["step_s"]
        if degrees.pp == 1:
            return slowest
        passed = self.hop_s(degrees, load)
        return None if passed is None else slowest + passed

    def _kinds(self, pp: int) -> Kinds:
        if pp not in self._stages:
            self._stages[pp] = _undominated(stage_kinds(self.steps.class_of, pp))
        return self._stages[pp]

    def hop_s(self, degrees: Degrees, load: Load) -> float | None:
        """From one stage to the next: hidden states of the step, cut by tp."""
        tokens = load.prefill_tokens / degrees.cp + load.decode_sequences
        message = tokens * (self.steps.spec.hidden_size or 0) * ACTIVATION_BYTES / degrees.tp
        return self._hop_s(degrees, message)

    def shortest_hop_s(self, degrees: Degrees) -> float | None:
        """The hop of a step without tokens; None where any hop's is."""
        return self._hop_s(degrees, 0.0)

    def _hop_s(self, degrees: Degrees, message: float) -> float | None:
        stride = degrees.tp * degrees.cp * degrees.dp
        return self.steps.network.point_to_point(message, stride, stride * degrees.pp)


def waiting_s(load: float, own_s: float) -> float:
    """How long a prompt waits for those before it when each takes `own_s` and that share of the time is taken (below 1)."""
    return load * own_s / (2 * (1 - load))


def fewest_sequences(keeps_up: Callable[[int], bool | None]) -> int | None:
    """The fewest sequences at once that keep up; None when no number does, or whether one does is not known."""
    high = 1
    while not (enough := keeps_up(high)):
        if enough is None or high >= MOST_SEQUENCES:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps_up(middle) else (middle, high)
    return high


@lru_cache(maxsize=8192)
def stage_kinds(class_of: tuple[int, ...], pp: int) -> Kinds:
    """The distinct stages of a pipeline: layers of each class, and whether the head is there."""
    found: dict[tuple[tuple[tuple[int, int], ...], bool], None] = {}
    for first, last in stage_layers(len(class_of), pp):
        counts: dict[int, int] = {}
        for kind in class_of[first:last]:
            counts[kind] = counts.get(kind, 0) + 1
        found[(tuple(sorted(counts.items())), last == len(class_of))] = None
    return tuple(found)


def _undominated(kinds: Kinds) -> Kinds:
    """Those that another stage does not outdo with at least as many layers of each class, and the head: it is slower."""
    found: list[tuple[tuple[tuple[int, int], ...], bool]] = []
    for counts, head in kinds:
        if not any(_outdoes(other, counts, head) for other in kinds if other != (counts, head)):
            found.append((counts, head))
    return tuple(found) or kinds


def _outdoes(other: tuple[tuple[tuple[int, int], ...], bool], counts: tuple[tuple[int, int], ...], head: bool) -> bool:
    more, its_head = dict(other[0]), other[1]
    return its_head >= head and all(more.get(kind, 0) >= count for kind, count in counts)


def is_servable(spec: ModelSpec) -> bool:
    """Whether the model generates text one token after the other."""
    return any(mixer.causal for layer in spec.layers for mixer in layer.mixers)
