"""Prefill and decode on devices of their own: two pools, and how many devices each gets.

A prefill instance serves one prompt after the other, a decode replica its sequences without any chunk beside them; a prompt's
cache travels between them over the slowest link that the platform states. The pools are matched: as many prefill instances as
the decoders' requests need (rate matching, DistServe, arXiv 2401.09670, section 4). Decode shapes are the best few dozen of
the search for both together, prefill shapes all of them: a good plan, not a proven best one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil

from dayzero.domain.costs import Load
from dayzero.domain.plan import Estimates, Interval, MemoryBudget, PrefillPool, Term
from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.cost.serving import Served, ServingCost
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.planning.best_first import BestFirst
from dayzero.stages.planning.ranking import Candidate
from dayzero.stages.planning.search import Search

_DECODE_SHAPES = 48
_PREFILL_SHAPES = 3


@dataclass(frozen=True, slots=True)
class Apart:
    """Two matched pools: how decoding is divided, what it reaches, and the prefill pool."""

    candidate: Candidate
    served: Served
    pool: PrefillPool


@dataclass(frozen=True, slots=True)
class _Prefill:
    degrees: Degrees
    choices: Choices
    requests_per_s: float
    ttft_s: float

    @property
    def device_s(self) -> float:
        """Seconds of a device for each prompt."""
        return self.degrees.world / self.requests_per_s


@dataclass(frozen=True, slots=True)
class _Prefills:
    """Shapes that differ in their pipeline degrees alone, and what none of them takes less than."""

    shapes: tuple[Degrees, ...]
    choices: Choices
    ttft_s: float
    device_s: float


def best_apart(search: Search, devices: int) -> Apart | None:
    """The best pair of pools by the workload's objective that meets its targets; None where there is none, where a link's
    figures are missing, and for other objectives than throughput and latency."""
    serving, workload = search.estimator.likely, search.workload
    wanted = workload.objective in (Objective.THROUGHPUT, Objective.LATENCY)
    if serving is None or not wanted or workload.training is not None or workload.rate_per_s is not None or devices < 2:
        return None
    prefills = _prefill_shapes(search, serving, devices)
    shapes = _distinct((_shape(one.degrees), one.choices) for one in search.ranked() if one.served is not None)
    best: Apart | None = None
    for degrees, choices in islice(shapes, _DECODE_SHAPES):
        for prefill in prefills:
            found = _matched(search, serving, degrees, choices, prefill, devices)
            if found is not None and (best is None or _better(found, best, workload)):
                best = found
    return best


def _shape(degrees: Degrees) -> Degrees:
    """One instance: as many replicas as share one set of experts."""
    return Degrees(degrees.tp, degrees.pp, degrees.ep, degrees.attention_dp, degrees.cp, degrees.etp)


def _better(one: Apart, other: Apart, workload: Workload) -> bool:
    if workload.objective is Objective.LATENCY:
        own, its = (found.served.ttft_s + found.served.tpot_s * workload.generated_tokens for found in (one, other))
        return own < its
    return one.served.tokens_per_s > other.served.tokens_per_s


def _distinct(shapes: Iterable[tuple[Degrees, Choices]]) -> Iterator[tuple[Degrees, Choices]]:
    seen = set()
    for shape in shapes:
        if shape not in seen:
            seen.add(shape)
            yield shape


def _prefill_shapes(search: Search, serving: ServingCost, devices: int) -> list[_Prefill]:
    """The shapes that serve most prompts a device and fit, best first."""
    soonest = search.workload.objective is Objective.LATENCY

    def key(one: _Prefill | _Prefills) -> tuple[float, ...]:
        return (one.ttft_s,) if soonest else (one.device_s,)

    def nearer(one: _Prefill | _Prefills) -> Iterator[_Prefill]:
        assert isinstance(one, _Prefills)
        members = (_prefilling(serving, degrees, one.choices) for degrees in one.shapes)
        return (member for member in members if member is not None)

    kinds: Iterable[_Prefill | _Prefills] = _prefills(search, devices)
    queue = BestFirst(kinds, key, lambda one: isinstance(one, _Prefills), nearer)
    fitting = (one for one in queue if isinstance(one, _Prefill) and _fullest(search, one.degrees, one.choices, 1) is not None)
    return list(islice(fitting, _PREFILL_SHAPES))


def _prefills(search: Search, devices: int) -> Iterator[_Prefills]:
    """All shapes for fewer than all devices. A prompt passes all layers, in each chunk, on tp × cp devices at a time."""
    floor = search.estimator.floor
    assert floor is not None
    members: dict[tuple[int, int, int, int, Choices], dict[Degrees, None]] = {}
    for degrees, choices in search.asked:
        shape = _shape(degrees)
        if shape.world < devices:
            members.setdefault((shape.tp, shape.cp, shape.ep, shape.etp, choices), {})[shape] = None
    for (tp, cp, _, _, choices), shapes in members.items():
        held = tuple(shapes)
        passage = floor.passage_s(held[0], choices, _prefill_load(floor, choices))
        if passage is not None:
            yield _Prefills(held, choices, passage, floor.chunks(choices)[0] * passage * tp * cp)


def _prefill_load(serving: ServingCost, choices: Choices) -> Load:
    return Load(serving.chunks(choices)[1], serving.prompt // 2, 0, 0)


def _prefilling(serving: ServingCost, degrees: Degrees, choices: Choices) -> _Prefill | None:
    step = serving.slowest_s(degrees, choices, _prefill_load(serving, choices))
    if step is None:
        return None
    chunks, _ = serving.chunks(choices)
    return _Prefill(degrees, choices, degrees.dp / (chunks * step), (chunks + degrees.pp - 1) * step)


def _matched(
    search: Search, serving: ServingCost, degrees: Degrees, choices: Choices, prefill: _Prefill, devices: int
) -> Apart | None:
    """As many decode replicas as leave room for the prefill instances that they keep busy."""

    def pools(count: int) -> tuple[Served, int] | None:
        wide = replace(degrees, dp=degrees.dp * count)
        return _served(serving, wide, choices, prefill, None)

    low, high = 0, devices // degrees.world
    while low < high:
        middle = (low + high + 1) // 2
        found = pools(middle)
        if found is None:
            return None
        fits = middle * degrees.world + found[1] * prefill.degrees.world <= devices
        low, high = (middle, high) if fits else (low, middle - 1)
    if low == 0 or (matched := pools(low)) is None:
        return None
    return _judged(search, replace(degrees, dp=degrees.dp * low), choices, prefill, *matched)


def _served(
    serving: ServingCost, degrees: Degrees, choices: Choices, prefill: _Prefill, instances: int | None
) -> tuple[Served, int] | None:
    """What both pools reach, and the prefill instances (None: as many as it takes). Where prefill cannot keep up with the
    decoders, they wait for it."""
    concurrency = serving.workload.concurrency
    sequences = -(-concurrency // degrees.dp)
    step = serving.slowest_s(degrees, choices, serving.loads(-(-sequences // min(degrees.pp, sequences)), choices)[1])
    if step is None:
        return None
    tpot = degrees.pp * step
    requests = min(concurrency, sequences * degrees.dp) / tpot / serving.generated
    count = instances if instances is not None else max(1, ceil(requests / prefill.requests_per_s))
    served = min(requests, count * prefill.requests_per_s)
    busy = min(0.999, served / (count * prefill.requests_per_s))
    wait = min(busy / (2 * (1 - busy)), concurrency / 2) * prefill.ttft_s
    return Served(prefill.ttft_s + wait, tpot, served * serving.generated, sequences, busy, wait), count


def apart_estimates(estimator: Estimator, apart: Apart) -> Estimates:
    """The pair's estimates with intervals, and what they are made of."""
    degrees, choices, pool = apart.candidate.degrees, apart.candidate.choices, apart.pool
    asked = Choices(cache_dtype=choices.cache_dtype, chunk_tokens=pool.chunk_tokens)
    found: list[Served] = []
    for serving in estimator.bounds.values():
        prefill = _prefilling(serving, pool.degrees, asked)
        both = _served(serving, degrees, choices, prefill, pool.instances) if prefill is not None else None
        found.append(both[0] if both is not None else apart.served)
    likely = apart.served
    terms = (Term("decode", "decode steps", "decode pool", likely.tpot_s),
             Term("prefill", "prefill steps", "prefill pool", likely.ttft_s - likely.wait_s - pool.transfer_s),
             Term("prefill", "waiting behind other prompts", "queue", likely.wait_s),
             Term("prefill", "the cache travels to its decoder", "slowest link", pool.transfer_s))  # fmt: skip
    ttft = [one.ttft_s + pool.transfer_s for one in found]
    tpot, rate = [one.tpot_s for one in found], [one.tokens_per_s for one in found]
    return Estimates(
        Interval(min(*ttft, likely.ttft_s), likely.ttft_s, max(*ttft, likely.ttft_s)),
        Interval(min(*tpot, likely.tpot_s), likely.tpot_s, max(*tpot, likely.tpot_s)),
        Interval(min(*rate, likely.tokens_per_s), likely.tokens_per_s, max(*rate, likely.tokens_per_s)),
        terms=terms,
    )


