"""What a changed platform changes of the plan: beside each other, as it is and as it would be."""

from collections.abc import Mapping

from dayzero.domain.plan import ParallelPlan, PlanReport
from dayzero.domain.planning import Change
from dayzero.domain.reports import Block, Cell
from dayzero.stages.explaining.memory import gigabytes
from dayzero.stages.explaining.refusals import nearest_words
from dayzero.stages.explaining.words import figures, middle, times_of, trade_words


def change_words(change: Change) -> str:
    """A change as it is typed."""
    if change.absent:
        return f"{change.resource}=none"
    return f"{change.resource}={change.factor:g}x" if change.factor is not None else f"{change.resource}={change.more:+d}"


def what_if_block(report: PlanReport, unchanged: PlanReport, changes: tuple[Change, ...]) -> Block:
    """The two plans in a row each, and what the change gives and takes."""
    rows = (_row("as it is", unchanged), _row("what if", report))
    lines = []
    if report.plan is not None and unchanged.plan is not None:
        lines.append(f"against what is: {_against(report.plan, unchanged.plan)}")
    elif report.plan is None and unchanged.plan is not None:
        lines.append("with this change nothing fits any more")
    elif report.plan is not None:
        lines.append("only with this change something fits")
    lines.append("changed figures of the platform are assumed")
    return Block(f"What if {', '.join(map(change_words, changes))}", rows=rows, lines=tuple(lines))


def _row(name: str, report: PlanReport) -> Mapping[str, Cell]:
    plan = report.plan
    if plan is None:
        near = nearest_words(report.nearest) if report.nearest is not None else "no plan fits"
        return {"platform": name, "plan": "none", "why": near}
    estimates = plan.estimates
    rate = estimates.throughput_tokens_per_s
    return {
        "platform": name,
        "plan": str(plan.degrees),
        "devices": plan.degrees.world,
        **{name: middle(interval) for name, interval in times_of(estimates)},
        "tokens/s": None if rate is None else figures(rate.mid),
        "fullest": gigabytes(plan.fullest.total_bytes),
        "binds": plan.binds,
    }


def _against(plan: ParallelPlan, unchanged: ParallelPlan) -> str:
    return "the same plan, and nothing measurable" if plan == unchanged else trade_words(plan, unchanged, all_devices=True)
