"""Checks that follow from reports alone: operator coverage, the plan's fit, and planned against written weight bytes."""

from dayzero.domain.findings import Severity
from dayzero.domain.operators import CoverageKind, CoverageReport
from dayzero.domain.plan import MemoryBudget, PlanReport
from dayzero.domain.shards import ShardManifest, WeightsState
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict
from dayzero.stages.layout.identical import identical_findings, identical_slices

INTEGRITY = "weights.integrity"
"""The check without which no entry is verified: the weights are those that the release states."""

NAMED = 5
"""How many operators or reasons a sentence names before it only counts."""


def coverage_check(report: CoverageReport) -> Check:
    """Pass when no operator is missing; not_run when the graph level is unknown, for then nothing says that none is."""
    kinds = {cover.operator: cover.kind for cover in report.operators}
    missing = {cover.operator for cover in report.operators if cover.kind is CoverageKind.MISSING}
    missing |= {gap.operator for gap in report.gaps if kinds.get(gap.operator, CoverageKind.MISSING) is CoverageKind.MISSING}
    fallback = sum(cover.kind is CoverageKind.FALLBACK for cover in report.operators)
    if missing:
        verdict, reason = Verdict.FAIL, f"{len(missing)} operators are missing on {report.platform}: {_named(sorted(missing))}"
    elif report.graph_coverage is None or not report.operators:
        verdict, reason = Verdict.NOT_RUN, "the model was not traced, so its graph operators are unknown"
    else:
        verdict = Verdict.PASS
        reason = f"all {len(report.operators)} operator uses are covered on {report.platform}, {fallback} by fallback"
    return Check(
        CheckLayer.OPERATOR_COVERAGE,
        "operators.coverage",
        "tp1",
        verdict,
        report.grade,
        reason,
        measured=report.graph_coverage,
        tolerance=1.0,
        unit="share of graph uses",
        n=len(report.operators),
        numbers={"missing": len(missing), "fallback": fallback, "gaps": len(report.gaps)},
    )


def plan_check(report: PlanReport) -> Check:
    """Whether a plan fits, as a prediction; the reason names the plan, or why none fits."""
    if report.plan is not None:
        chosen = report.plan
        largest = max((budget.total_bytes for budget in chosen.memory), default=None)
        return Check(
            CheckLayer.MEMORY_PARALLELISM,
            "memory.plan",
            str(chosen.degrees),
            Verdict.PASS,
            Grade.PREDICTED,
            f"{chosen.degrees} fits on {chosen.degrees.world} devices of {report.platform}",
            measured=None if largest is None else float(largest),
            unit="bytes",
            n=report.candidates,
            numbers={"largest_rank_bytes": largest},
        )
    reasons = sorted({rejection.reason for rejection in report.rejected})
    return Check(
        CheckLayer.MEMORY_PARALLELISM,
        "memory.plan",
        "tp1",
        Verdict.FAIL,
        Grade.PREDICTED,
        f"no plan of {report.candidates} fits on {report.platform}: {_named(reasons) or 'no candidate'}",
        n=report.candidates,
    )


def weights_check(plan: PlanReport, manifest: ShardManifest) -> Check:
    """Planned weight bytes of every rank against those of its written shard files; exact, no tolerance. An error when ranks
    hold the same bytes where they should hold different ones."""
    rung = str(manifest.degrees)
    planned = {budget.rank: _planned_bytes(budget) for budget in plan.plan.memory} if plan.plan else {}
    ranks = range(manifest.degrees.world)
    trouble = _incomparable(plan, manifest, planned)
    alike = [one for one in identical_findings(identical_slices(manifest)) if one.severity is Severity.ERROR]
    if trouble is None and alike:
        trouble = Verdict.ERROR, alike[0].message
    if trouble is not None:
        verdict, reason = trouble
        return Check(CheckLayer.MEMORY_PARALLELISM, "memory.weights", rung, verdict, Grade.MEASURED, reason, tolerance=0.0)
    written = {rank: manifest.rank_weight_bytes(rank) for rank in ranks}
    differences = {rank: written[rank] - (planned[rank] or 0) for rank in ranks}
    worst = max(ranks, key=lambda rank: abs(differences[rank]))
    exact = differences[worst] == 0
    total = sum(written.values())
    return Check(
        CheckLayer.MEMORY_PARALLELISM,
        "memory.weights",
        rung,
        Verdict.PASS if exact else Verdict.FAIL,
        Grade.MEASURED,
        f"the shards of {len(ranks)} ranks hold exactly the {total:,} bytes that were planned"
        if exact
        else f"rank {worst} was planned with {planned[worst]:,} bytes of weights, its shards hold {written[worst]:,}",
        measured=float(abs(differences[worst])),
        tolerance=0.0,
        unit="bytes",
        n=len(ranks),
        numbers={"written_bytes": total, "planned_bytes": sum(value or 0 for value in planned.values())},
    )


def integrity_check(manifest: ShardManifest, evidence: tuple[str, ...] = ()) -> Check:
    """What stands behind the bytes of written shards: pass when every source passed whole with its stated hash, here or at a
    node whose key is trusted; not_run when nobody checked them, for nothing says then that they are wrong."""
    unchecked = [source.path for source in manifest.sources if not source.verified]
    total = len(manifest.sources)
    if manifest.state is WeightsState.HASHED:
        verdict, reason = Verdict.PASS, f"all {total} source files passed whole, each with the hash that the release states"
    elif manifest.state is WeightsState.VOUCHED:
        verdict = Verdict.PASS
        reason = (
            f"the shards are those that the trusted key {manifest.vouched_by} signed for, made of {total} whole, hashed files"
        )
    else:
        verdict = Verdict.NOT_RUN
        reason = (
            f"unverified weights: {len(unchecked)} of {total} source files were not compared with the hash that the release "
            f"states: {_named(unchecked)}"
            if total
            else "unverified weights: the shards do not say which files they were made of"
        )
    return Check(
        CheckLayer.MEMORY_PARALLELISM,
        INTEGRITY,
        str(manifest.degrees),
        verdict,
        Grade.MEASURED,
        reason,
        measured=float(total - len(unchecked)),
        tolerance=float(total),
        unit="source files",
        n=total,
        evidence=evidence,
    )


def _planned_bytes(budget: MemoryBudget) -> int | None:
    """Weights with the second copies of experts, which the files hold too; None where no weights were planned."""
    weights = budget.items_bytes.get("weights")
    return None if weights is None else weights + budget.items_bytes.get("redundant_experts", 0)


def _incomparable(plan: PlanReport, manifest: ShardManifest, planned: dict[int, int | None]) -> tuple[Verdict, str] | None:
    """Why the bytes cannot be compared, or None when they can."""
    if plan.plan is None:
        return Verdict.NOT_RUN, "no plan fits, so there are no planned bytes"
    if not manifest.files or any(file.digest is None for file in manifest.files):
        return Verdict.NOT_RUN, "the shards have not been written"
    if plan.plan.degrees != manifest.degrees:
        return Verdict.ERROR, f"the plan is {plan.plan.degrees}, the shards are of {manifest.degrees}"
    ranks = set(range(manifest.degrees.world))
    silent = sorted(rank for rank in ranks if planned.get(rank) is None)
    if silent:
        return Verdict.ERROR, f"the plan states no weight bytes for rank {silent[0]}"
    strange = sorted({file.rank for file in manifest.files} - ranks)
    if strange:
        return Verdict.ERROR, f"the shards name rank {strange[0]}, which {manifest.degrees} does not have"
    return None


def _named(names: list[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