def _judged(
    search: Search, degrees: Degrees, choices: Choices, prefill: _Prefill, served: Served, instances: int
) -> Apart | None:
    workload = search.workload
    moved = _transfer_s(search, choices)
    if moved is None:
        return None
    served = replace(served, ttft_s=served.ttft_s + moved)
    if workload.tpot_s is not None and served.tpot_s > workload.tpot_s:
        return None
    if workload.ttft_s is not None and served.ttft_s > workload.ttft_s:
        return None
    held = _fullest(search, prefill.degrees, prefill.choices, 1)
    decoding = replace(choices, prefill_devices=instances * prefill.degrees.world)
    if held is None or _fullest(search, degrees, decoding, served.sequences) is None:
        return None
    rate = instances * prefill.requests_per_s
    pool = PrefillPool(prefill.degrees, instances, prefill.choices.chunk_tokens, rate, moved, held)
    return Apart(Candidate(degrees, decoding, served), served, pool)


def _transfer_s(search: Search, choices: Choices) -> float | None:
    """Seconds that the cache of one prompt takes from pool to pool; None when no link is stated."""
    serving = search.estimator.likely
    assert serving is not None
    slowest = serving.steps.network.slowest_bytes_per_s
    if slowest is None:
        return None
    alone = search.memory.model(Degrees(), 1).items(Degrees(), choices, 0).get("state", 0)
    return alone * serving.prompt / max(1, search.workload.context_tokens) / slowest


def _fullest(search: Search, degrees: Degrees, choices: Choices, sequences: int) -> MemoryBudget | None:
    try:
        fullest = search.memory.fullest(degrees, choices, sequences)
    except UncuttableError:
        return None
    return fullest if fullest.limit_bytes is None or fullest.total_bytes <= fullest.limit_bytes else None
