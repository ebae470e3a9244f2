"""Planning: every division of the model over the devices is judged, the best is taken, every refusal keeps its reason."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.costs import Efficiencies
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.plan import ParallelPlan, PlanReport, Rejection
from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.cost.efficiency import ASSUMED
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.layout.constraints import Limits
from dayzero.stages.layout.laying import layout_findings, stage_layers
from dayzero.stages.memory.step import sequences_of
from dayzero.stages.planning.choices import choice_findings, choices_for
from dayzero.stages.planning.fewest import fewest_devices
from dayzero.stages.planning.front import pareto_front
from dayzero.stages.planning.nearest import nearest_miss
from dayzero.stages.planning.pools import apart_estimates, best_apart
from dayzero.stages.planning.ranking import Candidate
from dayzero.stages.planning.ranks import RankMemory
from dayzero.stages.planning.refusals import Refusals
from dayzero.stages.planning.request import MAX_DEVICES, check_request
from dayzero.stages.planning.search import Found, Search
from dayzero.stages.planning.space import candidates, space_of

__all__ = ["ALTERNATIVES", "MAX_DEVICES", "plan_for"]

ALTERNATIVES = 5
_PARETO = 12
_FRONT_ASKED = 200
"""So many plans beyond those that are returned are asked whether they have room."""


def plan_for(
    spec: ModelSpec,
    index: CheckpointIndex | None,
    profile: PlatformProfile,
    workload: Workload,
    *,
    devices: int,
    memory_limit_bytes: int | None,
    fixed: Degrees | None = None,
    choices: Choices | None = None,
    efficiencies: Efficiencies = ASSUMED,
    complete: bool = False,
) -> PlanReport:
    """The plan for a platform with that many devices, the next best, and why every other was rejected.

    `memory_limit_bytes` (None: the profile's memory) is the limit of one device; on the cpu platform, whose devices are
    processes of one machine, it is the machine's and is divided by the ranks. `fixed` asks for these degrees only, `choices`
    for these beside the degrees. Without headers (index None) weights are predicted from the structure. `efficiencies` replace
    the assumed ones where a platform was probed; `complete` judges what provably cannot win too (for tests; slow).
    BadInputError: devices, degrees, a workload or a topology that cannot be.
    """
    check_request(profile, workload, devices, fixed)
    memory = RankMemory(spec, index, profile, workload, memory_limit_bytes)
    estimator = Estimator(spec, profile, workload, efficiencies)
    refusals = Refusals(kept_of_a_family=1 << 30 if workload.objective is Objective.WIDEST else 5)
    search = Search(memory, estimator, profile, workload, refusals)
    taken = (choices,) if choices is not None else choices_for(workload, profile)
    possible = partial(_structural, spec, memory, workload)
    if workload.objective is Objective.FEWEST_DEVICES and fixed is None:
        fresh = partial(Search, memory, estimator, profile, workload)
        devices = fewest_devices(lambda: fresh(Refusals()), possible, devices, taken)
    space = space_of(spec, profile, workload, devices, complete=complete)
    asked = (fixed,) if fixed is not None else candidates(space)
    found = search.run(possible(asked, devices), taken, ALTERNATIVES + 1)
    best: dict[Degrees, Candidate] = {}
    for candidate, _ in found.fitting:
        best.setdefault(candidate.degrees, candidate)
    plans = [_plan(search, candidate, found) for candidate in [*best.values()][: ALTERNATIVES + 1]]
    front = [_plan(search, candidate, found) for candidate in _front(search)]
    return PlanReport(
        platform=profile.slug,
        workload=workload,
        plan=plans[0] if plans else None,
        alternatives=tuple(plans[1:]),
        rejected=refusals.kept,
        candidates=found.judged,
        findings=tuple(_findings(search, plans)),
        families=refusals.families,
        pareto=tuple(front),
        nearest=None if plans else nearest_miss(search, space, found),
        fitting=len(found.fitting),
        apart=_apart(search, found, devices) if fixed is None and plans else None,
    )


def _structural(
    spec: ModelSpec, memory: RankMemory, workload: Workload, asked: Iterable[Degrees | Rejection], devices: int
) -> Iterator[Degrees | Rejection]:
    """Candidates as they are, and in place of those that cannot be the first reason why. On the cpu platform the ranks are this
    project's own, which run by proven rules only."""
    limits, proven = Limits(spec), memory.profile.torch_device == "cpu"
    for one in asked:
        if isinstance(one, Rejection):
            yield one
            continue
        if one.world > devices:
            reason = f"{one} takes {one.world} devices; there are {devices}"
            yield Rejection(one, "devices", reason, {"world": one.world, "devices": devices})
            continue
        refused = limits.violations(one, workload.redundant_experts, proven=proven)
        if refused:
            yield refused[0]
        elif memory.table is None:
            yield Rejection(one, "weights", "the bytes of the weights are not known: no headers, no structure", {})
        else:
            yield one


def _plan(search: Search, candidate: Candidate, found: Found) -> ParallelPlan:
    """The whole plan of a candidate that fits: each rank's memory, estimates with intervals, ladder."""
    memory, degrees = search.memory, candidate.degrees
    sequences = search.sequences_of(candidate)
    served = sequences or sequences_of(search.workload, degrees)
    estimates, binds = search.estimator.estimates(degrees, candidate.choices)
    layers = len(memory.spec.layers)
    return ParallelPlan(
        degrees=degrees,
        memory=memory.budgets(degrees, candidate.choices, sequences),
        stage_layers=stage_layers(layers, degrees.pp) if layers else (),
        estimates=estimates,
        binds=binds,
        ladder=_ladder(search, candidate, found),
        choices=candidate.choices,
        sequences=served if search.workload.training is None else None,
        warnings=tuple(f"{assumed.field}: {assumed.value} ({assumed.why})" for assumed in memory.spec.assumptions),
    )


def _apart(search: Search, found: Found, devices: int) -> ParallelPlan | None:
    """The best plan with prefill and decode on devices of their own."""
    best = best_apart(search, devices)
    if best is None:
        return None
    both = _plan(search, best.candidate, found)
    memory = search.memory.budgets(best.candidate.degrees, best.candidate.choices, best.served.sequences)
    estimates = apart_estimates(search.estimator, best)
    return replace(both, prefill=best.pool, estimates=estimates, binds=None, memory=memory, sequences=best.served.sequences)


def _ladder(search: Search, candidate: Candidate, found: Found) -> tuple[Degrees, ...]:
    """Smaller plans that fit and whose degrees divide this one's, without data parallelism."""
    degrees = candidate.degrees
    if search.workload.objective is Objective.WIDEST:
        smaller = {fitting.degrees for fitting, _ in found.fitting}
    else:
        axes = (_divisors(axis) for axis in _axes(degrees))
        shapes = (Degrees(tp, pp, ep) for tp, pp, ep in product(*axes))
        smaller = {shape for shape in shapes if search.has_room(shape, candidate.choices)}
    rungs = {
        rung
        for rung in smaller
        if rung.world < degrees.world
        and rung.dp == rung.cp == 1
        and all(whole % part == 0 for whole, part in zip(_axes(degrees), _axes(rung), strict=True))
    }
    return tuple(sorted(rungs, key=lambda rung: (rung.world, _axes(rung))))


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(part for part in range(1, number + 1) if number % part == 0)


def _axes(degrees: Degrees) -> tuple[int, int, int]:
    return degrees.tp, degrees.pp, degrees.ep


def _front(search: Search) -> list[Candidate]:
    """The Pareto front of the plans that fit, at most a dozen, both ends among them.

    Of very many candidates those that ranked behind are asked whether they have room only when they lie on the front.
    """
    asked = 0

    def fits(one: Candidate) -> bool:
        nonlocal asked
        known = search.known_to_fit(one)
        if known is not None:
            return known
        asked += 1
        return asked <= _FRONT_ASKED and search.has_room(one.degrees, one.choices, search.sequences_of(one))

    front = list(pareto_front(search.possible, search.profile, fits, search.nearer))
    if len(front) <= _PARETO:
        return front
    step = (len(front) - 1) / (_PARETO - 1)
    return [front[round(at * step)] for at in range(_PARETO)]


def _findings(search: Search, plans: list[ParallelPlan]) -> Iterator[Finding]:
    memory, profile = search.memory, search.profile
    yield from memory.findings
    yield from layout_findings(memory.spec)
    yield from choice_findings(search.workload, profile)
    if memory.limit_bytes is None:
        yield Finding("plan.memory_not_judged", profile.slug, f"no memory size is known for {profile.slug}: "
                      "whether a plan fits was not judged")  # fmt: skip
    if not memory.spec.layers:
        yield Finding("plan.state_unknown", "state", "state and activations are unknown: only weights were judged")
    chosen = plans[0].choices if plans else Choices()
    for assumption in memory.model(Degrees()).assumptions(chosen):
        yield Finding(f"plan.assumed.{assumption.field}", assumption.field, f"{assumption.field}: {assumption.value} "
                      f"({assumption.why})", Severity.NOTE)  # fmt: skip
    if memory.has_drafts:
        yield Finding("plan.prediction_layers", "weights", "multi-token-prediction layers of the checkpoint are counted in the "
                      "weights of the last stage", Severity.NOTE)  # fmt: skip
    if plans:
        yield from search.estimator.missing
        yield from search.estimator.findings
        estimated = plans[0].estimates.throughput_tokens_per_s is not None
        if not search.estimator.missing and not estimated:
            yield Finding("estimate.no_figure", "link bandwidth", f"link bandwidth is not known for {profile.slug} between the "
                          "ranks of the plan: no estimate", Severity.NOTE)  # fmt: skip
