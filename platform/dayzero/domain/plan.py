"""Parallel plans with their memory, and why the others were rejected."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dayzero.domain.canonical import Numbers
from dayzero.domain.findings import Finding


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees of parallelism. The world is tp × pp × dp; ep divides experts inside tp × dp."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1

    @property
    def world(self) -> int:
        """Devices that the plan takes."""
        return self.tp * self.pp * self.dp

    def __str__(self) -> str:
        parts = [f"{name}{value}" for name, value in (("tp", self.tp), ("pp", self.pp), ("ep", self.ep), ("dp", self.dp))
                 if value > 1]  # fmt: skip
        return "-".join(parts) or "tp1"


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Memory of one rank by item (weights, state, activations, communication_buffers, reserve), against its limit."""

    rank: int
    items_bytes: Mapping[str, int]
    limit_bytes: int | None

    @property
    def total_bytes(self) -> int:
        """Sum over the items."""
        return sum(self.items_bytes.values())


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its bounds."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimates:
    """Predicted performance; None where a figure of the platform is missing (a finding says which)."""

    ttft_s: Interval | None = None
    tpot_s: Interval | None = None
    throughput_tokens_per_s: Interval | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """What is asked of a plan. `redundant_experts` are second copies of busy experts, spread over the expert-parallel ranks."""

    context_tokens: int = 4096
    concurrency: int = 1
    devices: int | None = None
    redundant_experts: int = 0


@dataclass(frozen=True, slots=True)
class Rejection:
    """A plan that was not taken, with the family of the reason, the reason itself and its figures."""

    degrees: Degrees
    family: str
    reason: str
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """A plan that fits: degrees, each rank's memory, layers by pipeline stage, estimates, and the rungs that lead to it."""

    degrees: Degrees
    memory: tuple[MemoryBudget, ...]
    stage_layers: tuple[tuple[int, int], ...]
    estimates: Estimates
    binds: str | None
    ladder: tuple[Degrees, ...]


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The chosen plan (None: nothing fits), the next best, and every rejection."""

    platform: str
    workload: Workload
    plan: ParallelPlan | None
    alternatives: tuple[ParallelPlan, ...]
    rejected: tuple[Rejection, ...]
    candidates: int
    findings: tuple[Finding, ...] = ()
