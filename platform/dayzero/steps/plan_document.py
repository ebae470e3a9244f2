"""What `dayzero plan --json` prints: additive only; docs/reference/json.md describes it."""

from collections.abc import Mapping

from dayzero.domain.canonical import Json, plain
from dayzero.domain.launch import Launch
from dayzero.domain.plan import Estimates, Interval, MemoryBudget, NearestMiss, ParallelPlan, PlanReport, Rejection
from dayzero.domain.planning import Degrees
from dayzero.stages.explaining.memory import RankGroup, alone, rank_groups
from dayzero.stages.explaining.refusals import families_of
from dayzero.stages.launch.launching import descriptor
from dayzero.stages.memory.host import HOST
from dayzero.stages.planning.placement import spreads
from dayzero.steps.explaining import Explained

SCHEMA = "dayzero.plan/1"
RANKS_ONE_BY_ONE = 256
"""In larger worlds ranks that need the same share an entry of `per_rank_bytes`, that of the first of them."""


def plan_document(explained: Explained) -> dict[str, Json]:
    """The whole report with what explains it."""
    report = explained.report
    return {
        **report_document(report, explained.search_s),
        "apart": None if report.apart is None else _apart(report.apart, explained.pools),
        "model": explained.model,
        "what_if": None
        if explained.unchanged is None
        else {
            "changes": plain(explained.changes),
            "unchanged": None if explained.unchanged.plan is None else _point(explained.unchanged.plan),
        },
        "launch": None
        if report.plan is None
        else descriptor(explained.spec, report.plan, explained.profile, report.workload, explained.model, explained.launch),
        "placement": None
        if report.plan is None
        else [
            {
                "kind": one.kind,
                "size": one.size,
                "groups": one.groups,
                "nodes": one.nodes,
                "domain": one.domain.name if one.domain else None,
                "leaves": one.left.name if one.left else None,
            }
            for one in spreads(
                report.plan.degrees,
                explained.profile,
                report.plan.placement,
                training=report.workload.training is not None,
            )
        ],
    }


def report_document(report: PlanReport, search_s: float) -> dict[str, Json]:
    """The report alone."""
    return {
        "schema": SCHEMA,
        "platform": report.platform,
        "workload": plain(report.workload),
        "plan": None if report.plan is None else _plan(report.plan),
        "alternatives": [_plan(plan) for plan in report.alternatives],
        "apart": None if report.apart is None else _apart(report.apart, {}),
        "pareto": [_point(plan) for plan in report.pareto],
        "rejected": [_rejection(no) for no in report.rejected],
        "families": [
            {"family": family.family, "count": family.count, "nearest": _rejection(family.nearest)}
            for family in families_of(report)
        ],
        "nearest": None if report.nearest is None else _nearest(report.nearest),
        "candidates": report.candidates,
        "search_s": search_s,
        "findings": plain(report.findings),
    }


def _rejection(rejection: Rejection) -> Json:
    return {
        "degrees": str(rejection.degrees),
        "family": rejection.family,
        "reason": rejection.reason,
        "numbers": plain(rejection.numbers),
    }


def _degrees(degrees: Degrees) -> dict[str, Json]:
    return {
        "tp": degrees.tp,
        "pp": degrees.pp,
        "ep": degrees.ep,
        "dp": degrees.dp,
        "cp": degrees.cp,
        "etp": degrees.etp,
        "attention_dp": degrees.attention_dp,
        "devices": degrees.world,
    }


def _plan(plan: ParallelPlan) -> dict[str, Json]:
    return {
        **_degrees(plan.degrees),
        "choices": plain(plan.choices),
        "sequences": plan.sequences,
        "stage_layers": plain(plan.stage_layers),
        "memory": _memory(plan.memory),
        "estimates": _estimates(plan.estimates),
        "step_s": _bounds(plan.estimates.step_s),
        "terms": plain(plan.estimates.terms),
        "binds": plan.binds,
        "ladder": [str(rung) for rung in plan.ladder],
        "rungs": [
            {
                "degrees": str(rung.degrees),
                "devices": rung.degrees.world,
                "layers": rung.layers,
                "of_layers": rung.of_layers,
                "weights": rung.weights.value,
                "why": rung.why,
                "needed_bytes": rung.needed_bytes,
                "limit_bytes": rung.limit_bytes,
            }
            for rung in plan.rungs
        ],
        "warnings": list(plan.warnings),
    }


def _apart(plan: ParallelPlan, pools: Mapping[str, Launch]) -> Json:
    """The decode pool as any plan with the prefill pool beside it; `devices` of both, and each pool's engines."""
    pool = plan.prefill
    assert pool is not None, "a plan with prefill apart has its pool"
    prefill: dict[str, Json] = {
        **_degrees(pool.degrees),
        "devices": pool.devices,
        "instances": pool.instances,
        "chunk_tokens": pool.chunk_tokens,
        "requests_per_s": pool.requests_per_s,
        "transfer_s": pool.transfer_s,
        "memory": _memory((pool.memory,)),
    }
    launch: dict[str, Json] = {name: plain(made.engines) for name, made in pools.items()}
    return {**_plan(plan), "devices": plan.devices, "prefill": prefill, "launch": launch}


def _memory(budgets: tuple[MemoryBudget, ...]) -> dict[str, Json]:
    """By rank, and by the ranks that need the same; items in the host's memory are no part of a device's total."""
    groups = rank_groups(budgets)
    each = groups
    if len(budgets) <= RANKS_ONE_BY_ONE:
        each = tuple(map(alone, budgets))
    return {
        "per_rank_bytes": [{"rank": group.ranks[0], **_budget(group)} for group in each],
        "by_ranks": [
            {
                "ranks": group.named,
                "count": len(group.ranks),
                **_budget(group),
                "host": {name.removeprefix(HOST): size for name, size in group.items_bytes.items() if name.startswith(HOST)},
            }
            for group in groups
        ],
    }


def _budget(group: RankGroup) -> dict[str, Json]:
    items: dict[str, Json] = {name: size for name, size in group.items_bytes.items() if not name.startswith(HOST)}
    return {**items, "total": group.total_bytes, "limit": group.limit_bytes}


def _point(plan: ParallelPlan) -> Json:
    return {**_degrees(plan.degrees), "choices": plain(plan.choices), "estimates": _estimates(plan.estimates)}


def _nearest(nearest: NearestMiss) -> Json:
    budget = nearest.budget
    return {
        **_degrees(nearest.degrees),
        "choices": plain(nearest.choices),
        "rank": budget.rank,
        "items_bytes": plain(budget.items_bytes),
        "total": budget.total_bytes,
        "limit": budget.limit_bytes,
        "short_bytes": nearest.short_bytes,
        "item": nearest.item,
        "remedies": plain(nearest.remedies),
    }


def _estimates(estimates: Estimates) -> Json:
    return {
        "ttft_s": _bounds(estimates.ttft_s),
        "tpot_s": _bounds(estimates.tpot_s),
        "throughput_tokens_per_s": _bounds(estimates.throughput_tokens_per_s),
    }


def _bounds(interval: Interval | None) -> Json:
    return None if interval is None else [interval.low, interval.mid, interval.high]
