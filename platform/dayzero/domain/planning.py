"""What is asked of a plan, and what a plan may choose."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees of parallelism. The world is tp × pp × dp × cp.

    ep divides experts inside a stage's tp × dp ranks: with ep 1 each expert is cut by tp; with ep above 1, experts are whole
    or cut into etp slices, and ep × etp is a multiple of tp, so that ep × etp / tp replicas of attention (attention dp) share
    one set of experts. cp ranks hold the same weights and a share of each sequence's tokens.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1
    cp: int = 1
    etp: int = 1

    @property
    def world(self) -> int:
        """Devices that the plan takes."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def attention_dp(self) -> int:
        """Replicas of attention that share one set of experts."""
        return max(1, self.ep * self.etp // self.tp)

    def __str__(self) -> str:
        named = (("tp", self.tp), ("pp", self.pp), ("ep", self.ep), ("etp", self.etp), ("dp", self.dp), ("cp", self.cp))
        return "-".join(f"{name}{value}" for name, value in named if value > 1) or "tp1"


class Objective(StrEnum):
    """What the best plan has most or least of."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    FEWEST_DEVICES = "fewest-devices"
    LONGEST_CONTEXT = "longest-context"
    WIDEST = "widest"
    """The most devices and the most model parallelism: what verification climbs to."""


class Recompute(StrEnum):
    """What a training step computes again instead of keeping."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Optimizer(StrEnum):
    """What training keeps for each parameter."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw-8bit"
    SGD = "sgd"
    MUON = "muon"


@dataclass(frozen=True, slots=True)
class Training:
    """A training or fine-tuning request: tokens of one optimizer step over all ranks, of one sequence, and how state is kept.

    `zero` is the ZeRO stage over data-parallel ranks (FSDP full sharding is 3). With `lora_rank` only adapters of that rank
    are trained. `offload` keeps optimizer state in the host's memory, `offload_activations` kept activations.
    """

    tokens_per_step: int
    sequence_tokens: int = 4096
    optimizer: Optimizer = Optimizer.ADAMW
    zero: int = 1
    recompute: Recompute = Recompute.SELECTIVE
    lora_rank: int | None = None
    offload: bool = False
    offload_activations: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """What is asked of a plan. `redundant_experts` are second copies of busy experts, spread over the expert-parallel ranks.

    A sequence has `context_tokens` in all, of which the last `output_tokens` are generated (None: an eighth). `concurrency`
    sequences are served at once, or as many as `rate_per_s` new requests a second keep running. `ttft_s` and `tpot_s` are
    targets; `training` asks for a training plan instead. `cache_dtypes` and `weight_dtypes` may be chosen from; none: the
    checkpoint's own.
    """

    context_tokens: int = 4096
    concurrency: int = 1
    devices: int | None = None
    redundant_experts: int = 0
    output_tokens: int | None = None
    rate_per_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    objective: Objective = Objective.WIDEST
    cache_dtypes: tuple[str, ...] = ()
    training: Training | None = None
    weight_dtypes: tuple[str, ...] = ()

    @property
    def generated_tokens(self) -> int:
        """Tokens that a sequence generates."""
        return max(1, self.context_tokens // 8) if self.output_tokens is None else self.output_tokens


@dataclass(frozen=True, slots=True)
class PlanTemplate:
    """A named request: what it is for, and the workload that it stands for."""

    name: str
    title: str
    workload: Workload


@dataclass(frozen=True, slots=True)
class Change:
    """One resource of a platform changed to see what a plan would gain or lose by it.

    `resource` is memory, bandwidth, compute, links, latency, network, nodes or devices; exactly one of `factor` (times),
    `more` (added, for nodes and devices) and `absent` (the resource is not there, or nobody states it) is given.
    """

    resource: str
    factor: float | None = None
    more: int | None = None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What one plan is asked for: the workload (None: what verification runs, with one of these caches where any is named), on
    a platform with these changes."""

    workload: Workload | None = None
    changes: tuple[Change, ...] = ()
    cache_dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choices:
    """What a plan chooses beside its degrees.

    `cache_dtype` None is the model's native one; `chunk_tokens` is how many tokens of prefill one step takes (None: the whole
    sequence at once), `page_tokens` what a cache page holds; `micro_batch` sequences go through the pipeline at a time;
    `virtual_stages` are a rank's pieces of the pipeline. `prefill_devices` of all devices serve prefill alone (0: prefill and
    decode together). `sequence_parallel` cuts norms and residuals by tp; `compressed` communication sends a byte an element.
    `cache_on_host` and `experts_on_host` keep the cache or routed experts in the host's memory and bring a layer's at a time.
    `weight_dtype` None is the checkpoint's; another one asks for a conversion first.
    """

    cache_dtype: str | None = None
    chunk_tokens: int | None = None
    page_tokens: int = 1
    micro_batch: int = 1
    virtual_stages: int = 1
    prefill_devices: int = 0
    sequence_parallel: bool = False
    compressed: bool = False
    cache_on_host: bool = False
    experts_on_host: bool = False
    weight_dtype: str | None = None
