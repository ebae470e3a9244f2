"""Parallel plans with their memory, and why the others were rejected."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.canonical import Numbers
from dayzero.domain.findings import Finding
from dayzero.domain.planning import Choices, Degrees, Workload


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Memory of one rank by item, against its limit. Items: weights, redundant_experts, state, activations, logits,
    expert_buffers, communication_buffers, reserve; in training gradients, master_weights, moments, adapters too.

    Items named host_… lie in the host's memory; its limit is for all ranks of a node together.
    """

    rank: int
    items_bytes: Mapping[str, int]
    limit_bytes: int | None
    host_limit_bytes: int | None = None

    @property
    def total_bytes(self) -> int:
        """Sum over the items on the device."""
        return sum(size for name, size in self.items_bytes.items() if not name.startswith("host_"))

    @property
    def host_bytes(self) -> int:
        """Sum over the items in the host's memory."""
        return sum(size for name, size in self.items_bytes.items() if name.startswith("host_"))


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its bounds."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True)
class Term:
    """One part of an estimated time: seconds of a phase (prefill, decode, train) that one resource takes.

    `resource` is compute, memory, a link domain's name, bubble or queue; `hidden_s` is what overlaps with other terms, and
    `grade` says whether its efficiency was measured on the platform or assumed.
    """

    phase: str
    what: str
    resource: str
    seconds: float
    hidden_s: float = 0.0
    grade: str = "assumed"


@dataclass(frozen=True, slots=True)
class Estimates:
    """Predicted performance; None where a figure of the platform is missing (a finding says which).

    Throughput is that of all devices together, in output tokens (training: tokens trained); `terms` make up the times.
    """

    ttft_s: Interval | None = None
    tpot_s: Interval | None = None
    throughput_tokens_per_s: Interval | None = None
    step_s: Interval | None = None
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """A plan that was not taken, with the family of the reason, the reason itself and its figures."""

    degrees: Degrees
    family: str
    reason: str
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RejectedFamily:
    """How many plans one kind of reason refused, with the one that came nearest (the least short, the largest degree)."""

    family: str
    count: int
    nearest: Rejection


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would make a request possible, and what it buys: bytes a rank, or seconds. The largest gain comes first."""

    action: str
    gain_bytes: int | None
    gain_s: float | None
    enough: bool


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The plan that came nearest to fitting: short by so many bytes, of which `item` is the largest part."""

    degrees: Degrees
    choices: Choices
    budget: MemoryBudget
    short_bytes: int
    item: str
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a rank sits: node, and the index of its group in each nested link domain, the smallest domain first."""

    rank: int
    node: int
    domains: tuple[int, ...]


class RungWeights(StrEnum):
    """What a rung of the ladder runs with."""

    DUMMY = "dummy"
    REAL = "real"


@dataclass(frozen=True, slots=True)
class Rung:
    """A smaller plan that leads to a plan: so many of the model's first layers under these degrees, and why these.

    `needed_bytes` is what its fullest rank needs, None where that is not known.
    """

    degrees: Degrees
    layers: int
    of_layers: int
    weights: RungWeights
    why: str
    needed_bytes: int | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PrefillPool:
    """Devices that serve prefill alone, beside those of the plan, which then decode alone: instances of these degrees, the
    chunk that they take, requests/s of all of them, and the fullest rank. `transfer_s` is what a prompt's cache takes to reach
    its decoder."""

    degrees: Degrees
    instances: int
    chunk_tokens: int | None
    requests_per_s: float
    transfer_s: float
    memory: MemoryBudget

    @property
    def devices(self) -> int:
        """Devices of the pool."""
        return self.instances * self.degrees.world


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """A plan that fits: degrees, each rank's memory, layers by pipeline stage, estimates, and the rungs that lead to it.

    `sequences` are those on each replica of attention at once, for which the memory is; None in training. With `prefill` the
    plan decodes alone.
    """

    degrees: Degrees
    memory: tuple[MemoryBudget, ...]
    stage_layers: tuple[tuple[int, int], ...]
    estimates: Estimates
    binds: str | None
    ladder: tuple[Degrees, ...]
    choices: Choices = Choices()
    placement: tuple[Placement, ...] = ()
    warnings: tuple[str, ...] = ()
    rungs: tuple[Rung, ...] = ()
    prefill: PrefillPool | None = None
    sequences: int | None = None

    @property
    def fullest(self) -> MemoryBudget:
        """The budget of the rank that needs most of its device."""
        return max(self.memory, key=lambda budget: budget.total_bytes)

    @property
    def devices(self) -> int:
        """Devices of the plan, those that serve prefill alone among them."""
        return self.degrees.world + (self.prefill.devices if self.prefill is not None else 0)


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The chosen plan (None: nothing fits), the next best, and every rejection.

    `rejected` keeps a few plans of each family, `families` counts them all; with the `fitting` ones they are all
    `candidates`. Of very many, those that rank behind enough plans that fit are counted as outranked. `pareto` is the front of
    throughput a device against speed for one user; `nearest` is there when nothing fits. `apart` is the best plan found with
    prefill and decode on devices of their own, where there is one (`plan` serves both together).
    """

    platform: str
    workload: Workload
    plan: ParallelPlan | None
    alternatives: tuple[ParallelPlan, ...]
    rejected: tuple[Rejection, ...]
    candidates: int
    findings: tuple[Finding, ...] = ()
    families: tuple[RejectedFamily, ...] = ()
    pareto: tuple[ParallelPlan, ...] = ()
    nearest: NearestMiss | None = None
    fitting: int = 0
    apart: ParallelPlan | None = None
