"""One screen about a plan: what was chosen, what it needs, how fast it is, where it sits, and why nothing else was taken."""

from collections.abc import Callable, Iterator, Mapping

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Severity
from dayzero.domain.launch import Launch
from dayzero.domain.plan import Estimates, Interval, ParallelPlan, PlanReport, Rung
from dayzero.domain.planning import Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.reports import Block, Cell
from dayzero.stages.explaining.bars import memory_block
from dayzero.stages.explaining.memory import gigabytes
from dayzero.stages.explaining.refusals import families_block, nearest_blocks
from dayzero.stages.explaining.words import (
    RESOURCES,
    figures,
    grade_of,
    middle,
    parallel_words,
    per_device,
    pools_words,
    seconds,
    serving_words,
    term_words,
    trade_words,
    training_words,
    workload_words,
)
from dayzero.stages.planning.placement import Spread, joined, node_lines, placed, spreads

SHORT = 40
"""Characters that a note has at least without its reason; what is shorter says nothing alone."""

BEST, NODE_LINES, SAID = 5, 4, 7
"""How many plans, nodes and warnings one screen shows; the JSON has them all."""


def plan_screen(
    report: PlanReport,
    spec: ModelSpec,
    profile: PlatformProfile,
    model: str,
    launch: Launch | None,
    search_s: float,
    what_if: Block | None = None,
) -> tuple[Block, ...]:
    """The screen of a report, block by block, about 50 lines; `what_if` comes after its head."""
    plan = report.plan
    blocks = [_head(report, spec, profile, model, search_s), *([what_if] if what_if is not None else [])]
    if plan is not None:
        blocks += [memory_block(plan), speed_block(report, plan), _placement(report, plan, profile), _ladder(plan)]
        blocks += [_best(report, plan), _apart(report, plan)]
    elif report.nearest is not None:
        blocks += list(nearest_blocks(report.nearest))
    blocks.append(families_block(report))
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
    nodes = len({at.node for at in placed(plan, profile)})
    world = plan.degrees.world
    where = f"{world} device{'' if world == 1 else 's'}" + (f" of {nodes} nodes" if nodes > 1 else "")
    running = serving_words(plan, spec) if report.workload.training is None else training_words(plan)
    lines = [line for line in (parallel_words(plan, spec), running, asked) if line]
    return Block(f"{model} on {profile.slug}: {plan.degrees} on {where}", lines=(*lines, judged))


def speed_block(report: PlanReport, plan: ParallelPlan) -> Block:
    """The estimates with their intervals and grade, what binds, and the terms that make them up."""
    estimates = plan.estimates
    rows = (*_times(estimates, report.workload), *_rates(plan))
    lines = [line for phase in ("prefill", "decode", "train") if (line := term_words(estimates.terms, phase)) is not None]
    if plan.binds is not None:
        lines.insert(0, f"what binds: {RESOURCES.get(plan.binds, plan.binds)}")
    if not rows:
        missing = "; ".join(one.message for one in report.findings if one.code.startswith("estimate."))
        lines.append(f"not estimated: {missing or 'a figure of the platform is missing'}")
    return Block("Speed", rows=rows, lines=tuple(lines))


def _times(estimates: Estimates, workload: Workload) -> Iterator[Mapping[str, Cell]]:
    for name, interval, phase, asked in (
        ("time to first token", estimates.ttft_s, "prefill", workload.ttft_s),
        ("time per output token", estimates.tpot_s, "decode", workload.tpot_s),
        ("training step", estimates.step_s, "train", None),
    ):
        if interval is not None:
            known = grade_of(tuple(term for term in estimates.terms if term.phase == phase))
            target = None if asked is None else f"≤ {seconds(asked)}"
            yield {"estimate": name, **_bounds(interval, seconds), "asked": target, "known": known}


def _rates(plan: ParallelPlan) -> Iterator[Mapping[str, Cell]]:
    rate, known = plan.estimates.throughput_tokens_per_s, grade_of(plan.estimates.terms)
    if rate is not None:
        yield {"estimate": "tokens/s of all devices", **_bounds(rate, figures), "known": known}
        world = plan.degrees.world
        each = Interval(rate.low / world, rate.mid / world, rate.high / world)
        yield {"estimate": "tokens/s a device", **_bounds(each, figures), "known": known}


def _bounds(interval: Interval, said: Callable[[float], str]) -> dict[str, Cell]:
    return {"low": said(interval.low), "middle": said(interval.mid), "high": said(interval.high)}


def _placement(report: PlanReport, plan: ParallelPlan, profile: PlatformProfile) -> Block:
    if plan.degrees.world == 1:
        return Block("Placement")
    return Block("Placement", lines=placement_lines(report, plan, profile, NODE_LINES))


