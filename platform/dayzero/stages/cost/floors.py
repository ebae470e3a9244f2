"""How fast a plan could be at most, by the arithmetic of `ServingCost` over steps that no real one is shorter than.

Whatever the division of layers, the slowest of pp stages takes at least its even share of all layers and the head, and it has
at least ⌈layers / pp⌉ of them. A step takes no less with more sequences, so their number is rounded down to a power of two, and
hundreds of plans ask for the same layers. A search then works out the times of those plans alone that could come first.
"""

from collections import Counter
from dataclasses import dataclass

from dayzero.domain.costs import Load
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.stages.cost.serving import Served, ServingCost
from dayzero.stages.cost.steps import StepCost

_KEPT_BITS = 1
_SLACK = 1 - 1e-9
"""Sums in another order differ in their last digits: a floor stays below by more than that."""


@dataclass(frozen=True, slots=True)
class _Least:
    """Seconds of all layers and the head on one stage, and of the shortest layer."""

    whole_s: float
    layer_s: float


class ServingFloor(ServingCost):
    """The least times and the most throughput that a plan can have; every answer bounds the one of `ServingCost`, and a plan's
    is None exactly where that one's is."""

    def __init__(self, steps: StepCost, workload: Workload) -> None:
        super().__init__(steps, workload)
        self._counts = tuple(Counter(steps.class_of).items())
        self._layers = len(steps.class_of)
        self._leasts: dict[tuple[int, int, int, int, int, Choices], tuple[_Least, _Least] | None] = {}

    def steps_s(self, degrees: Degrees, choices: Choices, sequences: int) -> tuple[float, float] | None:
        leasts = self._both(degrees, choices, _rounded(sequences))
        hop_s = self.shortest_hop_s(degrees) if degrees.pp > 1 else 0.0
        if leasts is None or hop_s is None:
            return None
        return self._stage_s(leasts[0], degrees.pp) + hop_s, self._stage_s(leasts[1], degrees.pp) + hop_s

    def passage_s(self, degrees: Degrees, choices: Choices, load: Load) -> float | None:
        """Seconds of a step on all stages together, whatever pp and dp are."""
        least = self._least(degrees, choices, load)
        return None if least is None else least.whole_s

    def together(self, degrees: Degrees, choices: Choices, sequences: int, each: float) -> Served | None:
        """What no plan is faster than that has these tp, cp, ep and etp, at least so many sequences in a micro-batch, and
        `each` on each stage, whatever its pp and dp.

        A token passes all layers, and while a replica's sequences are served each stage carries their chunks: with M and D the
        seconds of all layers with and without a chunk, tpot ≥ (u n M + max(0, g − u n) D) / g for u ≥ 1 sequences a stage.
        """
        leasts = self._both(degrees, choices, _rounded(sequences))
        if leasts is None:
            return None
        mixed, decode = leasts[0].whole_s, leasts[1].whole_s
        carrying = each * self.chunks(choices)[0]
        busy = carrying * mixed + max(0.0, self.generated - carrying) * decode
        tpot = max(decode, busy / self.generated) if each >= 1 else decode
        return Served(mixed, tpot * _SLACK, self.workload.concurrency / (tpot * _SLACK), sequences, 0.0, 0.0)

    def _both(self, degrees: Degrees, choices: Choices, few: int) -> tuple[_Least, _Least] | None:
        key = (degrees.tp, degrees.cp, degrees.ep, degrees.etp, few, choices)
        if key not in self._leasts:
            mixed, decode = (self._least(degrees, choices, load) for load in self.loads(few, choices))
            self._leasts[key] = None if mixed is None or decode is None else (mixed, decode)
        return self._leasts[key]

    def _stage_s(self, least: _Least, pp: int) -> float:
        return self.steps.figures["step_s"] + max(least.whole_s / pp, -(-self._layers // pp) * least.layer_s)

    def _least(self, degrees: Degrees, choices: Choices, load: Load) -> _Least | None:
        times = self.steps.layer_s(degrees, load, self.cache_bytes(choices), choices.compressed)
        if times is None:
            return None
        whole = sum(count * times[kind] for kind, count in self._counts) + self.steps.sampling_s(degrees, load)
        return _Least(whole * _SLACK, min(times, default=0.0) * _SLACK)


def _rounded(sequences: int) -> int:
    spare = max(0, sequences.bit_length() - _KEPT_BITS)
    return sequences >> spare << spare
