"""Plans: from the structure alone before the weights, over the real tensors on the day."""

from collections.abc import Callable
from dataclasses import replace

from dayzero.domain.adaptation import Lease
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.reports import StepReport
from dayzero.domain.results import result_key
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.entries import plan_check
from dayzero.stages.planning import plan_for
from dayzero.steps.contract import Bench
from dayzero.steps.keeping import Kept, keep
from dayzero.steps.prestaging import structure, subject_of

MOST_DEVICES = 64
"""Larger link domains are planned for only when somebody asks for so many devices: the search is over every division."""


def memory_limit_bytes(bench: Bench, profile: PlatformProfile) -> int | None:
    """This host's memory where the platform is its processor; None elsewhere, for the profile says what a device has."""
    return bench.limits.memory_bytes if profile.torch_device == "cpu" else None


def first_plan(bench: Bench, lease: Lease) -> Kept[PlanReport]:
    """A plan from the configuration alone, before any weights."""
    return planned(bench, lease, "plan", structure(bench, lease).noun, None)


def _fitting(bench: Bench, profile: PlatformProfile, plan: Callable[[int], PlanReport]) -> PlanReport:
    """The plan on the devices asked for; on other platforms than this host, on the next larger link domain that it fits."""
    sizes = {domain.devices for domain in profile.link_domains if bench.devices < domain.devices <= MOST_DEVICES}
    report = plan(bench.devices)
    for devices in sorted(sizes) if bench.any_devices and profile.torch_device != "cpu" else ():
        if report.plan is not None:
            break
        report = plan(devices)
    return report


def verified_workload(spec: ModelSpec) -> Workload:
    """What a plan is made for when nobody asks for more: one sequence, as long as verification needs."""
    return Workload(context_tokens=min(spec.context_tokens or 2048, 2048))


def planned(bench: Bench, lease: Lease, stage: str, spec: ModelSpec, index: CheckpointIndex | None) -> Kept[PlanReport]:
    """The plan for the adaptation's platform, kept under that stage's name; without headers the weights are predicted."""
    profile = subject_of(bench, lease).profile
    workload = replace(bench.workload or verified_workload(spec), devices=bench.devices)
    limit = memory_limit_bytes(bench, profile)
    read = (spec,) if index is None else (spec, index)
    asked = (bench.devices, limit, bench.degrees, *(() if bench.any_devices else ("no more",)))
    key = result_key(stage, 1, *read, profile.figures_digest, workload, *asked)

    def on(devices: int) -> PlanReport:
        sized = replace(workload, devices=devices)
        return plan_for(spec, index, profile, sized, devices=devices, memory_limit_bytes=limit, fixed=bench.degrees)

    return keep(bench.ledger, lease, key, PlanReport, lambda: _fitting(bench, profile, on))


def plan_rows(report: PlanReport) -> tuple[dict[str, str | int | float | None], ...]:
    """The plan, its alternatives and the rejected ones as table rows."""
    chosen = [report.plan] if report.plan else []
    rows: list[dict[str, str | int | float | None]] = [
        {
            "plan": str(plan.degrees),
            "devices": plan.degrees.world,
            "verdict": "chosen" if plan is report.plan else "fits",
            "reason": f"largest rank {max(budget.total_bytes for budget in plan.memory):,} bytes",
        }
        for plan in (*chosen, *report.alternatives)
    ]
    rows += [
        {
            "plan": str(no.degrees),
            "devices": no.degrees.world,
            "verdict": f"rejected ({no.family})",
            "reason": no.reason,
        }
        for no in report.rejected
    ]
    return tuple(rows[:40])


def plan_headline(report: PlanReport) -> str:
    """The chosen plan in one sentence."""
    chosen = f"{report.plan.degrees} on {report.plan.degrees.world} devices" if report.plan else "no plan fits"
    return f"{chosen}; {report.candidates} candidates, {len(report.rejected)} rejected with reasons"


def first_plan_step(bench: Bench, lease: Lease) -> StepReport:
    """Make the plan that needs no weights."""
    kept = first_plan(bench, lease)
    report = kept.noun
    notes = tuple(finding.message for finding in report.findings)
    return StepReport("plan", plan_headline(report), kept.reused, plan_rows(report), notes, plan_check(report).verdict)
