"""Planning: every division of the model over the devices is judged, the best is taken, every refusal keeps its reason."""

from collections.abc import Iterator
from dataclasses import replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.plan import MemoryBudget, ParallelPlan, PlanReport, Rejection
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError
from dayzero.stages.layout import (
    Share,
    TensorGroup,
    UncuttableError,
    group_tensors,
    layout_findings,
    stage_layers,
    weight_bytes_by_rank,
    weight_shares,
)
from dayzero.stages.layout_constraints import violations
from dayzero.stages.layout_names import Part
from dayzero.stages.memory import MemoryModel, budgets_of
from dayzero.stages.planning_estimates import estimates_of, missing_figures
from dayzero.stages.planning_index import predicted_index

MAX_DEVICES = 4096
ALTERNATIVES = 5


def plan_for(
    spec: ModelSpec,
    index: CheckpointIndex | None,
    profile: PlatformProfile,
    workload: Workload,
    *,
    devices: int,
    memory_limit_bytes: int | None,
    fixed: Degrees | None = None,
) -> PlanReport:
    """The plan for a platform with that many devices, the next best, and why every other was rejected.

    `memory_limit_bytes` (None: the profile's memory) is the limit of one device; on the cpu platform, whose devices are
    processes of one machine, it is the machine's and is divided by the ranks. `fixed` asks for these degrees only. Without
    headers (index None) weights are predicted from the structure. BadInputError: fewer than one device, or absurdly many.
    """
    if not 1 <= devices <= MAX_DEVICES:
        raise BadInputError(f"{devices} devices cannot be planned for; give from 1 to {MAX_DEVICES}.")
    if fixed is not None and min(fixed.tp, fixed.pp, fixed.ep, fixed.dp) < 1:
        raise BadInputError(f"tp {fixed.tp}, pp {fixed.pp}, ep {fixed.ep}, dp {fixed.dp}: every degree is at least 1.")
    known = index if index is not None and index.tensors else predicted_index(spec)
    judge = _Judge(spec, profile, workload, memory_limit_bytes, group_tensors(spec, known) if known else None)
    candidates = (fixed,) if fixed is not None else tuple(_candidates(spec, devices))
    fitting: list[ParallelPlan] = []
    rejected: list[Rejection] = []
    for degrees in candidates:
        verdict = _too_many(degrees, devices) or judge.verdict(degrees)
        if isinstance(verdict, ParallelPlan):
            fitting.append(verdict)
        else:
            rejected.extend(verdict)
    fitting.sort(key=lambda plan: _preference(plan.degrees))
    laddered = [replace(plan, ladder=_ladder(plan.degrees, fitting)) for plan in fitting[: ALTERNATIVES + 1]]
    findings = (*(known.findings if known is not index and known else ()), *_findings(judge, laddered))
    return PlanReport(
        platform=profile.slug,
        workload=workload,
        plan=laddered[0] if laddered else None,
        alternatives=tuple(laddered[1:]),
        rejected=tuple(rejected),
        candidates=len(candidates),
        findings=findings,
    )


