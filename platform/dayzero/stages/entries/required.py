"""What each version of the method requires before an entry is verified; docs/method.md says it for people.

Version 2 added `weights.integrity`. Version 3 adds cached decoding, logits, the shares that ranks hold, and what encoders show
in the place of texts. Version 4 adds the check of a cache in 8 bits, where the plan keeps one.
"""

from dataclasses import dataclass

from dayzero.domain.computing import EIGHT_BITS
from dayzero.domain.entry import EntryKey
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import CheckLayer, Mode
from dayzero.stages.entries.checks import INTEGRITY

METHOD = "inference-4"
"""The method version that inference entries of this version of dayzero are judged by."""

METHODS = {Mode.INFERENCE: METHOD, Mode.FINE_TUNE: "fine-tune-4"}

END_TO_END = "end_to_end.generation"

ENDS = (END_TO_END, "end_to_end.embedding")
"""A real completion, or of a model without a language head real embeddings."""

EMBEDDINGS = "model.embeddings"
"""What encoders show in the place of perplexity, logits and cached decoding, of which they have none."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that must be shown: by any of these checks of that layer, at the rung (None: at every rung it ran at)."""

    layer: CheckLayer
    any_of: tuple[str, ...]
    rung: str | None = None

    @property
    def name(self) -> str:
        """How an entry lists it when it is missing."""
        return " or ".join(self.any_of) + (f"@{self.rung}" if self.rung else "")


ALWAYS = (
    Requirement(CheckLayer.OPERATOR_COVERAGE, ("operators.coverage",)),
    Requirement(CheckLayer.PRECISION, ("operators.float64",)),
    Requirement(CheckLayer.PRECISION, ("layers.three_way",)),
    Requirement(CheckLayer.PRECISION, ("decoding.three_way", EMBEDDINGS)),
    Requirement(CheckLayer.PRECISION, ("model.perplexity", EMBEDDINGS)),
    Requirement(CheckLayer.PRECISION, ("model.logits", EMBEDDINGS)),
    Requirement(CheckLayer.MEMORY_PARALLELISM, ("memory.peak", "memory.weights")),
    Requirement(CheckLayer.MEMORY_PARALLELISM, (INTEGRITY,)),
    Requirement(CheckLayer.END_TO_END, ENDS),
)

_FP8 = "cache.fp8_e4m3_tensor"

EXCHANGING = ("parallel.logits", "parallel.share")
"""What a plan must show at its own rung, where its ranks exchange anything: copies that only share the requests do not."""

CACHE_CHECKS = {"fp8": _FP8, "float8_e4m3fn": _FP8, "int8": "cache.int8_head"}
"""What a plan must show whose cache is in 8 bits. Engines keep one scale a tensor of an fp8 cache; of other formats there is no
check yet, so that a plan with one is never verified."""


def requirements(key: EntryKey) -> tuple[Requirement, ...]:
    """Everything that must pass before an entry of that key is verified."""
    needed: tuple[Requirement, ...] = ALWAYS
    if exchanges(key.plan):
        needed += tuple(Requirement(CheckLayer.MEMORY_PARALLELISM, (name,), str(key.plan)) for name in EXCHANGING)
    cache = key.computing.cache_dtype
    if cache in EIGHT_BITS:
        needed += (Requirement(CheckLayer.PRECISION, (CACHE_CHECKS.get(cache, f"cache.{cache}"),)),)
    if key.mode is Mode.FINE_TUNE:
        needed += (Requirement(CheckLayer.END_TO_END, ("fine_tune.training", "fine_tune.lora")),)
    return needed


def exchanges(plan: Degrees) -> bool:
    """Whether the plan's ranks need each other for one sequence."""
    return plan.world > plan.dp or plan.ep > 1
