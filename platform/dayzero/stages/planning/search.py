"""The search: every candidate is judged by structure, memory and time; each refusal keeps its reason and its figures.

Up to `ALL_JUDGED` candidates everything is judged. Beyond it plans and groups of plans are ranked by times that bound theirs
and worked out in that order until the plans that are returned are found; the rest is counted as outranked, with the figures
that outranked it. The plans are those of a look at everything (docs/decisions/0009-a-search-by-bounds.md).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from dayzero.domain.plan import MemoryBudget, Rejection
from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.cost.serving import Served
from dayzero.stages.layout.constraints import Limits
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.planning.best_first import BestFirst
from dayzero.stages.planning.choices import sensible
from dayzero.stages.planning.groups import Asked, Group, Possible, group_preference, grouped, is_bounded, plans_of, size_of
from dayzero.stages.planning.ranking import Candidate, preference
from dayzero.stages.planning.ranks import RankMemory
from dayzero.stages.planning.refusals import KEPT_OF_A_FAMILY, Refusals, short_of_memory, too_slow

ALL_JUDGED = 1000
EXACTLY_SHORT = 64
"""So many plans that are short of memory are worked out item by item before weights and state alone may refuse others."""


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
        self.asked: list[Asked] = []
        self.possible: list[Possible] = []
        self._fits: dict[tuple[Degrees, Choices], MemoryBudget | None] = {}

    def run(
        self, degrees: Iterable[Degrees | Rejection], choices: tuple[Choices, ...], wanted: int, *, first_only: bool = False
    ) -> Found:
        """Judge them all; at least `wanted` plans are found if there are so many (`first_only`: any, and no more)."""
        self.asked = list(self._asked(degrees, choices))
        everything = not first_only and (self.workload.objective is Objective.WIDEST or len(self.asked) <= ALL_JUDGED)
        queue = BestFirst(self._possible(everything), self._key, is_bounded, self._worked_out)
        passed: list[Possible] = []
        found: set[Degrees] = set()
        for candidate in queue:
            assert isinstance(candidate, Candidate)
            passed.append(candidate)
            fullest = self.fits(candidate)
            if fullest is not None:
                self.found.fitting.append((candidate, fullest))
                found.add(candidate.degrees)
            if not everything and len(found) >= wanted:
                break
        rest = queue.waiting
        if rest:
            self._outranked(rest)
        self.possible = passed + rest
        return self.found

    def ranked(self) -> Iterator[Candidate]:
        """Plans in order of preference, whether they fit or not, each with its own times; nothing is counted."""
        for one in BestFirst(self.possible, self._key, is_bounded, self.nearer):
            assert isinstance(one, Candidate)
            yield one

    def nearer(self, one: Possible) -> Iterator[Possible]:
        """Members of a group, still bounded; a bounded plan with its own times, if it meets its targets. Nothing is counted."""
        if isinstance(one, Group):
            yield from self._members(one, lambda _: True)
            return
        timed = self.with_times(one)
        if timed.served is not None and self.late(timed) is None:
            yield timed

    def _possible(self, everything: bool) -> list[Possible]:
        """What is to be ranked: plans with their times where everything is judged, else plans or groups with times that bound
        theirs. A target is held against every plan, so that each is counted where it is missed."""
        floor, workload = self.estimator.floor, self.workload
        asked: Iterable[Asked] = self.asked
        timed, groups = self._timed, list[Group]()
        if not everything and floor is not None and self._bounds_help():
            if workload.ttft_s is not None or workload.tpot_s is not None:
                timed = self._bounded
            else:
                groups, asked = grouped(asked, floor, self.profile, workload)
        return [*groups, *(candidate for one in asked if (candidate := timed(*one)) is not None)]

    def _asked(self, degrees: Iterable[Degrees | Rejection], choices: tuple[Choices, ...]) -> Iterator[Asked]:
        """Degrees with every choice that makes a difference; what the structure refuses is counted."""
        layers = len(self.memory.spec.layers)
        for one in degrees:
            if isinstance(one, Rejection):
                self.found.judged += 1
                self.refusals.add(one, float(one.degrees.tp))
                continue
            for choice in choices:
                if sensible(one, choice, layers):
                    self.found.judged += 1
                    yield one, choice

    def fits(self, candidate: Candidate) -> MemoryBudget | None:
        """The fullest rank when the plan fits, else None; the refusal was counted."""
        key = (candidate.degrees, candidate.choices)
        if key not in self._fits:
            self._fits[key] = self._fitting(candidate)
        return self._fits[key]

    def known_to_fit(self, candidate: Candidate) -> bool | None:
        """Whether it fits; None when its memory was not worked out."""
        key = (candidate.degrees, candidate.choices)
        return self._fits[key] is not None if key in self._fits else None

    def with_times(self, candidate: Candidate) -> Candidate:
        """The candidate with times of its own instead of those that bound them."""
        serving = self.estimator.likely
        if not candidate.bounded or serving is None:
            return candidate
        return replace(candidate, served=serving.served(candidate.degrees, candidate.choices), bounded=False)

    def late(self, candidate: Candidate) -> tuple[str, float, float] | None:
        """The target that a candidate misses, its own value, and the target's; None when it misses none."""
        served, workload = candidate.served, self.workload
        if served is not None and workload.tpot_s is not None and served.tpot_s > workload.tpot_s:
            return "tpot", served.tpot_s, workload.tpot_s
        if served is not None and workload.ttft_s is not None and served.ttft_s > workload.ttft_s:
            return "ttft", served.ttft_s, workload.ttft_s
        return None

    def _worked_out(self, one: Possible) -> Iterator[Possible]:
        """What a group or a bounded plan comes to when its turn is there; refusals are counted."""
        if isinstance(one, Group):
            yield from self._members(one, lambda degrees: not self._hopeless(degrees, one.choices))
        elif not self._hopeless(one.degrees, one.choices):
            timed = self._timed(one.degrees, one.choices)
            if timed is not None:
                yield timed

    def _members(self, group: Group, wanted: Callable[[Degrees], bool]) -> Iterator[Candidate]:
        for degrees in filter(wanted, group.members):
            candidate = self._bounded(degrees, group.choices)
            if candidate is not None:
                yield candidate

    def _key(self, one: Possible) -> tuple[float, ...]:
        if isinstance(one, Group):
            return group_preference(self.workload, one)
        longest = self.longest_tokens(one) if self.workload.objective is Objective.LONGEST_CONTEXT else 0
        return preference(self.workload, self.profile, one, longest)

    def _outranked(self, rest: list[Possible]) -> None:
        best = self.found.fitting[0][0]
        plans = [plan for one in rest[:KEPT_OF_A_FAMILY] for plan in plans_of(one)][:KEPT_OF_A_FAMILY]
        self.refusals.more("outranked", sum(size_of(one) for one in rest) - len(plans))
        for candidate in plans:
            numbers: dict[str, int | float | str | None] = {}
            if candidate.served is not None and best.served is not None:
                numbers = {"throughput_tokens_per_s": candidate.served.tokens_per_s, "tpot_s": candidate.served.tpot_s,
                           "chosen_tokens_per_s": best.served.tokens_per_s, "chosen_tpot_s": best.served.tpot_s}  # fmt: skip
            bound = "even at its fastest " if candidate.bounded else ""
            reason = (f"{candidate.degrees} ranks {bound}behind {len(self.found.fitting)} plans that fit; "
                      "its memory was not worked out")  # fmt: skip
            self.refusals.add(Rejection(candidate.degrees, "outranked", reason, numbers))

    def _bounds_help(self) -> bool:
        """Whether the order of preference follows from times that can be bounded: not where a rate says how many sequences
        there are, in training, or where memory ranks plans."""
        workload = self.workload
        by_speed = workload.objective in (Objective.THROUGHPUT, Objective.LATENCY, Objective.FEWEST_DEVICES)
        return by_speed and self.estimator.floor is not None and workload.training is None and workload.rate_per_s is None

    def _bounded(self, degrees: Degrees, choices: Choices) -> Candidate | None:
        """The candidate with times that it cannot be faster than; None when even they miss a target (it is counted)."""
        assert self.estimator.floor is not None
        served = self.estimator.floor.served(degrees, choices)
        if served is None:
            return self._without_times(Candidate(degrees, choices, None), self._has_target())
        return self._on_time(Candidate(degrees, choices, served, bounded=True))

    def _timed(self, degrees: Degrees, choices: Choices) -> Candidate | None:
        """The candidate with its likely times; None when it misses a target (the refusal is counted)."""
        if self.workload.training is not None:
            return self._trained(degrees, choices)
        serving, wanted = self.estimator.likely, self._has_target()
        if serving is None or (self.workload.objective is Objective.WIDEST and not wanted):
            return self._untimed(Candidate(degrees, choices, None), wanted)
        served = serving.served(degrees, choices)
        if served is None:
            return self._without_times(Candidate(degrees, choices, None), wanted)
        return self._on_time(Candidate(degrees, choices, served))

    def _has_target(self) -> bool:
        workload = self.workload
        return workload.ttft_s is not None or workload.tpot_s is not None or workload.rate_per_s is not None

    def _on_time(self, candidate: Candidate) -> Candidate | None:
        """The candidate, None when it misses a target (the refusal is counted)."""
        late = self.late(candidate)
        if late is None:
            return candidate
        family, value, target = late
        self.found.slow.append((value / target, candidate))
        self.refusals.judge(family, value / target, partial(too_slow, candidate, family, value, target))
        return None

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
        if self._hopeless(candidate.degrees, candidate.choices, candidate.served):
            return None
        try:
            fullest = self.memory.fullest(candidate.degrees, candidate.choices, self.sequences_of(candidate))
        except UncuttableError as error:
            self._uncuttable(candidate.degrees, error)
            return None
        if fullest.limit_bytes is None or fullest.total_bytes <= fullest.limit_bytes:
            return fullest
        short = fullest.total_bytes - fullest.limit_bytes
        self.found.short.append((short, candidate, fullest))
        self.refusals.judge("memory", short, partial(short_of_memory, candidate.degrees, fullest, fullest.limit_bytes))
        return None

    def _uncuttable(self, degrees: Degrees, error: UncuttableError) -> None:
        self.refusals.add(Rejection(degrees, error.family, error.reason, error.numbers), degrees.tp)

    def _hopeless(self, degrees: Degrees, choices: Choices, served: Served | None = None) -> bool:
        """Whether weights and state alone leave no room, once enough others were worked out item by item, or a tensor cannot be
        cut (the refusal is counted)."""
        if len(self.found.short) < EXACTLY_SHORT:
            return False
        sequences = served.sequences if served is not None else -(-self.workload.concurrency // degrees.dp)
        try:
            short = self.memory.short_at_least(degrees, choices, sequences)
        except UncuttableError as error:
            self._uncuttable(degrees, error)
            return True
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
