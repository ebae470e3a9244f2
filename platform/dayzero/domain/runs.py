"""What an isolated run is asked to observe, and how it ended. Observations are facts; verdicts are for the stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.bridges import GapTask, Recipe
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import Device
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.sampling import CallFact


class Observation(StrEnum):
    """What a runner's child process observes."""

    STACK = "stack"
    MANIFEST = "manifest"
    OPERATORS = "operators"
    LAYERS = "layers"
    TOWERS = "towers"
    DECODING = "decoding"
    PERPLEXITY = "perplexity"
    PARALLEL = "parallel"
    MEMORY = "memory"
    GENERATION = "generation"
    ENCODING = "encoding"
    TASKS = "tasks"
    TRAINING = "training"
    CACHES = "caches"
    SENSITIVE = "sensitive"
    BRIDGE = "bridge"
    UNPICKLE = "unpickle"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One isolated run. Paths are on the worker's disk; `custom_operators` names registered operator plugins to switch on.

    `degrees` and `shards_dir` are for parallel runs; `options` are further scalars by name (seed, tokens …). `device` is
    where the target runs (None: on the host); references always run on the host. `bridges` stand in for operators that the
    platform lacks; `gap` is what a bridge is looked for (BRIDGE alone); `known_calls` need not be run on drawn inputs again.
    `policy` says in which precision the target's modules
    compute (None: all in the native dtype).
    """

    observation: Observation
    platform: str
    model_dir: str | None = None
    shards_dir: str | None = None
    degrees: Degrees = Degrees()
    dtype: str | None = None
    custom_operators: tuple[str, ...] = ()
    options: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    device: Device | None = None
    bridges: tuple[Recipe, ...] = ()
    gap: GapTask | None = None
    known_calls: tuple[CallFact, ...] = ()
    policy: PrecisionPolicy | None = None


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run: wall time, memory (None: the platform's), and whether it may use the network."""

    timeout_s: float
    memory_bytes: int | None = None
    network: bool = False


class RunEnd(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended and what it wrote. `document` is its JSON (b"" unless completed); `reason` one sentence otherwise."""

    end: RunEnd
    document: bytes
    reason: str
    log_tail: str
    wall_s: float
    peak_rss_bytes: int | None
