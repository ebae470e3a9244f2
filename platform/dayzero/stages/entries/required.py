"""What each version of the method requires before an entry is verified; docs/method.md says it for people.

Version 2 added `weights.integrity`. Version 3 adds cached decoding, logits, the shares that ranks hold, and what encoders show
in the place of texts.
"""

from dataclasses import dataclass

from dayzero.domain.entry import EntryKey
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import CheckLayer, Mode
from dayzero.stages.entries.checks import INTEGRITY

METHOD = "inference-3"
"""The method version that inference entries of this version of dayzero are judged by."""

METHODS = {Mode.INFERENCE: METHOD, Mode.FINE_TUNE: "fine-tune-3"}

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

EXCHANGING = ("parallel.logits", "parallel.share")
"""What a plan must show at its own rung, where its ranks exchange anything: copies that only share the requests do not."""


def requirements(key: EntryKey) -> tuple[Requirement, ...]:
    """Everything that must pass before an entry of that key is verified."""
    needed: tuple[Requirement, ...] = ALWAYS
    if exchanges(key.plan):
        needed += tuple(Requirement(CheckLayer.MEMORY_PARALLELISM, (name,), str(key.plan)) for name in EXCHANGING)
    if key.mode is Mode.FINE_TUNE:
        needed += (Requirement(CheckLayer.END_TO_END, ("fine_tune.training", "fine_tune.lora")),)
    return needed


def exchanges(plan: Degrees) -> bool:
    """Whether the plan's ranks need each other for one sequence."""
    return plan.world > plan.dp or plan.ep > 1
