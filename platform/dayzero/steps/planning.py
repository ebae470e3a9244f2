"""Plans: from the structure alone before the weights, over the real tensors on the day."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dayzero.domain.adaptation import Lease
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import ParallelPlan, PlanReport
from dayzero.domain.planning import Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.reports import StepReport
from dayzero.domain.results import result_key
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError
from dayzero.stages.entries.deciding import plan_check
from dayzero.stages.explaining.completion import completed
from dayzero.stages.explaining.memory import gigabytes
from dayzero.stages.explaining.refusals import families_of, nearest_words, reason_words
from dayzero.stages.explaining.words import seconds, times_of
from dayzero.stages.planning.asked import asked_findings
from dayzero.stages.planning.choices import choice_findings
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.weight_dtypes import choices_of, chosen, stored_as
from dayzero.stages.planning.what_if import changed
from dayzero.steps.contract import Bench
from dayzero.steps.keeping import Kept, keep
from dayzero.steps.prestaging import structure, subject_of

VERIFIED_DEVICES = 64
"""Larger link domains are planned for only when somebody asks: what verification climbs to is judged over every division."""
MOST_DEVICES = 1024
"""So many devices may a plan take when somebody asks for what will do and does not say how many there are."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a plan may use: the platform, devices of it, and the memory of one (None: what the profile says)."""

    profile: PlatformProfile
    devices: int
    memory_limit_bytes: int | None


def resources_of(bench: Bench, lease: Lease) -> Resources:
    """The platform's devices as they are, or as the request changes them; on this host's processor, this host's memory."""
    profile = subject_of(bench, lease).profile
    here = profile.torch_device == "cpu"
    limit = bench.limits.memory_bytes if here else None
    fewest = bench.request.workload is not None and bench.request.workload.objective is Objective.FEWEST_DEVICES
    devices = MOST_DEVICES if fewest and bench.any_devices and not here else bench.devices
    return Resources(*changed(profile, devices, limit, bench.request.changes))


def first_plan(bench: Bench, lease: Lease) -> Kept[PlanReport]:
    """A plan from the configuration alone, before any weights."""
    return planned(bench, lease, structure(bench, lease).noun, None)


def _sizes(bench: Bench, resources: Resources) -> Iterator[int]:
    """Devices to plan for, one after the other: what was asked for, then larger link domains, then more of the largest."""
    yield resources.devices
    if not bench.any_devices or resources.profile.torch_device == "cpu":
        return
    most = VERIFIED_DEVICES if bench.request.workload is None else MOST_DEVICES
    domains = [domain.devices for domain in resources.profile.link_domains if resources.devices < domain.devices <= most]
    yield from domains
    if bench.request.workload is None:
        return
    largest = max([resources.devices, *domains])
    while (largest := 2 * largest) <= most:
        yield largest


def verified_workload(spec: ModelSpec) -> Workload:
    """What a plan is made for when nobody asks for more: one sequence, as long as verification needs."""
    return Workload(context_tokens=min(spec.context_tokens or 2048, 2048))


def _with_caches(bench: Bench, profile: PlatformProfile, spec: ModelSpec) -> Workload:
    """The verified workload with the caches that were asked for; BadInputError where the platform takes none of them."""
    workload = replace(verified_workload(spec), cache_dtypes=bench.request.cache_dtypes)
    refused = tuple(choice_findings(workload, profile))
    if refused and len(refused) == len(workload.cache_dtypes):
        raise BadInputError(f"{refused[0].message}.", remedy="Name another dtype with --cache-dtype, or none.")
    return workload


def planned(bench: Bench, lease: Lease, spec: ModelSpec, index: CheckpointIndex | None) -> Kept[PlanReport]:
    """The plan for the adaptation's platform; without headers the weights are predicted, and it is kept as a first plan."""
    stage = "plan" if index is None else "plan.weights"
    resources = resources_of(bench, lease)
    limit, profile = resources.memory_limit_bytes, resources.profile
    workload = replace(bench.request.workload or _with_caches(bench, profile, spec), devices=resources.devices)
    read = (spec,) if index is None else (spec, index)
    asked = (resources.devices, limit, bench.degrees, *(() if bench.any_devices else ("no more",)))
    key = result_key(stage, 2, *read, profile.figures_digest, workload, *asked)

    def fitting() -> PlanReport:
        stored, refused = choices_of(spec, index, profile, workload)
        report = None
        for devices in _sizes(bench, resources):
            sized = replace(workload, devices=devices)
            reports = [(one, plan_for(one.spec, one.index, profile, sized, devices=devices, memory_limit_bytes=limit,
                                      fixed=bench.degrees)) for one in stored]  # fmt: skip
            report = chosen(reports, workload)
            if report.plan is not None:
                break
        assert report is not None
        report = replace(report, findings=(*asked_findings(spec, workload), *refused, *report.findings))
        best = stored_as(spec, index, weight_dtype_of(report))
        return completed(report, best.spec, best.index, profile, limit)

    return keep(bench.ledger, lease, key, PlanReport, fitting)


def weight_dtype_of(report: PlanReport) -> str | None:
    """The dtype that the chosen plan's weights are converted to; None: the checkpoint's own, or there is no plan."""
    return None if report.plan is None else report.plan.choices.weight_dtype


def plan_rows(report: PlanReport) -> tuple[dict[str, str | int | float | None], ...]:
    """The plan, its alternatives, and why the others were refused, kind by kind, as table rows."""
    chosen = [report.plan] if report.plan else []
    rows: list[dict[str, str | int | float | None]] = [
        {
            "plan": str(plan.degrees),
            "devices": plan.degrees.world,
            "verdict": "chosen" if plan is report.plan else "fits",
            "reason": _need_words(plan),
        }
        for plan in (*chosen, *report.alternatives)
    ]
    rows += [
        {
            "plan": str(family.nearest.degrees),
            "devices": family.nearest.degrees.world,
            "verdict": f"{family.count} rejected ({family.family})",
            "reason": reason_words(family),
        }
        for family in families_of(report)
    ]
    return tuple(rows[:40])


def _need_words(plan: ParallelPlan) -> str:
    budget, estimates = plan.fullest, plan.estimates
    said = f"fullest rank {gigabytes(budget.total_bytes)}"
    said += "" if not budget.limit_bytes else f" of {gigabytes(budget.limit_bytes)}"
    for name, interval in times_of(estimates):
        said += "" if interval is None else f", {name} {seconds(interval.mid)}"
    return said


def plan_headline(report: PlanReport) -> str:
    """The chosen plan in one sentence."""
    chosen = f"{report.plan.degrees} on {report.plan.degrees.world} devices" if report.plan else "no plan fits"
    if report.plan is None and report.nearest is not None:
        chosen = f"no plan fits: {nearest_words(report.nearest)}"
    refused = sum(family.count for family in families_of(report))
    return f"{chosen}; {report.candidates:,} candidates, {refused:,} rejected with reasons"


def first_plan_step(bench: Bench, lease: Lease) -> StepReport:
    """Make the plan that needs no weights."""
    kept = first_plan(bench, lease)
    report = kept.noun
    notes = tuple(finding.message for finding in report.findings)
    return StepReport("plan", plan_headline(report), kept.reused, plan_rows(report), notes, plan_check(report).verdict)
