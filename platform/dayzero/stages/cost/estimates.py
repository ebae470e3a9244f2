"""Estimates of one plan with intervals, their terms, and what binds."""

from collections.abc import Iterable, Iterator, Mapping

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.costs import Efficiencies, Load
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.plan import Estimates, Interval, Term
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.cost.efficiency import ASSUMED
from dayzero.stages.cost.floors import ServingFloor
from dayzero.stages.cost.links import latency_findings
from dayzero.stages.cost.rates import rates_of
from dayzero.stages.cost.serving import Served, ServingCost, is_servable, stage_kinds
from dayzero.stages.cost.steps import Part, StepCost
from dayzero.stages.cost.training import TrainingCost
from dayzero.stages.structure.families import family_of

_BOUNDS = ("worst", "likely", "best")
LARGEST_TERMS = 12


class Estimator:
    """Estimates of one model under one workload on one platform; `likely` alone serves the search."""

    def __init__(
        self, spec: ModelSpec, profile: PlatformProfile, workload: Workload, efficiencies: Efficiencies = ASSUMED
    ) -> None:
        self.missing = tuple(_missing(spec, profile, served=workload.training is None))
        self._efficiencies = efficiencies
        self._by_bound: Mapping[str, ServingCost] = {}
        self._floor: ServingFloor | None = None
        self._training: Mapping[str, TrainingCost] = {}
        rates = rates_of(spec, profile)
        self.findings = rates.findings if rates is not None else ()
        if not self.missing and rates is not None:
            costs = {bound: StepCost(spec, profile, rates, efficiencies, bound) for bound in _BOUNDS}
            self._by_bound = {bound: ServingCost(cost, workload) for bound, cost in costs.items()}
            self._floor = ServingFloor(costs["likely"], workload)
            if workload.training is not None:
                self._training = {bound: TrainingCost(cost, workload.training) for bound, cost in costs.items()}
            self.findings = (*self.findings, *latency_findings(profile))

    @property
    def likely(self) -> ServingCost | None:
        """The estimate that plans are ranked by; None when a figure is missing."""
        return self._by_bound.get("likely")

    @property
    def floor(self) -> ServingFloor | None:
        """What no plan is faster than, by the likely estimate; None when a figure is missing."""
        return self._floor

    @property
    def bounds(self) -> Mapping[str, ServingCost]:
        """The estimates at each bound of the efficiencies; empty when a figure is missing."""
        return self._by_bound

    @property
    def training(self) -> TrainingCost | None:
        """The estimate of training plans; None when a figure is missing, or nothing is trained."""
        return self._training.get("likely")

    def estimates(self, degrees: Degrees, choices: Choices) -> tuple[Estimates, str | None]:
        """The plan's estimates, and what takes most of its time per token or step; empty where figures are missing."""
        if self._training:
            return self._trained(degrees, choices)
        served = {bound: cost.served(degrees, choices) for bound, cost in self._by_bound.items()}
        likely = served.get("likely")
        if likely is None:
            return Estimates(), None
        worst, best = served["worst"] or likely, served["best"] or likely
        terms = self._terms(degrees, choices, likely)
        return Estimates(
            ttft_s=_interval(best.ttft_s, likely.ttft_s, worst.ttft_s),
            tpot_s=_interval(best.tpot_s, likely.tpot_s, worst.tpot_s),
            throughput_tokens_per_s=_interval(worst.tokens_per_s, likely.tokens_per_s, best.tokens_per_s),
            terms=terms,
        ), _binds(terms)

    def _trained(self, degrees: Degrees, choices: Choices) -> tuple[Estimates, str | None]:
        found = {bound: cost.trained(degrees, choices) for bound, cost in self._training.items()}
        likely = found["likely"]
        if likely is None:
            return Estimates(), None
        worst, best = found["worst"] or likely, found["best"] or likely
        network = self._by_bound["likely"].steps.network
        wide = network.farthest(degrees.dp, degrees.tp * degrees.cp)
        near = network.farthest(degrees.tp * degrees.attention_dp, 1)
        parts = (("forward and backward passes", "compute", likely.passes_s, 0.0),
                 ("exchange between ranks", near, likely.exchange_s, 0.0),
                 ("pipeline idle", "bubble", likely.bubble_s, 0.0),
                 ("gradient reduction", wide, likely.reduce_s, likely.hidden_s),
                 ("optimizer", "memory", likely.update_s, 0.0))  # fmt: skip
        terms = tuple(Term("train", what, resource, seconds, hidden, self._grade(resource))
                      for what, resource, seconds, hidden in parts if seconds)  # fmt: skip
        return Estimates(
            step_s=_interval(best.step_s, likely.step_s, worst.step_s),
            throughput_tokens_per_s=_interval(worst.tokens_per_s, likely.tokens_per_s, best.tokens_per_s),
            terms=terms,
        ), _binds(terms)

    def _terms(self, degrees: Degrees, choices: Choices, served: Served) -> tuple[Term, ...]:
        cost = self._by_bound["likely"]
        many = min(degrees.pp, served.sequences)
        mixed, decode = cost.loads(-(-served.sequences // many), choices)
        terms: list[Term] = []
        for phase, load in (("decode", decode), ("prefill", mixed)):
            counts, head = self._slowest(cost, degrees, choices, load)
            parts = cost.steps.parts(counts, degrees, load, cost.cache_bytes(choices), head=head, compressed=choices.compressed)
            times = degrees.pp if phase == "decode" else cost.chunks(choices)[0]
            terms += self._graded(phase, parts, times)
            hop = cost.hop_s(degrees, load) if degrees.pp > 1 else None
            if hop is not None:
                name = cost.steps.network.farthest(max(2, degrees.pp), degrees.tp * degrees.cp * degrees.dp)
                terms.append(Term(phase, "pipeline hops", name, hop * times, grade=self._grade("link")))
        if degrees.pp > 1:
            pace = cost.pace(degrees, choices, served.sequences)
            if pace is not None:
                terms.append(Term("prefill", "pipeline filling", "bubble", (degrees.pp - 1) * pace.mixed_s))
        if served.wait_s:
            terms.append(Term("prefill", "waiting behind other prompts", "queue", served.wait_s))
        return tuple(terms)

    def _slowest(
        self, cost: ServingCost, degrees: Degrees, choices: Choices, load: Load
    ) -> tuple[tuple[tuple[int, int], ...], bool]:
        cache = cost.cache_bytes(choices)
        kinds = stage_kinds(cost.steps.class_of, degrees.pp)
        return max(kinds, key=lambda kind: cost.steps.stage_s(kind[0], degrees, load, cache, head=kind[1],
                                                              compressed=choices.compressed) or 0.0)  # fmt: skip

    def _graded(self, phase: str, parts: Iterable[Part], times: int) -> list[Term]:
        """Parts of the same name together, the largest first; the smallest are one term."""
        sums: dict[tuple[str, str], tuple[float, float]] = {}
        for part in parts:
            seconds, hidden = sums.get((part.what, part.resource), (0.0, 0.0))
            sums[(part.what, part.resource)] = (seconds + part.seconds, hidden + part.hidden_s)
        ranked = sorted(sums.items(), key=lambda pair: -pair[1][0])
        terms = [Term(phase, what, resource, seconds * times, hidden * times, self._grade(resource))
                 for (what, resource), (seconds, hidden) in ranked]  # fmt: skip
        rest = terms[LARGEST_TERMS:]
        if rest:
            total, hidden_s = sum(term.seconds for term in rest), sum(term.hidden_s for term in rest)
            terms = [*terms[:LARGEST_TERMS], Term(phase, f"{len(rest)} smaller terms", "various", total, hidden_s)]
        return terms

    def _grade(self, resource: str) -> str:
        names = {"compute": "gemm", "memory": "stream", "launch": "kernel_s"}
        name = names.get(resource, "link")
        return self._efficiencies[name].grade if name in self._efficiencies else "assumed"


def _binds(terms: Iterable[Term]) -> str | None:
    """The resource that takes most of a token's time."""
    sums: dict[str, float] = {}
    for term in terms:
        if term.phase in ("decode", "train"):
            sums[term.resource] = sums.get(term.resource, 0.0) + term.seconds - term.hidden_s
    names = {"memory": "memory bandwidth"}
    most = max(sums, key=lambda resource: sums[resource], default=None)
    return None if most is None else names.get(most, most)


def _interval(low: float, mid: float, high: float) -> Interval:
    return Interval(min(mid, low), mid, max(mid, high))


def _missing(spec: ModelSpec, profile: PlatformProfile, *, served: bool) -> Iterator[Finding]:
    """Why there is no estimate at all: one finding for each figure that nobody states."""
    lacking = []
    if family_of(spec) is None or not spec.layers or not spec.hidden_size:
        lacking.append("the model's structure")
    elif served and not is_servable(spec):
        lacking.append("text that is generated token by token (the model is an encoder): its step")
    if profile.memory_bandwidth_bytes_per_s is None:
        lacking.append("memory bandwidth")
    if rates_of(spec, profile) is None:
        lacking.append(f"rate for {spec.native_dtype or 'the native dtype'}")
    for what in lacking:
        yield Finding("estimate.no_figure", what, f"{what} is not known for {profile.slug}: no estimate", Severity.NOTE)
