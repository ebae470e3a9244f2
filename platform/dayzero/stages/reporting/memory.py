"""Memory by rank: what was planned, what was predicted for the run that was measured, and what it took."""

from collections.abc import Sequence

from dayzero.domain.entry_report import FingerprintFigures, MemorySeries, RankFigures
from dayzero.domain.observations import MemoryObserved
from dayzero.domain.observed_parallel import ParallelObserved
from dayzero.domain.plan import PlanReport
from dayzero.domain.verdict import Check, Measurement
from dayzero.stages.memory.error import ERROR
from dayzero.stages.memory.host import HOST

MOST_RANKS = 64
"""Ranks that a page shows; of larger plans the fullest."""


def planned_series(plan: PlanReport | None) -> MemorySeries | None:
    """The budgets of the plan; None where none is known."""
    if plan is None or plan.plan is None:
        return None
    budgets = sorted(plan.plan.memory, key=lambda one: (-one.total_bytes, one.rank))[:MOST_RANKS]
    ranks = tuple(
        RankFigures(
            one.rank,
            {name: size for name, size in one.items_bytes.items() if size > 0 and not name.startswith(HOST)},
            {},
            one.limit_bytes,
        )
        for one in sorted(budgets, key=lambda one: one.rank)
    )
    work = plan.workload
    what = f"planned for {work.context_tokens:,} tokens of context and {work.concurrency} sequences at once"
    return MemorySeries(what, str(plan.plan.degrees), ranks)


def measured_series(observed: MemoryObserved, check: Check, measurements: Sequence[Measurement]) -> MemorySeries:
    """What the ranks of the measured run took, beside what was predicted for exactly that run."""
    what = (
        f"one sequence of {observed.prompt_tokens:,} tokens and {observed.new_tokens} more, "
        f"in {observed.dtype} by {observed.attention} attention, above what the process held before"
    )
    ranks = []
    for one in observed.ranks[:MOST_RANKS]:
        rest = max(one.peak_bytes - one.weight_bytes - one.state_bytes, 0)
        measured = {"weights": one.weight_bytes, "state": one.state_bytes, "activations": rest}
        ranks.append(RankFigures(one.rank, _predicted(one.rank, check, measurements), measured))
    return MemorySeries(what, check.rung, tuple(ranks))


def _predicted(rank: int, check: Check, measurements: Sequence[Measurement]) -> dict[str, int]:
    """The prediction item by item where the check has this rank's (it has the worst one's), else by what was measured."""
    if check.numbers.get("rank") == rank:
        found = {
            name.removeprefix("predicted_").removesuffix("_bytes"): int(size)
            for name, size in check.numbers.items()
            if name.startswith("predicted_") and isinstance(size, int | float) and size > 0
        }
        state = found.get("state", 0) + found.pop("state_beyond", 0)
        return {**found, **({"state": state} if state else {})}
    said = {
        str(one.conditions["item"]): int(one.conditions["predicted_bytes"])
        for one in measurements
        if one.name == ERROR and one.conditions.get("rank") == rank and "predicted_bytes" in one.conditions
    }
    peak = said.pop("peak", None)
    if peak is not None:
        said["activations"] = max(peak - sum(said.values()), 0)
    return said


def ranks_of(observed: ParallelObserved, check: Check) -> tuple[MemorySeries, FingerprintFigures | None]:
    """What the ranks of a parallel run held, and what their fingerprints cost."""
    ranks = tuple(
        RankFigures(one.rank, {}, {"weights": one.weight_bytes}, None) for one in observed.ranks[:MOST_RANKS]
    )  # fmt: skip
    series = MemorySeries("weights that each rank's shard files hold", check.rung, ranks)
    if observed.prints is None or not observed.prints.ranks:
        return series, None
    most = max(observed.prints.ranks, key=lambda one: one.size_bytes)
    return series, FingerprintFigures(
        check.rung, len(observed.prints.ranks), len(most.prints), most.size_bytes, most.tokens
    )  # fmt: skip
