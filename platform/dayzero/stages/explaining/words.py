"""A plan in words and figures that people say."""

from collections import defaultdict

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import Estimates, Interval, ParallelPlan, PrefillPool, Term
from dayzero.domain.planning import Degrees, Workload

RESOURCES = {"memory": "memory bandwidth", "launch": "kernel launches", "bubble": "pipeline bubble", "queue": "queueing"}
"""Resources by the names that people use; a link domain has its own."""

VARIOUS = "various"
"""The resource of terms that are the sum of others."""

PHASES = {"prefill": "TTFT", "decode": "TPOT", "train": "step"}
"""Which time the terms of a phase make up."""


def seconds(value: float) -> str:
    """A time in s, ms or µs, three figures."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{figures(value / size)} {unit}"
    return "0 s" if value == 0 else f"{value:.2g} s"


def middle(interval: Interval | None) -> str | None:
    """The middle of an estimated time; None where there is no estimate."""
    return None if interval is None else seconds(interval.mid)


def times_of(estimates: Estimates) -> tuple[tuple[str, Interval | None], ...]:
    """The estimated times by their names."""
    return ("TTFT", estimates.ttft_s), ("TPOT", estimates.tpot_s), ("step", estimates.step_s)


def figures(value: float) -> str:
    """Three figures, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def parallel_words(plan: ParallelPlan, spec: ModelSpec | None = None) -> str:
    """How the devices share the work."""
    degrees = plan.degrees
    said = []
    if degrees.tp > 1:
        said.append(f"each layer is cut over {degrees.tp} devices (tp)")
    if degrees.cp > 1:
        said.append(f"each sequence is cut over {degrees.cp} ranks (cp)")
    if degrees.pp > 1:
        counts = [last - first for first, last in plan.stage_layers]
        layers = f" of {_counts(counts)} layers" if counts else ""
        said.append(f"{degrees.pp} stages{layers} (pp)")
    if degrees.ep > 1:
        said.append(_expert_words(plan, spec))
    if (replicas := degrees.dp // max(1, degrees.attention_dp)) > 1:
        said.append(f"{replicas} replicas of the whole (dp)")
    return "; ".join(said) if said else "one device holds and does everything"


def _phases(plan: ParallelPlan) -> str:
    if plan.prefill is not None:
        return pools_words(plan.degrees, plan.prefill)
    apart = plan.choices.prefill_devices
    together = "prefill and decode together"
    return f"{apart} devices for prefill, {plan.degrees.world - apart} for decode" if apart else together


def pools_words(degrees: Degrees, pool: PrefillPool) -> str:
    """Who prefills and who decodes, and on how many devices each."""
    many = f"{pool.instances} × {pool.degrees}" if pool.instances > 1 else str(pool.degrees)
    return (
        f"prefill by {many} on {pool.devices} of {pool.devices + degrees.world} devices, decode by {degrees} on {degrees.world}"
    )


def _counts(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{most} or {least}" if most - least == 1 else f"{least} to {most}"


def _expert_words(plan: ParallelPlan, spec: ModelSpec | None) -> str:
    degrees = plan.degrees
    counts = sorted({layer.experts for layer in spec.layers if layer.experts}) if spec else []
    each = "".join(f", {count // degrees.ep} of {count} on each" for count in counts)
    cut = f" in {degrees.etp} slices" if degrees.etp > 1 else ""
    shared = f", shared by {degrees.attention_dp} replicas of attention" if degrees.attention_dp > 1 else ""
    return f"experts{cut} over {degrees.ep} ranks{each}{shared} (ep)"


def serving_words(plan: ParallelPlan, spec: ModelSpec | None = None) -> str:
    """How requests go through it: phases, chunk, cache, micro-batches."""
    choices = plan.choices
    dtype = choices.cache_dtype or (spec.state.dtype if spec else None)
    said = [_phases(plan)]
    said.append(
        "a whole prompt a step" if choices.chunk_tokens is None else f"{choices.chunk_tokens:,} tokens of prompt a step"
    )
    said.append(f"cache in {dtype}" if dtype else "cache in the model's dtype")
    if choices.page_tokens > 1:
        said[-1] += f", pages of {choices.page_tokens} tokens"
    if choices.weight_dtype is not None:
        said.append(f"weights in {choices.weight_dtype}")
    if choices.micro_batch > 1:
        said.append(f"{choices.micro_batch} sequences a micro-batch")
    if choices.sequence_parallel:
        said.append("norms cut by tp")
    if choices.compressed:
        said.append("collectives of one byte an element")
    return "; ".join(said)


def training_words(plan: ParallelPlan) -> str:
    """How a training step goes through it; empty where nothing is chosen."""
    choices = plan.choices
    said = []
    if plan.degrees.pp > 1 or choices.micro_batch > 1:
        said.append(f"{choices.micro_batch} sequence{'' if choices.micro_batch == 1 else 's'} a micro-batch")
    if choices.virtual_stages > 1:
        said.append(f"{choices.virtual_stages} interleaved pieces a stage")
    if choices.sequence_parallel:
        said.append("norms and residuals cut by tp")
    if choices.compressed:
        said.append("collectives of one byte an element")
    return "; ".join(said)


def workload_words(workload: Workload) -> str:
    """What was asked."""
    training = workload.training
    if training is not None:
        lora = f", LoRA rank {training.lora_rank}" if training.lora_rank else ""
        return (
            f"training: {training.tokens_per_step:,} tokens a step, sequences of {training.sequence_tokens:,}, "
            f"{training.optimizer.value}, ZeRO {training.zero}, recompute {training.recompute.value}{lora}"
        )
    load = f"{workload.rate_per_s:g} requests/s" if workload.rate_per_s else f"{workload.concurrency:,} at once"
    targets = "".join(
        f", {name} within {seconds(value)}"
        for name, value in (("TTFT", workload.ttft_s), ("TPOT", workload.tpot_s))
        if value is not None
    )
    return (
        f"sequences of {workload.context_tokens:,} tokens, {workload.generated_tokens:,} of them generated, {load}{targets}; "
        f"objective {workload.objective.value}"
    )


def grade_of(terms: tuple[Term, ...]) -> str:
    """How well the terms are known: measured, assumed, or which share of the seconds was measured."""
    whole = sum(term.seconds for term in terms)
    known = sum(term.seconds for term in terms if term.grade == "measured")
    if not whole or not known:
        return "assumed"
    return "measured" if known >= whole else f"{known / whole:.0%} measured"


def term_words(terms: tuple[Term, ...], phase: str, most: int = 3) -> str | None:
    """The terms of a phase, the longest first: what, on which resource, what of it is hidden behind others."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for term in terms:
        if term.phase == phase:
            sums[term.what, term.resource][0] += term.seconds
            sums[term.what, term.resource][1] += term.hidden_s
    if not sums:
        return None
    # A sum of small ones is no term of its own.
    ordered = sorted(sums.items(), key=lambda item: (item[0][1] == VARIOUS, item[1][1] - item[1][0]))
    named = [item for item in ordered if item[0][1] != VARIOUS][:most]
    said = [_term(what, resource, *times) for (what, resource), times in named]
    rest = sum(whole - hidden for _, (whole, hidden) in ordered[len(named) :])
    if rest > 0:
        said.append(f"all else {seconds(rest)}")
    return f"{PHASES.get(phase, phase)} = " + " + ".join(said)


def _term(what: str, resource: str, whole: float, hidden: float) -> str:
    behind = f", {seconds(hidden)} more hidden" if hidden > 0 else ""
    resource = RESOURCES.get(resource, resource)
    where = f" ({resource}{behind})" if resource != what else behind and f" ({behind[2:]})"
    return f"{what} {seconds(max(0.0, whole - hidden))}{where}"


def per_device(plan: ParallelPlan) -> float | None:
    """Throughput of one device at its middle estimate."""
    rate = plan.estimates.throughput_tokens_per_s
    return None if rate is None else rate.mid / plan.devices


def trade_words(plan: ParallelPlan, chosen: ParallelPlan, *, all_devices: bool = False) -> str:
    """What another plan gives and takes against the chosen one; throughput is that of one device, or of all."""
    if plan is chosen:
        return "chosen"
    said = []
    mine, its = per_device(plan), per_device(chosen)
    if mine and its:
        share = plan.devices / chosen.devices if all_devices else 1.0
        said.append(_change(mine / its * share, "throughput of all" if all_devices else "throughput"))
    for (name, here), (_, there) in zip(times_of(plan.estimates), times_of(chosen.estimates), strict=True):
        if here is not None and there is not None and here.mid > 0 and there.mid > 0:
            said.append(_change(here.mid / there.mid, name))
    said = [one for one in said if one]
    more = plan.devices - chosen.devices
    if more:
        said.append(f"{abs(more)} {'more' if more > 0 else 'fewer'} devices")
    return ", ".join(said) if said else "much the same" if plan.estimates.tpot_s else "no estimate tells them apart"


def _change(ratio: float, what: str) -> str:
    if abs(ratio - 1) < 0.02:
        return ""
    return f"{what} ×{ratio:.2g}" if ratio >= 2 or ratio <= 0.5 else f"{what} {ratio - 1:+.0%}"
