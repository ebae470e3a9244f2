"""One screen about a plan: what was chosen, what it needs, how fast it is, where it sits, and why nothing else was taken."""

from collections.abc import Iterator, Mapping

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Severity
from dayzero.domain.launch import Launch
from dayzero.domain.plan import Interval, NearestMiss, ParallelPlan, PlanReport, RejectedFamily
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.reports import Bar, Block, Cell
from dayzero.stages.launch_figures import fullest
from dayzero.stages.placement import Spread, linked, node_lines, outside, place, spreads
from dayzero.stages.plan_memory import HOST, RankGroup, gigabytes, items_in, letter_of, telling_groups
from dayzero.stages.plan_words import (
    RESOURCES,
    figures,
    grade_of,
    parallel_words,
    per_device,
    seconds,
    serving_words,
    term_words,
    trade_words,
    workload_words,
)

BEST, NODE_LINES, FAMILIES, SAID = 5, 4, 8, 7
"""How many plans, nodes, families and warnings one screen shows; the JSON has them all."""


def plan_screen(
    report: PlanReport, spec: ModelSpec, profile: PlatformProfile, model: str, launch: Launch | None, search_s: float
) -> tuple[Block, ...]:
    """The screen of a report, block by block, about 50 lines."""
    plan = report.plan
    blocks = [_head(report, spec, profile, model, search_s)]
    if plan is not None:
        blocks += [memory_block(plan), speed_block(report, plan), _placement(plan, profile), _ladder(plan)]
        blocks.append(_best(report, plan))
    elif report.nearest is not None:
        blocks += list(_nearest(report.nearest))
    blocks.append(_families(report))
    if launch is not None:
        blocks.append(_launch(launch))
    blocks.append(_known(report))
    return tuple(block for block in blocks if block.bars or block.rows or block.lines)


def _head(report: PlanReport, spec: ModelSpec, profile: PlatformProfile, model: str, search_s: float) -> Block:
    plan = report.plan
    asked = f"asked: {workload_words(report.workload)}"
    judged = f"{report.candidates:,} candidates judged in {seconds(search_s)}"
    if plan is None:
        return Block(f"{model} on {profile.slug}: no plan fits", lines=(asked, judged))
    nodes = len({at.node for at in plan.placement or place(plan.degrees, profile)})
    world = plan.degrees.world
    where = f"{world} device{'' if world == 1 else 's'}" + (f" of {nodes} nodes" if nodes > 1 else "")
    lines = [parallel_words(plan, spec), asked]
    if report.workload.training is None:
        lines.insert(1, serving_words(plan, spec))
    return Block(f"{model} on {profile.slug}: {plan.degrees} on {where}", lines=(*lines, judged))


def memory_block(plan: ParallelPlan) -> Block:
    """Bars of the ranks that tell a plan's memory, and what the letters stand for on the fullest."""
    telling = telling_groups(plan)
    groups = tuple(group for _, group in telling)
    bars = tuple(Bar(label, group.items_bytes, group.limit_bytes, _filled(group)) for label, group in telling)
    return Block("Memory by rank", bars=bars, legend=_legend(groups, groups[0]))


def _legend(groups: tuple[RankGroup, ...], told: RankGroup) -> tuple[tuple[str, str], ...]:
    """What each letter stands for, with the bytes of the told group, or the most of any where that one has none."""
    order = items_in(groups)
    most = {name: told.items_bytes.get(name, 0) or max(one.items_bytes.get(name, 0) for one in groups) for name in order}
    return tuple((name, f"{letter_of(name, order)} {name.replace('_', ' ')} {gigabytes(most[name])}") for name in order)


def _filled(group: RankGroup) -> str:
    named = group.named if len(group.named) <= 14 else f"{len(group.ranks)} ranks from {group.ranks[0]}"
    rank = f"rank{'' if len(group.ranks) == 1 else 's'} {named}" if "ranks" not in named else named
    if group.limit_bytes is None:
        return f"{gigabytes(group.total_bytes)}, limit not known; {rank}"
    share = group.total_bytes / group.limit_bytes if group.limit_bytes else float("inf")
    return f"{gigabytes(group.total_bytes)} of {gigabytes(group.limit_bytes)} ({share:.0%}); {rank}"