def placement_lines(report: PlanReport, plan: ParallelPlan, profile: PlatformProfile, most_nodes: int) -> tuple[str, ...]:
    """A line for each node, of many nodes for so many, and one for each kind of group."""
    places = placed(plan, profile)
    groups = spreads(plan.degrees, profile, places, training=report.workload.training is not None)
    return (*node_lines(plan.degrees, places, most_nodes), *(_spread(one, profile) for one in groups))


def _spread(spread: Spread, profile: PlatformProfile) -> str:
    """Where the groups of one kind lie, in a sentence."""
    one = spread.groups == 1
    talk = f"group{'' if one else 's'} of {spread.size} talk{'s' if one else ''}"
    return f"{spread.kind}: {spread.groups} {talk} over {joined(spread, profile)}"


def _ladder(plan: ParallelPlan) -> Block:
    rungs = plan.rungs[:-1]
    if not rungs:
        return Block("Ladder")
    said = [f"{rung.degrees}" + ("" if _whole(rung) else f" ({rung.layers}/{rung.of_layers} layers)") for rung in rungs]
    lines = [" → ".join([*said, str(plan.degrees)])]
    if not all(_whole(rung) for rung in rungs):
        lines.append("where layers are given, these first ones with dummy weights: more do not fit")
    return Block("Ladder", lines=tuple(lines))


def _whole(rung: Rung) -> bool:
    return rung.layers == rung.of_layers


def _best(report: PlanReport, plan: ParallelPlan) -> Block:
    shown = (plan, *report.alternatives)[:BEST]
    rows: list[Mapping[str, Cell]] = []
    for one in shown:
        budget, rate = one.fullest, per_device(one)
        rows.append(
            {
                "plan": str(one.degrees),
                "devices": one.degrees.world,
                "TTFT": middle(one.estimates.ttft_s),
                "TPOT": middle(one.estimates.tpot_s),
                "tokens/s each": None if rate is None else figures(rate),
                "fullest": gigabytes(budget.total_bytes)
                if not budget.limit_bytes
                else f"{budget.total_bytes / budget.limit_bytes:.0%}",
                "against the chosen": trade_words(one, plan),
            }
        )
    return Block("The best" if len(rows) > 1 else "The only one", rows=tuple(rows), lines=front_words(report))


def _apart(report: PlanReport, plan: ParallelPlan) -> Block:
    """The best plan with prefill on devices of its own, against the chosen one."""
    apart, title = report.apart, "With prefill on devices of its own"
    if apart is None or apart.prefill is None:
        return Block(title)
    pool, rate = apart.prefill, per_device(apart)
    times = f"TTFT {middle(apart.estimates.ttft_s)}, TPOT {middle(apart.estimates.tpot_s)}"
    each = "" if rate is None else f", {figures(rate)} tokens/s each"
    full = max(pool.memory, apart.fullest, key=lambda budget: budget.total_bytes)
    lines = (
        pools_words(apart.degrees, pool),
        f"{times}{each} (against the chosen: {trade_words(apart, plan)}); fullest rank {gigabytes(full.total_bytes)}",
        f"prefill takes up to {figures(pool.requests_per_s)} prompts/s; a prompt's cache travels {seconds(pool.transfer_s)}",
    )
    return Block(title, lines=lines)


def front_words(report: PlanReport) -> tuple[str, ...]:
    """Both ends of the front of speed for one user against throughput a device; () where there is no choice between them."""
    timed = [(plan.estimates.tpot_s.mid, rate, plan) for plan in report.pareto
             if plan.estimates.tpot_s is not None and (rate := per_device(plan)) is not None]  # fmt: skip
    if len(timed) < 2:
        return ()
    fastest, widest = min(timed, key=lambda one: one[0]), max(timed, key=lambda one: one[1])
    ends = [
        f"{plan.degrees} ({seconds(tpot)} a token, {figures(rate)} tokens/s each)" for tpot, rate, plan in (fastest, widest)
    ]
    return (f"of {len(timed)} plans that none beats in both, {ends[0]} is the fastest for one user, {ends[1]} gives most",)


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


def _shortened(message: str) -> str:
    """A note without its reason, which stands in brackets at its end."""
    said, bracket, _ = message.partition(" (")
    return said if bracket and message.endswith(")") and len(said) >= SHORT else message


def _known(report: PlanReport) -> Block:
    """Warnings first, then what was assumed; each once."""
    warnings = [f"warning: {text}" for text in (report.plan.warnings if report.plan else ())]
    ordered = sorted(report.findings, key=lambda finding: finding.severity is Severity.NOTE)
    warnings += [
        _shortened(finding.message) if finding.severity is Severity.NOTE else f"{finding.severity.value}: {finding.message}"
        for finding in ordered
        if not finding.code.startswith("estimate.")
    ]
    lines = list(dict.fromkeys(warnings))
    more = (f"{len(lines) - SAID} more: --json has them",) if len(lines) > SAID else ()
    return Block("Warnings and assumptions", lines=(*lines[:SAID], *more))
