"""Prefill and decode on devices of their own: two pools, and how many devices each gets.

A prefill instance serves one prompt after the other, a decode replica its sequences without any chunk beside them; a prompt's
cache travels between them over the slowest link that the platform states. The pools are matched: as many prefill instances as
the decoders' requests need (rate matching, DistServe, arXiv 2401.09670, section 4); where the workload states a rate, as few
devices of both as keep up with it and meet its targets. Decode shapes are the best few dozen of the search for both together,
prefill shapes all of them: a good plan, not a proven best one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil

from dayzero.domain.plan import Estimates, Interval, PrefillPool, Term
from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.cost.serving import Served, ServingCost, fewest_sequences, waiting_s
from dayzero.stages.memory.step import sequences_of
from dayzero.stages.planning.prefill_shapes import (
    Prefill,
    fullest_of,
    instances_for,
    prefill_shapes,
    prefilling,
    shape_of,
    transfer_s,
)
from dayzero.stages.planning.ranking import Candidate
from dayzero.stages.planning.search import Search

_DECODE_SHAPES = 48


@dataclass(frozen=True, slots=True)
class Apart:
    """Two matched pools: how decoding is divided, what it reaches, and the prefill pool."""

    candidate: Candidate
    served: Served
    pool: PrefillPool

    @property
    def devices(self) -> int:
        """Devices of both pools."""
        return self.candidate.degrees.world + self.pool.devices


def best_apart(search: Search, devices: int) -> Apart | None:
    """The best pair of pools by the workload's objective that meets its targets; None where there is none, where a link's
    figures are missing, and for other objectives than throughput and latency."""
    serving, workload = search.estimator.likely, search.workload
    wanted = workload.objective in (Objective.THROUGHPUT, Objective.LATENCY)
    if serving is None or not wanted or workload.training is not None or devices < 2:
        return None
    prefills = prefill_shapes(search, serving, devices)
    shapes = _distinct((shape_of(one.degrees), one.choices) for one in search.ranked() if one.served is not None)
    best: Apart | None = None
    for degrees, choices in islice(shapes, _DECODE_SHAPES):
        for prefill in prefills:
            matched = _matched if workload.rate_per_s is None else _keeping_up
            found = matched(search, serving, degrees, choices, prefill, devices)
            if found is not None and (best is None or _better(found, best, workload)):
                best = found
    return best


def _better(one: Apart, other: Apart, workload: Workload) -> bool:
    if workload.objective is Objective.LATENCY:
        own, its = (found.served.ttft_s + found.served.tpot_s * workload.generated_tokens for found in (one, other))
        return own < its
    if workload.rate_per_s is not None:
        return (one.devices, one.served.ttft_s) < (other.devices, other.served.ttft_s)
    return one.served.tokens_per_s > other.served.tokens_per_s


def _distinct(shapes: Iterable[tuple[Degrees, Choices]]) -> Iterator[tuple[Degrees, Choices]]:
    seen = set()
    for shape in shapes:
        if shape not in seen:
            seen.add(shape)
            yield shape


def _matched(
    search: Search, serving: ServingCost, degrees: Degrees, choices: Choices, prefill: Prefill, devices: int
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


def _keeping_up(
    search: Search, serving: ServingCost, degrees: Degrees, choices: Choices, prefill: Prefill, devices: int
) -> Apart | None:
    """As few prefill instances, then as few decode replicas, as keep up with the workload's rate and meet its targets."""
    workload, rate = search.workload, search.workload.rate_per_s
    moved = transfer_s(search, choices)
    assert rate is not None
    if moved is None:
        return None
    soonest = workload.ttft_s - moved if workload.ttft_s is not None else None
    instances = instances_for(prefill, rate, soonest, devices)

    def decoding(count: int) -> Apart | None:
        wide = replace(degrees, dp=degrees.dp * count)
        found = _at_rate(serving, wide, choices, prefill, instances)
        return None if found is None else _judged(search, wide, choices, prefill, found, instances)

    # More replicas serve fewer sequences each: less memory and time a token.
    low, high = 0, (devices - instances * prefill.degrees.world) // degrees.world
    if high < 1 or (best := decoding(high)) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        found = decoding(middle)
        low, high, best = (middle, high, best) if found is None else (low, middle, found)
    return best