def speed_block(report: PlanReport, plan: ParallelPlan) -> Block:
    """The estimates with their intervals and grade, what binds, and the terms that make them up."""
    estimates, workload = plan.estimates, report.workload
    rows: list[Mapping[str, Cell]] = []
    for name, interval, phase, asked in (
        ("time to first token", estimates.ttft_s, "prefill", workload.ttft_s),
        ("time per output token", estimates.tpot_s, "decode", workload.tpot_s),
        ("training step", estimates.step_s, "train", None),
    ):
        if interval is not None:
            terms = tuple(term for term in estimates.terms if term.phase == phase)
            rows.append(
                {
                    "estimate": name,
                    **_bounds(interval),
                    "asked": None if asked is None else f"≤ {seconds(asked)}",
                    "known": grade_of(terms),
                }
            )
    rate = estimates.throughput_tokens_per_s
    if rate is not None:
        each = [figures(bound / plan.degrees.world) for bound in (rate.low, rate.mid, rate.high)]
        rows.append(
            {
                "estimate": "tokens/s of all devices",
                "low": figures(rate.low),
                "middle": figures(rate.mid),
                "high": figures(rate.high),
                "known": grade_of(estimates.terms),
            }
        )
        rows.append(
            {
                "estimate": "tokens/s a device",
                "low": each[0],
                "middle": each[1],
                "high": each[2],
                "known": grade_of(estimates.terms),
            }
        )
    lines = [line for phase in ("prefill", "decode", "train") if (line := term_words(estimates.terms, phase)) is not None]
    if plan.binds is not None:
        lines.insert(0, f"what binds: {RESOURCES.get(plan.binds, plan.binds)}")
    if not rows:
        lines.append(
            "not estimated: "
            + (
                "; ".join(one.message for one in report.findings if one.code.startswith("estimate."))
                or "a figure of the platform is missing"
            )
        )
    return Block("Speed", rows=tuple(rows), lines=tuple(lines))


def _bounds(interval: Interval) -> dict[str, Cell]:
    return {"low": seconds(interval.low), "middle": seconds(interval.mid), "high": seconds(interval.high)}


def _placement(plan: ParallelPlan, profile: PlatformProfile) -> Block:
    if plan.degrees.world == 1:
        return Block("Placement")
    places = plan.placement or place(plan.degrees, profile)
    lines = (
        *node_lines(plan.degrees, places, NODE_LINES),
        *(spread_words(one, profile) for one in spreads(plan.degrees, profile, places)),
    )
    return Block("Placement", lines=lines)


def spread_words(spread: Spread, profile: PlatformProfile) -> str:
    """Where the groups of one kind lie, in a sentence."""
    where = outside(spread, profile) if spread.domain is None else linked(spread.domain)
    one = spread.groups == 1
    return f"{spread.kind}: {spread.groups} group{'' if one else 's'} of {spread.size} talk{'s' if one else ''} over {where}"


def _ladder(plan: ParallelPlan) -> Block:
    rungs = plan.rungs[:-1]
    if not rungs:
        return Block("Ladder")
    said = [
        f"{rung.degrees}"
        + ("" if rung.layers == rung.of_layers else f" ({rung.layers} of {rung.of_layers} layers, dummy weights)")
        for rung in rungs
    ]
    return Block("Ladder", lines=(" → ".join([*said, str(plan.degrees)]),))


def _best(report: PlanReport, plan: ParallelPlan) -> Block:
    shown = (plan, *report.alternatives)[:BEST]
    rows: list[Mapping[str, Cell]] = []
    for one in shown:
        budget, rate = fullest(one), per_device(one)
        rows.append(
            {
                "plan": str(one.degrees),
                "devices": one.degrees.world,
                "TTFT": None if one.estimates.ttft_s is None else seconds(one.estimates.ttft_s.mid),
                "TPOT": None if one.estimates.tpot_s is None else seconds(one.estimates.tpot_s.mid),
                "tokens/s a device": None if rate is None else figures(rate),
                "fullest": gigabytes(budget.total_bytes)
                if not budget.limit_bytes
                else f"{budget.total_bytes / budget.limit_bytes:.0%}",
                "against the chosen": trade_words(one, plan),
            }
        )
    return Block("The best" if len(rows) > 1 else "The only one", rows=tuple(rows))


