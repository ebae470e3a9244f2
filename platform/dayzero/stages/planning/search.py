"""The search: every candidate is judged by structure, memory and time; each refusal keeps its reason and its figures.

Up to `ALL_JUDGED` candidates everything is judged. Beyond it memory is worked out in order of preference until the plans that
are returned are found; the rest is counted as outranked, with the figures that it was outranked by.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from dayzero.domain.plan import MemoryBudget, RejectedFamily, Rejection
from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.layout.constraints import Limits
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.planning.choices import sensible
from dayzero.stages.planning.ranking import Candidate, preference
from dayzero.stages.planning.ranks import RankMemory

ALL_JUDGED = 3000
KEPT_OF_A_FAMILY = 5
EXACTLY_SHORT = 64
"""So many plans that are short of memory are worked out item by item before weights and state alone may refuse others."""


@dataclass(slots=True)
class Refusals:
    """Counts every refusal by family and keeps the first few of each, and the one that came nearest."""

    kept_of_a_family: int = KEPT_OF_A_FAMILY
    count: int = 0
    _families: dict[str, list[Rejection]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _nearest: dict[str, tuple[float, Rejection]] = field(default_factory=dict)

    def add(self, rejection: Rejection, distance: float = 0.0) -> None:
        """One candidate that was refused; the smaller the distance, the nearer it came."""
        family = rejection.family
        self.count += 1
        self._counts[family] = self._counts.get(family, 0) + 1
        kept = self._families.setdefault(family, [])
        if len(kept) < self.kept_of_a_family:
            kept.append(rejection)
        if family not in self._nearest or distance < self._nearest[family][0]:
            self._nearest[family] = (distance, rejection)

    def nearest_of(self, family: str) -> float:
        """How near the nearest of a family came."""
        return self._nearest[family][0] if family in self._nearest else float("inf")

    def judge(self, family: str, distance: float, refuse: Callable[[], Rejection]) -> None:
        """One candidate that was refused, whose words are made only where they are kept: for one of the first of its family,
        or the nearest."""
        if len(self._families.get(family, ())) < self.kept_of_a_family or distance < self.nearest_of(family):
            self.add(refuse(), distance)
        else:
            self.more(family, 1)

    def more(self, family: str, count: int) -> None:
        """So many more of a family, of which others are kept."""
        self.count += count
        self._counts[family] = self._counts.get(family, 0) + count

    @property
    def kept(self) -> tuple[Rejection, ...]:
        """A few of each family, the nearest among them."""
        found: list[Rejection] = []
        for family, kept in self._families.items():
            nearest = self._nearest[family][1]
            found += [*kept, *(() if nearest in kept else (nearest,))]
        return tuple(found)

    @property
    def families(self) -> tuple[RejectedFamily, ...]:
        """All families, the largest first."""
        ranked = sorted(self._counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return tuple(RejectedFamily(family, count, self._nearest[family][1]) for family, count in ranked)


@dataclass(slots=True)
class Found:
    """What a search leaves: plans that fit, best first, each with its fullest rank; and the plans short of memory."""

    fitting: list[tuple[Candidate, MemoryBudget]] = field(default_factory=list)
    short: list[tuple[int, Candidate, MemoryBudget]] = field(default_factory=list)
    slow: list[tuple[float, Candidate]] = field(default_factory=list)
    judged: int = 0


class Search:
    """Judges candidates of one model on one platform under one workload."""

    def __init__(
        self, memory: RankMemory, estimator: Estimator, profile: PlatformProfile, workload: Workload, refusals: Refusals
    ) -> None:
        self.memory, self.estimator, self.profile, self.workload = memory, estimator, profile, workload
        self.refusals = refusals
        self._limits = Limits(memory.spec)
        self.found = Found()
        self.possible: list[Candidate] = []
        self._fits: dict[tuple[Degrees, Choices], MemoryBudget | None] = {}

    def run(
        self, degrees: Iterable[Degrees | Rejection], choices: tuple[Choices, ...], wanted: int, *, first_only: bool = False
    ) -> Found:
        """Judge them all; at least `wanted` plans are found if there are so many (`first_only`: any, and no more)."""
        layers = len(self.memory.spec.layers)
        possible: list[Candidate] = []
        for one in degrees:
            if isinstance(one, Rejection):
                self.found.judged += 1
                self.refusals.add(one, float(one.degrees.tp))
                continue
            for choice in choices:
                if sensible(one, choice, layers):
                    self.found.judged += 1
                    candidate = self._timed(one, choice)
                    if candidate is not None:
                        possible.append(candidate)
        possible.sort(key=self._key)
        self.possible = possible
        self._take(possible, wanted, first_only)
        return self.found

    def fits(self, candidate: Candidate) -> MemoryBudget | None:
        """The fullest rank when the plan fits, else None; the refusal was counted."""
        key = (candidate.degrees, candidate.choices)
        if key not in self._fits:
            self._fits[key] = self._fitting(candidate)
        return self._fits[key]

    def _key(self, candidate: Candidate) -> tuple[float, ...]:
        longest = 0
        if self.workload.objective is Objective.LONGEST_CONTEXT:
            longest = self.longest_tokens(candidate)
        return preference(self.workload, self.profile, candidate, longest)

    def _take(self, possible: list[Candidate], wanted: int, first_only: bool) -> None:
        everything = not first_only and (self.workload.objective is Objective.WIDEST or len(possible) <= ALL_JUDGED)
        degrees: set[Degrees] = set()
        for at, candidate in enumerate(possible):
            if not everything and len(degrees) >= wanted:
                self._outranked(possible[at:])
                return
            fullest = self.fits(candidate)
            if fullest is not None:
                self.found.fitting.append((candidate, fullest))
                degrees.add(candidate.degrees)

    def _outranked(self, rest: list[Candidate]) -> None:
        best = self.found.fitting[0][0]
        self.refusals.more("outranked", max(0, len(rest) - KEPT_OF_A_FAMILY))
        for candidate in rest[:KEPT_OF_A_FAMILY]:
            numbers: dict[str, int | float | str | None] = {}
            if candidate.served is not None and best.served is not None:
                numbers = {"throughput_tokens_per_s": candidate.served.tokens_per_s, "tpot_s": candidate.served.tpot_s,
                           "chosen_tokens_per_s": best.served.tokens_per_s, "chosen_tpot_s": best.served.tpot_s}  # fmt: skip
            reason = f"{candidate.degrees} ranks behind {len(self.found.fitting)} plans that fit; its memory was not worked out"
            self.refusals.add(Rejection(candidate.degrees, "outranked", reason, numbers))

    def _timed(self, degrees: Degrees, choices: Choices) -> Candidate | None:
        """The candidate with its likely times; None when it misses a target (the refusal is counted)."""
        if self.workload.training is not None:
            return self._trained(degrees, choices)
        serving = self.estimator.likely
        wanted = self.workload.ttft_s is not None or self.workload.tpot_s is not None or self.workload.rate_per_s is not None
        if serving is None or (self.workload.objective is Objective.WIDEST and not wanted):
            return self._untimed(Candidate(degrees, choices, None), wanted)
        served = serving.served(degrees, choices)
        if served is None:
            return self._without_times(Candidate(degrees, choices, None), wanted)
        candidate = Candidate(degrees, choices, served)
        workload = self.workload
        for family, value, target in (("tpot", served.tpot_s, workload.tpot_s), ("ttft", served.ttft_s, workload.ttft_s)):
            if target is not None and value > target:
                self.found.slow.append((value / target, candidate))
                self.refusals.judge(family, value / target, partial(_too_slow, degrees, family, value, target))
                return None
        return candidate

    def _trained(self, degrees: Degrees, choices: Choices) -> Candidate | None:
        """A training plan with its step; None when the step's sequences do not divide over it (the refusal is counted)."""
        cost = self.estimator.training
        training = self.workload.training
        assert training is not None
        sequences, each = training.tokens_per_step // training.sequence_tokens, degrees.dp * choices.micro_batch
        if training.tokens_per_step % training.sequence_tokens or sequences % each:
            reason = f"{sequences} sequences a step do not divide over {degrees.dp} replicas by {choices.micro_batch} at a time"
            numbers: dict[str, int | float | str | None] = {"sequences": sequences, "each": each}
            self.refusals.add(Rejection(degrees, "micro-batches", reason, numbers))
            return None
        return Candidate(degrees, choices, None, cost.trained(degrees, choices) if cost is not None else None)

    def _without_times(self, candidate: Candidate, wanted: bool) -> Candidate | None:
        """A rate that is too high, or a figure that is missing."""
        serving = self.estimator.likely
        if self.workload.rate_per_s is not None and serving is not None:
            numbers = serving.overload(candidate.degrees, candidate.choices)
            if numbers is not None:
                self.found.slow.append((numbers["rate_per_s"] / max(numbers["most_per_s"], 1e-12), candidate))
                reason = (f"{candidate.degrees} serves at most {numbers['most_per_s']:.4g} requests a second of "
                          f"{numbers['rate_per_s']:.4g}")  # fmt: skip
                self.refusals.add(Rejection(candidate.degrees, "rate", reason, dict(numbers)), -numbers["most_per_s"])
                return None
        return self._untimed(candidate, wanted)

    def _untimed(self, candidate: Candidate, wanted: bool) -> Candidate | None:
        if not wanted:
            return candidate
        reason = f"{candidate.degrees}: a figure is missing, so whether it meets the target is not known"
        self.refusals.add(Rejection(candidate.degrees, "no estimate", reason, {}))
        return None

    def _fitting(self, candidate: Candidate) -> MemoryBudget | None:
        try:
            if self._clearly_short(candidate):
                return None
            fullest = self.memory.fullest(candidate.degrees, candidate.choices, self.sequences_of(candidate))
        except UncuttableError as error:
            self.refusals.add(Rejection(candidate.degrees, error.family, error.reason, error.numbers), candidate.degrees.tp)
            return None
        if fullest.limit_bytes is None or fullest.total_bytes <= fullest.limit_bytes:
            return fullest
        short = fullest.total_bytes - fullest.limit_bytes
        self.found.short.append((short, candidate, fullest))
        self.refusals.judge("memory", short, partial(_short_of_memory, candidate.degrees, fullest, fullest.limit_bytes))
        return None

    def _clearly_short(self, candidate: Candidate) -> bool:
        """Whether weights and state alone leave no room, once enough others were worked out item by item (the refusal is
        counted)."""
        if len(self.found.short) < EXACTLY_SHORT:
            return False
        served = candidate.served
        sequences = served.sequences if served is not None else -(-self.workload.concurrency // candidate.degrees.dp)
        short = self.memory.short_at_least(candidate.degrees, candidate.choices, sequences)
        # A plan that is shorter by these than another by everything is no nearer miss.
        if not short or short < self.refusals.nearest_of("memory"):
            return False
        self.refusals.more("memory", 1)
        return True

    def sequences_of(self, candidate: Candidate) -> int | None:
        """Sequences on a replica where a rate decides how many there are; None: the workload says it."""
        return candidate.served.sequences if candidate.served is not None and self.workload.rate_per_s is not None else None

    def has_room(self, degrees: Degrees, choices: Choices, sequences: int | None = None) -> bool:
        """Whether the structure allows a plan and its fullest rank has room for it; nothing is counted."""
        fullest = self.possible_budget(degrees, choices, sequences)
        return fullest is not None and (fullest.limit_bytes is None or fullest.total_bytes <= fullest.limit_bytes)

    def possible_budget(self, degrees: Degrees, choices: Choices, sequences: int | None = None) -> MemoryBudget | None:
        """The fullest rank of a plan, None when the structure does not allow it; nothing is counted."""
        if self._limits.violations(degrees, self.workload.redundant_experts):
            return None
        try:
            return self.memory.fullest(degrees, choices, sequences)
        except UncuttableError:
            return None

    def longest_tokens(self, candidate: Candidate) -> int:
        """The context that the fullest rank has room for, at the workload's concurrency; 0 when the plan does not fit."""
        fullest = self.fits(candidate)
        if fullest is None or fullest.limit_bytes is None:
            return 0
        free, state = fullest.limit_bytes - fullest.total_bytes, fullest.items_bytes.get("state", 0)
        if not state:
            return self.workload.context_tokens
        # Windows and recurrent state make a token cheaper later on, so this is the least that there is room for.
        return self.workload.context_tokens + free * self.workload.context_tokens // state


def _too_slow(degrees: Degrees, family: str, seconds: float, target_s: float) -> Rejection:
    """The refusal of a plan that misses a target."""
    numbers: dict[str, int | float | str | None] = {f"{family}_s": seconds, "target_s": target_s}
    return Rejection(degrees, family, f"{degrees}: {family} {seconds:.4g} s, {target_s:.4g} s asked for", numbers)


def _short_of_memory(degrees: Degrees, budget: MemoryBudget, limit_bytes: int) -> Rejection:
    """The refusal of a plan whose fullest rank needs too much."""
    short = budget.total_bytes - limit_bytes
    on_device = {name: size for name, size in budget.items_bytes.items() if not name.startswith("host_")}
    item, largest = max(on_device.items(), key=lambda pair: pair[1])
    reason = (f"rank {budget.rank} needs {budget.total_bytes} bytes of {limit_bytes}: short by {short}, "
              f"the largest item is {item} with {largest}")  # fmt: skip
    return Rejection(degrees, "memory", reason, {"limit_bytes": limit_bytes, "short_bytes": short, **{
        f"{name}_bytes": size for name, size in budget.items_bytes.items()}})  # fmt: skip