def _at_rate(serving: ServingCost, degrees: Degrees, choices: Choices, prefill: Prefill, instances: int) -> Served | None:
    """What both pools reach at the workload's rate; None when one of them does not keep up."""
    rate = serving.workload.rate_per_s
    assert rate is not None
    busy = rate / (instances * prefill.requests_per_s)

    def keeps_up(sequences: int) -> bool | None:
        each = serving.decoding_s(degrees, choices, sequences)
        return None if each is None else sequences / (each * serving.generated) >= rate / degrees.dp

    sequences = fewest_sequences(keeps_up)
    each = serving.decoding_s(degrees, choices, sequences) if sequences is not None else None
    if sequences is None or each is None or busy >= 1:
        return None
    wait = waiting_s(busy, prefill.ttft_s)
    return Served(prefill.ttft_s + wait, each, rate * serving.generated, sequences, busy, wait)


def _served(
    serving: ServingCost, degrees: Degrees, choices: Choices, prefill: Prefill, instances: int | None
) -> tuple[Served, int] | None:
    """What both pools reach, and the prefill instances (None: as many as it takes). Where prefill cannot keep up with the
    decoders, they wait for it."""
    concurrency, sequences = serving.workload.concurrency, sequences_of(serving.workload, degrees)
    tpot = serving.decoding_s(degrees, choices, sequences)
    if tpot is None:
        return None
    requests = min(concurrency, sequences * degrees.dp) / tpot / serving.generated
    count = instances if instances is not None else max(1, ceil(requests / prefill.requests_per_s))
    served = min(requests, count * prefill.requests_per_s)
    busy = min(0.999, served / (count * prefill.requests_per_s))
    wait = min(waiting_s(busy, prefill.ttft_s), concurrency * prefill.ttft_s / 2)
    return Served(prefill.ttft_s + wait, tpot, served * serving.generated, sequences, busy, wait), count


def _reached(
    serving: ServingCost, degrees: Degrees, choices: Choices, prefill: Prefill | None, instances: int
) -> Served | None:
    """What two pools of given sizes reach."""
    if prefill is None:
        return None
    if serving.workload.rate_per_s is not None:
        return _at_rate(serving, degrees, choices, prefill, instances)
    both = _served(serving, degrees, choices, prefill, instances)
    return both[0] if both is not None else None


def apart_estimates(estimator: Estimator, apart: Apart) -> Estimates:
    """The pair's estimates with intervals, and what they are made of."""
    degrees, choices, pool = apart.candidate.degrees, apart.candidate.choices, apart.pool
    asked = Choices(cache_dtype=choices.cache_dtype, chunk_tokens=pool.chunk_tokens)
    found: list[Served] = []
    for serving in estimator.bounds.values():
        prefill = prefilling(serving, pool.degrees, asked)
        found.append(_reached(serving, degrees, choices, prefill, pool.instances) or apart.served)
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
    search: Search, degrees: Degrees, choices: Choices, prefill: Prefill, served: Served, instances: int
) -> Apart | None:
    workload = search.workload
    moved = transfer_s(search, choices)
    if moved is None:
        return None
    served = replace(served, ttft_s=served.ttft_s + moved)
    if workload.tpot_s is not None and served.tpot_s > workload.tpot_s:
        return None
    if workload.ttft_s is not None and served.ttft_s > workload.ttft_s:
        return None
    held = fullest_of(search, prefill.degrees, prefill.choices, 1)
    decoding = replace(choices, prefill_devices=instances * prefill.degrees.world)
    if held is None or fullest_of(search, degrees, decoding, served.sequences) is None:
        return None
    rate = instances * prefill.requests_per_s
    pool = PrefillPool(prefill.degrees, instances, prefill.choices.chunk_tokens, rate, moved, held)
    return Apart(Candidate(degrees, decoding, served), served, pool)
