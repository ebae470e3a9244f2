"""What every step is given and what it gives back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dayzero.domain.adaptation import Lease
from dayzero.domain.bridges import Bridge
from dayzero.domain.failures import KnownFailure
from dayzero.domain.planning import Degrees, PlanRequest
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.release import Release
from dayzero.domain.reports import StepReport
from dayzero.domain.runs import RunLimits
from dayzero.domain.shards import ShardManifest
from dayzero.domain.stacks import StackRecipe
from dayzero.domain.transfers import TransferEstimate
from dayzero.domain.verdict import Mode
from dayzero.domain.vouching import Witness
from dayzero.errors import BlockedError
from dayzero.ports.conversion import Conversions
from dayzero.ports.hub import Hub, Progress, Transfer
from dayzero.ports.ledger import Ledger
from dayzero.ports.running import Clock, ImageBuilder, Runner, Stacks, Tracer
from dayzero.stages.inventory.taxonomy import Taxonomy
from dayzero.stages.judging.memory import TINY_BYTES
from dayzero.stages.transfer.estimating import estimate_sentence, needs_approval

OWN_ENGINE = "dayzero"
"""Our own ranks, from their shards."""

LIBRARIES = ("transformers",)
"""Libraries whose own ranks can be run beside ours."""

NO_SITE = "no site is asked"


def refuse(estimate: TransferEstimate) -> None:
    """The answer where nobody can be asked: BlockedError with the estimate."""
    raise BlockedError(
        f"not begun without approval: {estimate_sentence(estimate)}",
        remedy="Approve it with --yes, or raise DAYZERO_APPROVE_BELOW_BYTES.",
    )


class Place(StrEnum):
    """Where a step runs: on the control plane, then on a worker of the platform, then (publish) on the control plane."""

    CONTROL = "control"
    PLATFORM = "platform"
    PUBLISH = "publish"


@dataclass(frozen=True, slots=True)
class Bench:
    """The ports and paths that steps work with; `library` names the modelling library here (None: not installed).

    `work_dir` is this host's own disk; full copies of checkpoints lie under `models_dir` (None: in `work_dir`); `degrees` asks
    for one plan instead of the best, `request` for one that serves a workload; `any_devices` lets a plan that does not fit on
    `devices` take the platform's next larger link domain; `operator_plugins` as in the settings; a model with less than
    `tiny_bytes` of weights on each rank is not run for its memory; `settled` keeps an attempt's bridges and `stacked` its
    stack once they are known, for every observation runs with them.
    `tracer`, `runner` and `library` are of what is installed; `stacks` of all else that can be (None: nothing).
    `layers_from` says whether a model's layers are held in memory or streamed (auto: by the memory limit).
    `tasks`: whether the shipped questions are asked.
    `witness` tells what a trusted node of this site signed of the rank files of a release.
    `engine` names whose ranks a parallel run takes: our own, or a library's from the checkpoint (transformers).
    `known_failures` tells what went wrong on a platform before (on a worker: nothing).
    `approve` is asked before a transfer of `approve_below_bytes` or more, and raises BlockedError to refuse.
    """

    ledger: Ledger
    hub_of: Callable[[Release], Hub]
    tracer: Tracer
    runner: Runner
    transfer: Transfer
    conversions: Conversions
    images: ImageBuilder
    clock: Clock
    profiles: Mapping[str, PlatformProfile]
    work_dir: Path
    limits: RunLimits
    devices: int
    taxonomy: Taxonomy
    library: str | None
    degrees: Degrees | None = None
    request: PlanRequest = PlanRequest()
    operator_plugins: tuple[str, ...] = ()
    allow_remote_code: tuple[str, ...] = ()
    allow_pickle: tuple[str, ...] = ()
    compile_target: bool = True
    tasks: bool = True
    layers_from: str = "auto"
    any_devices: bool = True
    models_dir: Path | None = None
    approve_below_bytes: int = 500 * 10**9
    approve: Callable[[TransferEstimate], None] = refuse
    witness: Callable[[Release, ShardManifest], Witness] = field(default=lambda release, layout: Witness(None, reason=NO_SITE))
    progress: Progress = field(default=lambda done, total: None)
    tiny_bytes: int = TINY_BYTES
    stacks: Stacks | None = None
    engine: str = OWN_ENGINE
    known_failures: Callable[[str], Sequence[KnownFailure]] = field(default=lambda platform: (), compare=False)
    settled: dict[Lease, tuple[Bridge, ...]] = field(default_factory=dict, compare=False)
    stacked: dict[Lease, StackRecipe] = field(default_factory=dict, compare=False)


def approved(bench: Bench, estimate: TransferEstimate) -> None:
    """Return when the transfer may begin: it is small, or somebody approves; BlockedError when they do not."""
    if needs_approval(estimate, bench.approve_below_bytes):
        bench.approve(estimate)


StepFunction = Callable[[Bench, Lease], StepReport]


@dataclass(frozen=True, slots=True)
class Step:
    """A named step of the pipeline, where it runs, and the one mode that it belongs to (None: every mode)."""

    name: str
    title: str
    place: Place
    run: StepFunction
    mode: Mode | None = None
