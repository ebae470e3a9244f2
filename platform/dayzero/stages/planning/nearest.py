"""When nothing fits: the plan that came nearest, and what would make the request possible, with what each would buy."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from dayzero.domain.plan import MemoryBudget, NearestMiss, Remedy
from dayzero.domain.planning import Choices, Degrees
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.memory.state_of_sequence import cache_element_bytes
from dayzero.stages.planning.best_first import BestFirst
from dayzero.stages.planning.choices import cache_supported, why_not
from dayzero.stages.planning.ranking import Candidate
from dayzero.stages.planning.ranks import RankMemory
from dayzero.stages.planning.search import Found, Search
from dayzero.stages.planning.space import Space, candidates
from dayzero.stages.planning.weight_dtypes import stored_as

_MOST_DEVICES = 4096
_LOOKED_AT = 2000
"""Plans that miss a target whose memory is worked out, the fastest first, to find one that has room."""


def nearest_miss(search: Search, space: Space, found: Found) -> NearestMiss | None:
    """The candidate that is short of the fewest bytes or, where memory is enough, of the least time; None when every one
    was refused by its structure."""
    if found.short:
        short, candidate, budget = min(found.short, key=lambda miss: (miss[0], miss[1].degrees.world))
        item = max(budget.items_bytes, key=lambda name: budget.items_bytes[name])
        remedies = sorted(_for_memory(search, space, candidate, budget, short), key=lambda remedy: -(remedy.gain_bytes or 0))
        return NearestMiss(candidate.degrees, candidate.choices, budget, short, item, tuple(remedies))
    slow = _least_slow(search, found)
    if slow is None:
        return None
    candidate, budget = slow
    item = "rate" if candidate.served is None else "tpot" if _late(candidate, search.workload.tpot_s) else "ttft"
    if _short(budget):
        item = max(budget.items_bytes, key=lambda name: budget.items_bytes[name])
    remedies = sorted(_for_time(search, candidate), key=lambda remedy: -(remedy.gain_s or 0.0))
    return NearestMiss(candidate.degrees, candidate.choices, budget, _short(budget), item, tuple(remedies))


def _least_slow(search: Search, found: Found) -> tuple[Candidate, MemoryBudget] | None:
    """The candidate that misses its targets by the least and has room, or the first of all where none of many has."""

    def exact(miss: tuple[float, Candidate]) -> Iterator[tuple[float, Candidate]]:
        candidate = search.with_times(miss[1])
        late = search.late(candidate)
        if late is not None:
            yield late[1] / late[2], candidate

    first = None
    queue = BestFirst(found.slow, lambda miss: (miss[0],), lambda miss: miss[1].bounded, exact)
    for _, candidate in islice(queue, _LOOKED_AT):
        try:
            budget = search.memory.fullest(candidate.degrees, candidate.choices)
        except UncuttableError:
            continue
        if not _short(budget):
            return candidate, budget
        first = first or (candidate, budget)
    return first


def _short(budget: MemoryBudget) -> int:
    return 0 if budget.limit_bytes is None else max(0, budget.total_bytes - budget.limit_bytes)


def _late(candidate: Candidate, target: float | None) -> bool:
    return candidate.served is not None and target is not None and candidate.served.tpot_s > target


def _for_memory(search: Search, space: Space, candidate: Candidate, budget: MemoryBudget, short: int) -> Iterator[Remedy]:
    for action, less in (*_less_state(search, candidate, budget, short), *_less_weights(search, candidate, budget)):
        if less > 0:
            yield Remedy(action, less, None, less >= short)
    yield from _other_degrees(search, candidate, budget, short)
    yield from _more_devices(search, space, candidate, budget, short)


def _less_state(search: Search, candidate: Candidate, budget: MemoryBudget, short: int) -> Iterator[tuple[str, int]]:
    workload, state = search.workload, budget.items_bytes.get("state", 0)
    element = cache_element_bytes(candidate.choices.cache_dtype or search.memory.spec.state.dtype)
    if element > 1 and workload.training is None and cache_supported("fp8", search.profile):
        smaller = replace(candidate.choices, cache_dtype="fp8")
        yield "an fp8 cache", budget.total_bytes - search.memory.fullest(candidate.degrees, smaller).total_bytes
    if candidate.choices.chunk_tokens is None and workload.context_tokens > 2048 and workload.training is None:
        chunked = replace(candidate.choices, chunk_tokens=2048)
        yield (
            "prefill in chunks of 2,048 tokens",
            budget.total_bytes - search.memory.fullest(candidate.degrees, chunked).total_bytes,
        )
    if state and workload.training is None:
        context = max(1, workload.context_tokens - -(-short * workload.context_tokens // state))
        if context < workload.context_tokens and short < state:
            yield f"a context of {context:,} tokens", state - state * context // workload.context_tokens
        fewer = workload.concurrency - -(-short * workload.concurrency // state)
        if 1 <= fewer < workload.concurrency:
            yield f"a concurrency of {fewer:,}", state - state * fewer // workload.concurrency


def _less_weights(search: Search, candidate: Candidate, budget: MemoryBudget) -> Iterator[tuple[str, int]]:
    if budget.items_bytes.get("redundant_experts"):
        yield "no redundant experts", budget.items_bytes["redundant_experts"]
    memory, training = search.memory, search.workload.training
    if memory.spec.quantization is not None or training is not None:
        return
    for dtype, name in (("fp8", "fp8"), ("int4", "4 bits")):
        if dtype == "fp8" and why_not(dtype, search.profile) is not None:
            continue
        converted = stored_as(memory.spec, None, dtype).spec
        smaller = RankMemory(converted, None, search.profile, search.workload, memory.limit_bytes)
        try:
            total = smaller.fullest(candidate.degrees, candidate.choices, search.sequences_of(candidate)).total_bytes
        except UncuttableError:
            continue
        yield f"weights quantized to {name}", budget.total_bytes - total


def _other_degrees(search: Search, candidate: Candidate, budget: MemoryBudget, short: int) -> Iterator[Remedy]:
    """Pipeline in place of tensor parallelism and the reverse, and whole experts by rank, on as many devices."""
    degrees = candidate.degrees
    others = []
    if degrees.tp > 1 and degrees.tp % 2 == 0:
        others.append(("pipeline in place of tensor parallelism", replace(degrees, tp=degrees.tp // 2, pp=degrees.pp * 2)))
    if degrees.pp > 1 and degrees.pp % 2 == 0:
        others.append(("tensor in place of pipeline parallelism", replace(degrees, tp=degrees.tp * 2, pp=degrees.pp // 2)))
    if degrees.ep == 1 and degrees.tp * degrees.dp > 1:
        others.append(("expert parallelism", replace(degrees, ep=degrees.tp * degrees.dp)))
    for what, other in others:
        total = _total(search, other, candidate.choices)
        if total is not None and total < budget.total_bytes:
            gain = budget.total_bytes - total
            yield Remedy(f"{what} ({other})", gain, None, gain >= short)


def _more_devices(search: Search, space: Space, candidate: Candidate, budget: MemoryBudget, short: int) -> Iterator[Remedy]:
    """The fewest devices, in doublings, on which a division of this shape fits."""
    devices = space.devices * 2
    while devices <= min(_MOST_DEVICES, space.devices * 64):
        wider = replace(space, devices=devices, complete=False)
        best: tuple[int, Degrees] | None = None
        for one in candidates(wider):
            if isinstance(one, Degrees) and one.world <= devices and one.tp >= candidate.degrees.tp and one.world * 2 > devices:
                total = _total(search, one, candidate.choices)
                if total is not None and (best is None or total < best[0]):
                    best = (total, one)
                    if budget.total_bytes - total >= short:
                        break
        if best is not None and budget.total_bytes - best[0] >= short:
            yield Remedy(f"{best[1].world} devices ({best[1]})", budget.total_bytes - best[0], None, True)
            return
        devices *= 2


def _total(search: Search, degrees: Degrees, choices: Choices) -> int | None:
    budget = search.possible_budget(degrees, choices)
    return None if budget is None else budget.total_bytes


def _for_time(search: Search, candidate: Candidate) -> Iterator[Remedy]:
    """Fewer sequences at once, more replicas, a shorter prompt: what each takes off the time that missed its target."""
    serving, workload, before = search.estimator.likely, search.workload, candidate.served
    if serving is None or before is None:
        return
    late = _late(candidate, workload.tpot_s)
    target = (workload.tpot_s if late else workload.ttft_s) or 0.0
    own = before.tpot_s if late else before.ttft_s
    for action, sequences in ((f"a concurrency of {max(1, workload.concurrency // 2):,}", max(1, before.sequences // 2)),
                              ("one sequence a replica", 1)):  # fmt: skip
        after = serving.at(candidate.degrees, candidate.choices, sequences, None)
        if after is not None and sequences < before.sequences:
            gain = own - (after.tpot_s if late else after.ttft_s)
            if gain > 0:
                yield Remedy(action, None, gain, own - gain <= target)
    for chunk in (512, 2048, 8192):
        after = serving.served(candidate.degrees, replace(candidate.choices, chunk_tokens=chunk))
        if after is not None:
            gain = own - (after.tpot_s if late else after.ttft_s)
            if gain > 0:
                yield Remedy(f"prefill in chunks of {chunk:,} tokens", None, gain, own - gain <= target)
