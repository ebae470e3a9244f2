"""The plan's part of a bundle: its picture, its neutral descriptor, and a start script for each engine that can run it."""

import json

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import ParallelPlan, PlanReport
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.bundle.escape import markdown_table, markdown_text
from dayzero.stages.bundle.file import BundleFile
from dayzero.stages.explaining.memory import items_in, rank_groups
from dayzero.stages.explaining.picture import plan_picture
from dayzero.stages.explaining.screen import placement_lines
from dayzero.stages.launch.launching import descriptor, launch_of, launch_script

PICTURE, DESCRIPTOR = "plan.svg", "launch.json"
SERVING = ("vllm", "sglang")
"""Engines whose start scripts a bundle holds; torchrun is what its launch.sh runs."""

UNKNOWN, NODE_LINES = "unknown", 16


def plan_files(
    plan: ParallelPlan, spec: ModelSpec, profile: PlatformProfile, report: PlanReport, model: str
) -> list[BundleFile]:
    """The files; an engine that cannot run the plan has none, and the descriptor says why."""
    launch = launch_of(spec, plan, profile, report.workload)
    document = descriptor(spec, plan, profile, report.workload, model, launch)
    files = [
        BundleFile(PICTURE, plan_picture(plan, profile, f"{model} on {profile.slug}: {plan.degrees}")),
        BundleFile(DESCRIPTOR, json.dumps(document, indent=2, sort_keys=True) + "\n"),
    ]
    for made in launch.engines:
        if made.engine in SERVING and made.commands:
            files.append(BundleFile(start_script(made.engine), launch_script(made), executable=True))
    return files


def start_script(engine: str) -> str:
    """The name of an engine's start script."""
    return f"start-{engine}.sh"


def plan_section(report: PlanReport | None, profile: PlatformProfile | None) -> str:
    """Memory by ranks and placement as Markdown; ranks that need the same share a row."""
    if report is None or report.plan is None:
        return "No plan is known." if report is None else f"No plan of {report.candidates} fits."
    plan = report.plan
    groups = rank_groups(plan.memory)
    items = items_in(groups)
    rows = [
        (
            group.named,
            *(f"{group.items_bytes.get(name, 0):,}" for name in items),
            f"{group.total_bytes:,}",
            UNKNOWN if group.limit_bytes is None else f"{group.limit_bytes:,}",
        )
        for group in groups
    ]
    table = markdown_table(("ranks", *map(markdown_text, items), "total", "limit"), rows)
    said = [f"Bytes of each rank, planned:\n\n{table}"]
    if profile is not None:
        said.insert(0, f"![Memory by rank and placement]({PICTURE})")
        lines = placement_lines(report, plan, profile, NODE_LINES)
        said.append("\n".join(f"- {markdown_text(line)}" for line in lines))
    return "\n\n".join(said)