def families_of(report: PlanReport) -> tuple[RejectedFamily, ...]:
    """The families of the report; where none are counted, those of the rejections that it keeps."""
    if report.families:
        return tuple(sorted(report.families, key=lambda family: -family.count))
    kept: dict[str, list[int]] = {}
    for index, rejection in enumerate(report.rejected):
        kept.setdefault(rejection.family, []).append(index)
    found = []
    for family, indices in kept.items():
        same = [report.rejected[index] for index in indices]
        nearest = min(same, key=lambda no: (_short(no.numbers.get("short_bytes")), -no.degrees.world))
        found.append(RejectedFamily(family, len(same), nearest))
    return tuple(sorted(found, key=lambda family: -family.count))


def _short(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("inf")


def _families(report: PlanReport) -> Block:
    families = families_of(report)
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {
            "refused": family.count,
            "because of": family.family,
            "nearest": str(family.nearest.degrees),
            "with": reason_words(family),
        }
        for family in families[:FAMILIES]
    )
    left = sum(family.count for family in families[FAMILIES:])
    lines = (f"{left:,} more in {len(families) - FAMILIES} families: --json has them",) if left else ()
    return Block("Why not the others", rows=rows, lines=lines)


def reason_words(family: RejectedFamily) -> str:
    """The nearest one's reason; bytes that are short in units that people read."""
    nearest = family.nearest
    short = nearest.numbers.get("short_bytes")
    if not isinstance(short, int | float):
        return nearest.reason
    limit = nearest.numbers.get("limit_bytes")
    items = {
        name.removesuffix("_bytes"): size
        for name, size in nearest.numbers.items()
        if isinstance(size, int | float)
        and name.endswith("_bytes")
        and name not in ("short_bytes", "limit_bytes", "needed_bytes")
        and not name.startswith(HOST)
    }
    largest = max(items, key=lambda name: items[name], default=None)
    most = "" if largest is None else f", {gigabytes(items[largest])} of it {largest.replace('_', ' ')}"
    of = f" of {gigabytes(limit)}" if isinstance(limit, int | float) else ""
    needed = f"needs {gigabytes(limit + short)}{of}{most}: " if isinstance(limit, int | float) else ""
    return f"{needed}short by {gigabytes(short)}"


def nearest_words(nearest: NearestMiss) -> str:
    """What the nearest miss is short of: bytes, or time where its memory is enough."""
    item = nearest.item.replace("_", " ")
    if nearest.short_bytes:
        return (
            f"{nearest.degrees} comes nearest: short by {gigabytes(nearest.short_bytes)} a device, the largest item is {item}"
        )
    return f"{nearest.degrees} comes nearest: its memory is enough, and its {item} misses what was asked"


def _nearest(nearest: NearestMiss) -> Iterator[Block]:
    budget = nearest.budget
    group = RankGroup((budget.rank,), budget.items_bytes, budget.limit_bytes)
    said = nearest_words(nearest)
    yield Block(
        "What came nearest",
        bars=(Bar(f"rank {budget.rank}", budget.items_bytes, budget.limit_bytes, _filled(group)),),
        legend=_legend((group,), group),
        lines=(said,),
    )
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {
            "remedy": remedy.action,
            "gains a device": None if remedy.gain_bytes is None else gigabytes(remedy.gain_bytes),
            "gains": None if remedy.gain_s is None else seconds(remedy.gain_s),
            "enough alone": "yes" if remedy.enough else "no",
        }
        for remedy in nearest.remedies
    )
    yield Block("What would help", rows=rows)


def _launch(launch: Launch) -> Block:
    rows: list[Mapping[str, Cell]] = []
    for engine in launch.engines:
        if engine.commands:
            count = len(engine.commands)
            how = f"{count} command{'' if count == 1 else 's'}: --launch {engine.engine}"
        else:
            how = f"not possible: {'; '.join(engine.unsupported)}"
        rows.append({"engine": engine.engine, "version": engine.version, "launch": how})
    return Block("Launch", rows=tuple(rows))


def _known(report: PlanReport) -> Block:
    """Warnings first, then what was assumed; each once."""
    warnings = [f"warning: {text}" for text in (report.plan.warnings if report.plan else ())]
    ordered = sorted(report.findings, key=lambda finding: finding.severity is Severity.NOTE)
    warnings += [
        finding.message if finding.severity is Severity.NOTE else f"{finding.severity.value}: {finding.message}"
        for finding in ordered
        if not finding.code.startswith("estimate.")
    ]
    lines = list(dict.fromkeys(warnings))
    more = (f"{len(lines) - SAID} more: --json has them",) if len(lines) > SAID else ()
    return Block("Warnings and assumptions", lines=(*lines[:SAID], *more))
