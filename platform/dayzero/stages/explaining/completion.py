"""What is added to a plan once it is chosen: where its ranks sit, what to know of that, and the rungs that lead to it."""

from dataclasses import replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.planning.ladder import rungs_of
from dayzero.stages.planning.ladder_need import need_of
from dayzero.stages.planning.placement import place, placement_warnings


def completed(
    report: PlanReport,
    spec: ModelSpec,
    index: CheckpointIndex | None,
    profile: PlatformProfile,
    memory_limit_bytes: int | None,
) -> PlanReport:
    """The report with its chosen plan placed, warned of and laddered; without a plan it stays as it is.

    `memory_limit_bytes` is what plan_for was given.
    """
    plan = report.plan
    if plan is None:
        return report
    places = place(plan.degrees, profile)
    stated = int(profile.memory_bytes.value) if profile.memory_bytes is not None else None
    limit = memory_limit_bytes if memory_limit_bytes is not None else stated

    def limit_of(degrees: Degrees) -> int | None:
        if limit is None:
            return None
        return limit // degrees.world if profile.torch_device == "cpu" else limit

    need = need_of(spec, index, profile, report.workload, replace(plan.choices, prefill_devices=0))
    training = report.workload.training is not None
    rungs = () if training else rungs_of(spec, plan, need, limit_of)
    said = dict.fromkeys((*plan.warnings, *placement_warnings(plan.degrees, profile, places, training=training)))
    return replace(report, plan=replace(plan, placement=places, warnings=tuple(said), rungs=rungs))
