"""The deployment guide of a bundle."""

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.plan import PlanReport
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.release import Release
from dayzero.domain.shards import ShardManifest
from dayzero.stages.bundle.escape import fenced, markdown_table, markdown_text
from dayzero.stages.bundle.plan import DESCRIPTOR, UNKNOWN, plan_section

PERFORMANCE_HEADER = ("figure", "value", "unit", "samples", "conditions")


def deployment_guide(
    entry: CompatibilityEntry,
    spec: ModelSpec | None,
    plan: PlanReport | None,
    manifest: ShardManifest | None,
    release: Release,
    stack: Stack | None,
    profile: PlatformProfile | None = None,
) -> str:
    """The guide as Markdown: what it is, how well it was checked, how it is laid out, how to run it."""
    key = entry.key
    sections = [
        f"# {markdown_text(key.model)} on {markdown_text(key.platform)}",
        f"{markdown_text(entry.reason)}",
        markdown_table(("what", "value"), _facts(entry, spec, release)),
        "## How to run it",
        "On the platform itself: `./launch.sh` (more options follow it; `MODEL_DIR=… ./launch.sh` for a folder that is there "
        "already). In a container: `docker compose up --build`. Checked files are listed in entry.json.",
        *((_serving(),) if spec and profile and plan and plan.plan else ()),
        f"## Plan {markdown_text(str(key.plan))}",
        plan_section(plan, profile if spec is not None else None),
        *(("## Weights by rank", _shards(manifest)) if manifest else ()),
        "## What was checked",
        markdown_table(("layer", "check", "plan", "verdict", "grade", "measured", "tolerance", "n", "why"), _checks(entry)),
        *(
            ("Not shown: " + ", ".join(markdown_text(name) for name in entry.missing_checks) + ".",)
            if entry.missing_checks
            else ()
        ),
        *(("Operators that the platform lacks: " + ", ".join(map(markdown_text, entry.gaps)) + ".",) if entry.gaps else ()),
        "## Measured performance",
        markdown_table(PERFORMANCE_HEADER, performance_rows(entry)),
        *(("## What it says", fenced(entry.sample_text)) if entry.sample_text else ()),
        "## Stack",
        markdown_table(("component", "version"), sorted(stack.components.items()) if stack else []),
    ]
    return "\n\n".join(sections) + "\n"


def _serving() -> str:
    scripts = (
        "To serve the plan over nodes: the start-ENGINE.sh scripts, each with the number of its node, where an engine can."
    )
    return f"{scripts} {DESCRIPTOR} says how and why not, and has the ranks for a launcher of your own."


def performance_rows(entry: CompatibilityEntry) -> list[tuple[str, ...]]:
    """The measurements as cells: figure, value, unit, samples, conditions."""
    return [
        (
            measurement.name,
            _number(measurement.value),
            measurement.unit,
            str(measurement.samples),
            ", ".join(f"{name} {value}" for name, value in sorted(measurement.conditions.items())),
        )
        for measurement in entry.measurements
    ]


def _facts(entry: CompatibilityEntry, spec: ModelSpec | None, release: Release) -> list[tuple[str, ...]]:
    total = spec.parameters.total if spec else None
    total = spec.parameters.total_language if spec and total is None else total
    return [
        ("repository", f"{release.hub.value}:{release.repo_id}"),
        ("revision", release.revision),
        ("content", entry.key.content_id),
        ("architecture", (spec.architecture if spec else None) or UNKNOWN),
        ("layers", str(len(spec.layers)) if spec and spec.layers else UNKNOWN),
        ("parameters", UNKNOWN if total is None else f"{total:,}"),
        ("dtype", entry.key.dtype),
        ("engine", entry.key.engine),
        ("mode", entry.key.mode.value),
        ("lifecycle", entry.lifecycle.value),
        ("correctness", f"{entry.correctness.value} ({entry.evidence or entry.grade.value}; method {entry.method})"),
        ("performance", entry.performance.value),
        ("freshness", entry.freshness.value),
        *((name, value) for name, value in sorted(entry.columns.items())),
        ("stack", entry.key.stack_fingerprint),
    ]


def _shards(manifest: ShardManifest) -> str:
    rows = [
        (str(file.rank), file.path, f"{file.size_bytes:,}", file.digest or "not written", str(file.tensor_count))
        for file in manifest.files
    ]
    return markdown_table(("rank", "file", "bytes", "digest", "tensors"), rows)


def _checks(entry: CompatibilityEntry) -> list[tuple[str, ...]]:
    return [
        (
            check.layer.value,
            check.check,
            check.rung,
            check.verdict.value,
            check.grade.value,
            _number(check.measured) + (f" {check.unit}" if check.unit and check.measured is not None else ""),
            _number(check.tolerance),
            "" if check.n is None else str(check.n),
            check.reason,
        )
        for check in entry.checks
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