def _candidates(spec: ModelSpec, devices: int) -> Iterator[Degrees]:
    experts = any(layer.experts for layer in spec.layers)
    for tp in range(1, devices + 1):
        for pp in range(1, devices // tp + 1):
            for dp in range(1, devices // (tp * pp) + 1):
                # Only these ep share experts out whole: multiples of tp that divide the ranks of a stage.
                shares = [tp * share for share in range(1, dp + 1) if dp % share == 0 and tp * share > 1] if experts else []
                for ep in (1, *shares):
                    yield Degrees(tp, pp, ep, dp)


def _too_many(degrees: Degrees, devices: int) -> tuple[Rejection, ...]:
    if degrees.world <= devices:
        return ()
    reason = f"{degrees} takes {degrees.world} devices; there are {devices}"
    return (Rejection(degrees, "devices", reason, {"world": degrees.world, "devices": devices}),)


def _preference(degrees: Degrees) -> tuple[int, ...]:
    """Larger worlds first, then more model parallelism (its rungs are what is verified), tensor before pipeline, and whole
    experts only where slices do not do."""
    return (-degrees.world, -degrees.tp * degrees.pp, -degrees.tp, degrees.ep)


def _ladder(degrees: Degrees, fitting: list[ParallelPlan]) -> tuple[Degrees, ...]:
    rungs = {
        rung
        for rung in (plan.degrees for plan in fitting)
        if rung.world < degrees.world
        and rung.dp == 1
        and all(whole % part == 0 for whole, part in zip(_axes(degrees), _axes(rung), strict=True))
    }
    return tuple(sorted(rungs, key=lambda rung: (rung.world, _axes(rung))))


def _axes(degrees: Degrees) -> tuple[int, int, int]:
    return degrees.tp, degrees.pp, degrees.ep


class _Judge:
    """Judges degrees for one model on one platform."""

    def __init__(
        self,
        spec: ModelSpec,
        profile: PlatformProfile,
        workload: Workload,
        limit_bytes: int | None,
        groups: tuple[TensorGroup, ...] | None,
    ) -> None:
        self.spec, self.profile, self.workload, self.groups = spec, profile, workload, groups
        self.memory = MemoryModel(spec, profile, workload)
        self._known: dict[tuple[int, int], tuple[Share, ...]] = {}
        stated = int(profile.memory_bytes.value) if profile.memory_bytes is not None else None
        self.limit_bytes = limit_bytes if limit_bytes is not None else stated

    def verdict(self, degrees: Degrees) -> ParallelPlan | tuple[Rejection, ...]:
        refused = violations(self.spec, degrees, self.workload.redundant_experts)
        if refused:
            return refused
        if self.groups is None:
            return (Rejection(degrees, "weights", "the bytes of the weights are not known: no headers, no structure", {}),)
        try:
            weights = weight_bytes_by_rank(self._shares(self.groups, degrees), self.spec, degrees)
        except UncuttableError as error:
            return (Rejection(degrees, error.family, error.reason, error.numbers),)
        budgets = budgets_of(self.memory, degrees, Choices(), weights, self.limit_of(degrees))
        fullest = max(budgets, key=lambda budget: budget.total_bytes)
        if fullest.limit_bytes is not None and fullest.total_bytes > fullest.limit_bytes:
            return (_short_of_memory(degrees, fullest, fullest.limit_bytes),)
        estimates, binds = estimates_of(self.spec, self.profile, self.workload, degrees, weights)
        stages = stage_layers(len(self.spec.layers), degrees.pp) if self.spec.layers else ()
        return ParallelPlan(degrees, budgets, stages, estimates, binds, ())

    def _shares(self, groups: tuple[TensorGroup, ...], degrees: Degrees) -> tuple[Share, ...]:
        key = (degrees.tp, degrees.ep)
        if key not in self._known:
            self._known[key] = weight_shares(groups, self.spec, degrees)
        return self._known[key]

    def limit_of(self, degrees: Degrees) -> int | None:
        """The memory that one rank may take."""
        if self.limit_bytes is None:
            return None
        return self.limit_bytes // degrees.world if self.profile.torch_device == "cpu" else self.limit_bytes


def _short_of_memory(degrees: Degrees, budget: MemoryBudget, limit_bytes: int) -> Rejection:
    short = budget.total_bytes - limit_bytes
    on_device = {name: size for name, size in budget.items_bytes.items() if not name.startswith("host_")}
    item, largest = max(on_device.items(), key=lambda pair: pair[1])
    reason = (f"rank {budget.rank} needs {budget.total_bytes} bytes of {limit_bytes}: short by {short}, "
              f"the largest item is {item} with {largest}")  # fmt: skip
    return Rejection(degrees, "memory", reason, {"limit_bytes": limit_bytes, "short_bytes": short, **{
        f"{name}_bytes": size for name, size in budget.items_bytes.items()}})  # fmt: skip


def _findings(judge: _Judge, plans: list[ParallelPlan]) -> Iterator[Finding]:
    yield from layout_findings(judge.spec)
    if judge.limit_bytes is None:
        yield Finding("plan.memory_not_judged", judge.profile.slug, f"no memory size is known for {judge.profile.slug}: "
                      "whether a plan fits was not judged")  # fmt: skip
    if not judge.spec.layers:
        yield Finding("plan.state_unknown", "state", "state and activations are unknown: only weights were judged")
    for assumption in judge.memory.assumptions(Choices()):
        yield Finding(f"plan.assumed.{assumption.field}", assumption.field, f"{assumption.field}: {assumption.value} "
                      f"({assumption.why})", Severity.NOTE)  # fmt: skip
    if any(group.place.part is Part.PREDICTION for group in judge.groups or ()):
        yield Finding("plan.prediction_layers", "weights", "multi-token-prediction layers of the checkpoint are counted in the "
                      "weights of the last stage", Severity.NOTE)  # fmt: skip
    if plans:
        yield from missing_figures(judge.spec, judge.profile, plans[0].degrees)
