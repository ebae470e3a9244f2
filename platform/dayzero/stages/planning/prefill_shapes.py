"""Shapes of prefill instances: what each serves, which are the best, and how many of them a rate takes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import floor

from dayzero.domain.costs import Load
from dayzero.domain.plan import MemoryBudget
from dayzero.domain.planning import Choices, Degrees, Objective
from dayzero.stages.cost.serving import ServingCost, waiting_s
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.planning.best_first import BestFirst
from dayzero.stages.planning.search import Search

SHAPES = 3
BUSY = 0.8
"""The most of its time that a prefill pool works where no time to first token is asked for: there a prompt waits twice as long
as it takes (M/D/1, as in `cost.serving`), and without bound as the pool gets busier."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """A shape of prefill instances: requests a second and seconds of a prompt on one of them."""

    degrees: Degrees
    choices: Choices
    requests_per_s: float
    ttft_s: float

    @property
    def device_s(self) -> float:
        """Seconds of a device for each prompt."""
        return self.degrees.world / self.requests_per_s


@dataclass(frozen=True, slots=True)
class _Kin:
    """Shapes that differ in their pipeline degrees alone, and what none of them takes less than."""

    shapes: tuple[Degrees, ...]
    choices: Choices
    ttft_s: float
    device_s: float


def prefill_shapes(search: Search, serving: ServingCost, devices: int) -> list[Prefill]:
    """The shapes that serve most prompts a device and fit, or the rate with the fewest devices, best first; those that cannot
    meet the target last."""
    workload, moved = search.workload, transfer_s(search, Choices())
    soonest = workload.ttft_s - (moved or 0.0) if workload.ttft_s is not None else None

    def key(one: Prefill | _Kin) -> tuple[float, ...]:
        late = soonest is not None and one.ttft_s > soonest
        if workload.objective is Objective.LATENCY:
            return (late, one.ttft_s)
        if workload.rate_per_s is None:
            return (late, one.device_s)
        if isinstance(one, _Kin):
            return (late, workload.rate_per_s * one.device_s)
        return (late, instances_for(one, workload.rate_per_s, soonest, devices) * one.degrees.world)

    def nearer(one: Prefill | _Kin) -> Iterator[Prefill]:
        assert isinstance(one, _Kin)
        members = (prefilling(serving, degrees, one.choices) for degrees in one.shapes)
        return (member for member in members if member is not None)

    kinds: Iterable[Prefill | _Kin] = _prefills(search, devices)
    queue = BestFirst(kinds, key, lambda one: isinstance(one, _Kin), nearer)
    fitting = (one for one in queue if isinstance(one, Prefill) and fullest_of(search, one.degrees, one.choices, 1) is not None)
    return list(islice(fitting, SHAPES))


def _prefills(search: Search, devices: int) -> Iterator[_Kin]:
    """All shapes for fewer than all devices. A prompt passes all layers, in each chunk, on tp × cp devices at a time."""
    least = search.estimator.floor
    assert least is not None
    members: dict[tuple[int, int, int, int, Choices], dict[int, Degrees]] = {}
    for degrees, choices in search.asked:
        # A shape is the first of these and its pp: all plans that differ in dp alone have one.
        held_by_pp = members.setdefault((degrees.tp, degrees.cp, degrees.ep, degrees.etp, choices), {})
        if degrees.pp not in held_by_pp:
            held_by_pp[degrees.pp] = shape_of(degrees)
    for (tp, cp, _, _, choices), by_pp in members.items():
        held = tuple(shape for shape in by_pp.values() if shape.world < devices)
        if not held:
            continue
        passage = least.passage_s(held[0], choices, _prefill_load(least, choices))
        if passage is not None:
            yield _Kin(held, choices, passage, least.chunks(choices)[0] * passage * tp * cp)


def _prefill_load(serving: ServingCost, choices: Choices) -> Load:
    return Load(serving.chunks(choices)[1], serving.prompt // 2, 0, 0)


def prefilling(serving: ServingCost, degrees: Degrees, choices: Choices) -> Prefill | None:
    """What one instance of a shape serves; None when a link's figures are missing."""
    step = serving.slowest_s(degrees, choices, _prefill_load(serving, choices))
    if step is None:
        return None
    chunks, _ = serving.chunks(choices)
    return Prefill(degrees, choices, degrees.dp / (chunks * step), (chunks + degrees.pp - 1) * step)


def instances_for(prefill: Prefill, rate: float, ttft_s: float | None, most: int) -> int:
    """The fewest prefill instances that keep up with a rate and meet a target; more than `most` when none do."""
    count = min(floor(rate / prefill.requests_per_s), most) + 1
    while count <= most and not _soon_enough(prefill, rate / (count * prefill.requests_per_s), ttft_s):
        count += 1
    return count


def _soon_enough(prefill: Prefill, busy: float, ttft_s: float | None) -> bool:
    return busy <= BUSY if ttft_s is None else prefill.ttft_s + waiting_s(busy, prefill.ttft_s) <= ttft_s


def shape_of(degrees: Degrees) -> Degrees:
    """One instance: as many replicas as share one set of experts."""
    return Degrees(degrees.tp, degrees.pp, degrees.ep, degrees.attention_dp, degrees.cp, degrees.etp)


def transfer_s(search: Search, choices: Choices) -> float | None:
    """Seconds that the cache of one prompt takes from pool to pool; None when no link is stated."""
    serving = search.estimator.likely
    assert serving is not None
    slowest = serving.steps.network.slowest_bytes_per_s
    if slowest is None:
        return None
    alone = search.memory.model(Degrees(), 1).items(Degrees(), choices, 0).get("state", 0)
    return alone * serving.prompt / max(1, search.workload.context_tokens) / slowest


def fullest_of(search: Search, degrees: Degrees, choices: Choices, sequences: int) -> MemoryBudget | None:
    """The fullest rank of a plan that fits; None when it does not, or is not possible."""
    try:
        fullest = search.memory.fullest(degrees, choices, sequences)
    except UncuttableError:
        return None
    return fullest if fullest.limit_bytes is None or fullest.total_bytes <= fullest.limit_bytes else None
