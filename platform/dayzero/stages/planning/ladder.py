"""The ladder: smaller plans that lead to a plan, each for more devices than the one before, the first on one device.

A rung adds one kind of parallelism, so that what breaks on it is known. Where the whole model does not fit a rung's devices it
takes the model's first layers with dummy weights: shapes, memory and agreement between ranks are checked, answers are not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import ParallelPlan, Rung, RungWeights
from dayzero.domain.planning import Degrees
from dayzero.stages.explaining.memory import gigabytes
from dayzero.stages.layout.constraints import violations

Need = Callable[[Degrees, int], int | None]
"""Bytes that the fullest rank needs for so many of the first layers under these degrees; None where nobody knows."""


def rungs_of(spec: ModelSpec, plan: ParallelPlan, need: Need, limit_of: Callable[[Degrees], int | None]) -> tuple[Rung, ...]:
    """The rungs of a plan, the smallest first and the plan itself last.

    A rung is left out where the structure forbids its degrees, or where not even one layer a stage fits.
    """
    layers = len(spec.layers)
    if not layers:
        return ()
    rungs = []
    for degrees, why in steps_to(plan.degrees):
        if degrees == plan.degrees:
            full = plan.fullest
            rungs.append(Rung(degrees, layers, layers, RungWeights.REAL, why, full.total_bytes, full.limit_bytes))
        elif not violations(spec, degrees) and (rung := _rung(spec, degrees, why, need, limit_of(degrees))) is not None:
            rungs.append(rung)
    return tuple(rungs)


def steps_to(goal: Degrees) -> Iterator[tuple[Degrees, str]]:
    """Degrees from one device to the goal, each with why: tensor parallelism in prime steps, then experts over replicas of
    attention, then context parallelism, then stages, then replicas of the whole model."""
    now = Degrees()
    yield now, "one device: the architecture runs at all"
    tp = 1
    for factor in _primes(goal.tp):
        tp *= factor
        now = Degrees(tp=tp)
        yield now, f"tensor parallel over {tp}: slices and sums agree"
    if goal.ep > 1 and goal.etp == 1:
        share = 1
        steps = [1, *_primes(goal.attention_dp)]
        for factor in steps:
            share *= factor
            grown = Degrees(tp=tp, ep=tp * share, dp=share)
            if grown != now and grown.ep > 1:
                now = grown
                yield now, f"experts whole over {now.ep} ranks: dispatch and combine agree"
    elif goal.ep > 1:
        now = Degrees(tp=tp, ep=goal.ep, etp=goal.etp, dp=goal.attention_dp)
        yield now, f"experts in {goal.etp} slices over {goal.ep} ranks: dispatch and combine agree"
    if goal.cp > 1:
        now = replace(now, cp=goal.cp)
        yield now, f"context over {goal.cp} ranks: attention over parts agrees"
    pp = 1
    for factor in _primes(goal.pp):
        pp *= factor
        now = replace(now, pp=pp)
        yield now, f"{pp} stages: what one sends is what the next takes"
    if now != goal:
        yield goal, "the plan"


def _primes(number: int) -> Sequence[int]:
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found


def _rung(spec: ModelSpec, degrees: Degrees, why: str, need: Need, limit: int | None) -> Rung | None:
    layers = len(spec.layers)
    full = need(degrees, layers)
    if limit is None or full is None or full <= limit:
        return Rung(degrees, layers, layers, RungWeights.REAL, why, full, limit)
    depth = _most(degrees.pp, layers - 1, lambda count: (need(degrees, count) or 0) <= limit)
    if depth is None:
        return None
    kinds = _kinds(spec, depth)
    short = f"all {layers} layers need {gigabytes(full)} of {gigabytes(limit)}"
    said = f"{why}; {short}, {depth} fit" + ("" if kinds is None else f" ({kinds})")
    return Rung(degrees, depth, layers, RungWeights.DUMMY, said, need(degrees, depth), limit)


def _kinds(spec: ModelSpec, depth: int) -> str | None:
    """Which share of the kinds of layers the first ones show; None when all."""
    every = {replace(layer, index=0) for layer in spec.layers}
    shown = {replace(layer, index=0) for layer in spec.layers[:depth]}
    return None if shown == every else f"{len(shown)} of {len(every)} kinds of layers"


def _most(least: int, most: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number from `least` to `most` that fits, None when none does; what fits more layers fits fewer."""
    if least > most or not fits(least):
        return None
    low, high = least, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
