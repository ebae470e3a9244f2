"""The pipeline as data: which steps a purpose has, in order, and where each runs."""

from collections.abc import Mapping

from dayzero.domain.adaptation import Purpose
from dayzero.domain.verdict import Mode
from dayzero.steps import (
    bridging,
    climbing,
    measuring,
    planning,
    prestaging,
    publishing,
    rehearsing,
    shards,
    verifying,
    weights,
)
from dayzero.steps.concluding import Outcome, conclude, stop
from dayzero.steps.contract import Place, Step

__all__ = ["OBSERVING", "ON_REQUEST", "STEPS", "Outcome", "conclude", "steps_of", "stop"]

PRESTAGING = (
    Step("structure", "Structure", Place.CONTROL, prestaging.structure_step),
    Step("inventory", "Operator inventory", Place.CONTROL, prestaging.inventory_step),
    Step("coverage", "Operator coverage", Place.CONTROL, prestaging.coverage_step),
    Step("plan", "First plan", Place.CONTROL, planning.first_plan_step),
)

BRIDGING = Step("bridge", "Bridges for the gaps", Place.PLATFORM, bridging.bridge_step)

REHEARSING = (
    Step("reduction", "Reduced architecture", Place.CONTROL, rehearsing.reduction_step),
    Step("rehearse-operators", "Rehearsal: operators", Place.PLATFORM, rehearsing.operators_step),
    Step("rehearse-layers", "Rehearsal: layers", Place.PLATFORM, rehearsing.layers_step),
    Step("rehearse-generation", "Rehearsal: generation", Place.PLATFORM, rehearsing.generation_step),
)

OBSERVING = (
    Step("operators", "Operators against float64", Place.PLATFORM, verifying.operators_step),
    Step("layers", "Layers, three ways", Place.PLATFORM, verifying.layers_step),
    Step("decoding", "Cached decoding, three ways", Place.PLATFORM, verifying.decoding_step),
    Step("perplexity", "Perplexity", Place.PLATFORM, verifying.perplexity_step),
    Step("caches", "The plan's cache, if in 8 bits", Place.PLATFORM, verifying.planned_cache_step),
    Step("parallel", "Ladder of parallel runs", Place.PLATFORM, climbing.parallel_step),
    Step("memory", "Memory against its prediction", Place.PLATFORM, measuring.memory_step),
    Step("generation", "End to end", Place.PLATFORM, verifying.generation_step),
    Step("tasks", "Downstream tasks", Place.PLATFORM, verifying.tasks_step),
    Step("training", "Fine-tune, three ways", Place.PLATFORM, verifying.training_step, Mode.FINE_TUNE),
)

ON_REQUEST = (Step("caches", "Caches in 8 bits", Place.PLATFORM, verifying.caches_step),)
"""What is verified whatever the plan says when it is asked for by name, in the place of the step of that name."""

STEPS: Mapping[Purpose, tuple[Step, ...]] = {
    Purpose.PRESTAGE: (*PRESTAGING, BRIDGING, *REHEARSING),
    Purpose.ADAPT: (
        *PRESTAGING,
        Step("headers", "Tensor headers", Place.CONTROL, weights.headers_step),
        Step("plan-weights", "Exact plan", Place.CONTROL, weights.exact_plan_step),
        BRIDGING,
        Step("fetch", "Fetch", Place.PLATFORM, shards.fetch_step),
        Step("shard", "Shard", Place.PLATFORM, shards.shard_step),
        *OBSERVING,
        Step("bundle", "Bundle", Place.PUBLISH, publishing.bundle_step),
        Step("image", "Image", Place.PUBLISH, publishing.image_step),
    ),
}


def steps_of(purpose: Purpose, mode: Mode = Mode.INFERENCE) -> tuple[Step, ...]:
    """The steps of a purpose in that mode, in order."""
    return tuple(step for step in STEPS[purpose] if step.mode in (None, mode))
