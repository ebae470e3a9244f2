"""The search finds what trying everything finds, its counts add up, and more of anything never makes a plan worse."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import DEEPSEEK, GPT_OSS, MIXTRAL, SMOLLM2, index_for, spec_for
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Choices, Degrees, Objective, Training, Workload
from dayzero.domain.platforms import Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.errors import BadInputError
from dayzero.stages.cost.efficiency import ASSUMED
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.layout.constraints import violations
from dayzero.stages.layout.cut import UncuttableError
from dayzero.stages.planning.choices import choices_for
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.ranks import RankMemory


def figure(value: float, unit: str = "B/s") -> Figure:
    return Figure(value, unit, "a test", FigureStatus.PROBED)


CHIP = PlatformProfile(
    "chip", "A chip", "chip", memory_bytes=figure(2e5, "B"), memory_bandwidth_bytes_per_s=figure(1e9),
    flops_per_s={"bfloat16": figure(1e12, "1/s")}, devices_per_node=figure(4, "device"), nic_bytes_per_s=figure(1e8),
    link_domains=(LinkDomain("node", 4, figure(1e9), figure(1e-6, "s")), LinkDomain("rack", 8, figure(3e8), figure(2e-6, "s"))),
)  # fmt: skip
MODELS = st.sampled_from([SMOLLM2, DEEPSEEK, MIXTRAL, GPT_OSS])
OBJECTIVES = st.sampled_from([Objective.THROUGHPUT, Objective.LATENCY, Objective.FEWEST_DEVICES])


def plan(config: dict, devices: int, workload: Workload, limit: int | None = None, profile=CHIP, **more) -> PlanReport:
    return plan_for(spec_for(config), index_for(config), profile, workload, devices=devices, memory_limit_bytes=limit, **more)


def every_division(devices: int) -> list[Degrees]:
    """All degrees whose world is no more than the devices, written out anew."""
    found = []
    for tp in range(1, devices + 1):
        for pp in range(1, devices // tp + 1):
            for dp in range(1, devices // (tp * pp) + 1):
                pairs = [(ep, etp) for ep in range(1, tp * dp + 1) for etp in range(1, tp * dp // ep + 1)]
                found += [Degrees(tp, pp, ep, dp, 1, etp) for ep, etp in pairs if (ep, etp) == (1, 1) or
                          (ep > 1 and ep * etp % tp == 0 and (tp * dp) % (ep * etp) == 0)]  # fmt: skip
    return found


def brute_force(config: dict, devices: int, workload: Workload, limit: int) -> dict[str, float] | None:
    """The best of each objective over everything that fits and meets the targets."""
    spec = spec_for(config)
    memory = RankMemory(spec, index_for(config), CHIP, workload, limit)
    serving = Estimator(spec, CHIP, workload).likely
    assert serving is not None
    speed, latency, fewest = 0.0, float("inf"), float("inf")
    for degrees in every_division(devices):
        if violations(spec, degrees):
            continue
        for choices in choices_for(workload, CHIP):
            try:
                fullest = memory.fullest(degrees, choices)
            except UncuttableError:
                continue
            served = serving.served(degrees, choices)
            if fullest.total_bytes > limit or served is None or served.tpot_s > (workload.tpot_s or float("inf")):
                continue
            speed = max(speed, served.tokens_per_s)
            latency = min(latency, served.ttft_s + served.tpot_s * workload.generated_tokens)
            fewest = min(fewest, degrees.world)
    return None if speed == 0 else {"throughput": speed, "latency": latency, "fewest-devices": fewest}


@settings(max_examples=20, deadline=None)
@given(MODELS, st.integers(1, 13), st.integers(20_000, 400_000), st.integers(1, 40), st.sampled_from([None, 0.002]), OBJECTIVES)
def test_the_best_plan_is_the_best_of_everything(config, devices, limit, concurrency, tpot, objective) -> None:
    workload = Workload(context_tokens=64, output_tokens=16, concurrency=concurrency, objective=objective, tpot_s=tpot)
    report, best = plan(config, devices, workload, limit), brute_force(config, devices, workload, limit)
    assert (report.plan is None) == (best is None)
    if report.plan is None or best is None:
        return
    estimates = report.plan.estimates
    assert estimates.tpot_s and estimates.ttft_s and estimates.throughput_tokens_per_s
    found = {
        Objective.THROUGHPUT: estimates.throughput_tokens_per_s.mid,
        Objective.LATENCY: estimates.ttft_s.mid + estimates.tpot_s.mid * 16,
        Objective.FEWEST_DEVICES: report.plan.degrees.world,
    }[objective]
    assert found == pytest.approx(best[objective.value], rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(MODELS, st.integers(1, 30), st.integers(20_000, 400_000), OBJECTIVES)
def test_counts_add_up_and_worlds_are_products(config, devices, limit, objective) -> None:
    report = plan(config, devices, Workload(context_tokens=64, concurrency=8, objective=objective), limit)
    refused = sum(family.count for family in report.families)
    fitting = report.fitting
    assert refused + fitting == report.candidates
    assert (report.plan is None) == (fitting == 0)
    for one in filter(None, (report.plan, *report.alternatives, *report.pareto)):
        degrees = one.degrees
        assert degrees.tp * degrees.pp * degrees.dp * degrees.cp == degrees.world == len(one.memory) <= devices
        assert all(budget.total_bytes <= limit for budget in one.memory)
    kept = {rejection.family for rejection in report.rejected}
    assert kept == {family.family for family in report.families}


@settings(max_examples=30, deadline=None)
@given(MODELS, st.integers(1, 12), st.integers(1, 8), st.integers(20_000, 200_000), st.integers(0, 200_000), st.integers(1, 30))
def test_more_devices_or_memory_never_lower_the_best_throughput(config, devices, more, limit, memory, concurrency) -> None:
    workload = Workload(context_tokens=64, output_tokens=16, concurrency=concurrency, objective=Objective.THROUGHPUT)

    def best(count: int, room: int) -> float:
        report = plan(config, count, workload, room)
        rate = report.plan.estimates.throughput_tokens_per_s if report.plan else None
        return rate.mid if rate else 0.0

    few = best(devices, limit)
    assert best(devices + more, limit) >= few * (1 - 1e-12)
    assert best(devices, limit + memory) >= few * (1 - 1e-12)


def test_the_front_trades_throughput_a_device_for_speed_of_one_user() -> None:
    report = plan(DEEPSEEK, 8, Workload(context_tokens=64, output_tokens=16, concurrency=16, objective=Objective.THROUGHPUT))
    points = [(1 / p.estimates.tpot_s.mid, p.estimates.throughput_tokens_per_s.mid / p.degrees.world) for p in report.pareto]
    assert len(points) >= 2
    assert points == sorted(points, key=lambda point: -point[0])
    assert [share for _, share in points] == sorted(share for _, share in points)


def test_nothing_fits_and_the_nearest_miss_says_what_would_help() -> None:
    report = plan(SMOLLM2, 1, Workload(context_tokens=4096, concurrency=64, objective=Objective.THROUGHPUT), 3_000_000)
    assert report.plan is None and report.nearest is not None
    nearest = report.nearest
    assert nearest.budget.total_bytes - 3_000_000 == nearest.short_bytes > 0
    assert nearest.item == "state"
    gains = [remedy.gain_bytes for remedy in nearest.remedies]
    assert gains == sorted(gains, reverse=True)
    context = next(remedy for remedy in nearest.remedies if remedy.action.startswith("a context of "))
    assert context.enough
    tokens = int(context.action.removeprefix("a context of ").removesuffix(" tokens").replace(",", ""))
    again = plan(SMOLLM2, 1, Workload(context_tokens=tokens, concurrency=64, objective=Objective.THROUGHPUT), 3_000_000)
    assert again.plan is not None


def test_a_target_that_no_plan_meets_is_a_miss_in_seconds() -> None:
    workload = Workload(context_tokens=64, concurrency=64, tpot_s=1e-6, objective=Objective.THROUGHPUT)
    report = plan(DEEPSEEK, 4, workload)
    assert report.plan is None and report.nearest is not None
    assert report.nearest.short_bytes == 0 and report.nearest.item == "tpot"
    assert {family.family for family in report.families} >= {"tpot"}
    assert all(remedy.gain_s is not None and not remedy.enough for remedy in report.nearest.remedies)


def test_a_rate_beyond_the_devices_is_refused_with_what_they_serve() -> None:
    base = Workload(context_tokens=64, output_tokens=16, objective=Objective.THROUGHPUT)
    served = plan(DEEPSEEK, 4, replace(base, rate_per_s=1.0))
    assert served.plan is not None and served.plan.estimates.throughput_tokens_per_s is not None
    assert served.plan.estimates.throughput_tokens_per_s.mid == pytest.approx(16.0)
    refused = plan(DEEPSEEK, 4, replace(base, rate_per_s=1e8))
    assert refused.plan is None
    (overloaded,) = (family for family in refused.families if family.family == "rate")
    assert overloaded.nearest.numbers["rate_per_s"] == 1e8
    assert 1.0 < overloaded.nearest.numbers["most_per_s"] < 1e8
    assert refused.nearest is not None and refused.nearest.item == "rate"


def test_without_a_link_between_nodes_replicas_are_estimated_and_pipelines_over_nodes_are_not() -> None:
    apart = replace(CHIP, link_domains=CHIP.link_domains[:1], nic_bytes_per_s=None)
    workload = Workload(context_tokens=64, concurrency=8, objective=Objective.THROUGHPUT)
    report = plan(DEEPSEEK, 8, workload, profile=apart)
    assert report.plan is not None and report.plan.estimates.tpot_s is not None
    assert report.plan.degrees.tp * report.plan.degrees.pp <= 4
    across = plan(DEEPSEEK, 8, workload, profile=apart, fixed=Degrees(tp=4, pp=2))
    assert across.plan is not None and across.plan.estimates.tpot_s is None
    assert "estimate.no_figure" in {finding.code for finding in across.findings}


def test_training_takes_whole_micro_batches_and_says_what_a_step_is_made_of() -> None:
    workload = Workload(training=Training(64 * 12, 64), objective=Objective.THROUGHPUT)
    report = plan(SMOLLM2, 8, workload, 20_000_000)
    assert report.plan is not None and report.plan.estimates.step_s is not None
    assert 12 % (report.plan.degrees.dp * report.plan.choices.micro_batch) == 0
    assert "micro-batches" in {family.family for family in report.families}
    terms = report.plan.estimates.terms
    assert sum(term.seconds - term.hidden_s for term in terms) == pytest.approx(report.plan.estimates.step_s.mid)
    assert report.plan.estimates.throughput_tokens_per_s is not None
    assert report.plan.estimates.throughput_tokens_per_s.mid == pytest.approx(64 * 12 / report.plan.estimates.step_s.mid)


def test_measured_efficiencies_replace_the_assumed_ones() -> None:
    workload = Workload(context_tokens=64, concurrency=8, objective=Objective.THROUGHPUT)
    measured = {**ASSUMED, "stream": replace(ASSUMED["stream"], worst=0.9, likely=0.9, best=0.9, grade="measured")}
    report = plan(SMOLLM2, 1, workload, 50_000_000, efficiencies=measured)
    assert report.plan is not None
    grades = {term.grade for term in report.plan.estimates.terms if term.resource == "memory"}
    assert grades == {"measured"}


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (Workload(context_tokens=0), "A context of 0 tokens"),
        (Workload(concurrency=0), "A concurrency of 0 sequences"),
        (Workload(context_tokens=10**12), "A context of 1000000000000 tokens"),
        (Workload(context_tokens=8, output_tokens=9), "9 generated tokens do not fit in a context of 8"),
        (Workload(rate_per_s=0.0), "A rate of 0.0"),
        (Workload(rate_per_s=float("nan")), "A rate of nan"),
        (Workload(tpot_s=-1.0), "A time per token of -1.0"),
        (Workload(redundant_experts=-1), "-1 redundant experts"),
        (Workload(training=Training(100, 4096)), "100 tokens a step in sequences of 4096"),
        (Workload(training=Training(4096, 4096, zero=4)), "no ZeRO stage 4"),
        (Workload(training=Training(10_000, 4096)), "10,000 tokens a step are no whole number of sequences of 4,096"),
        (Workload(cache_dtypes=("int3",), objective=Objective.THROUGHPUT), "int3 is no cache dtype"),
    ],
)
def test_absurd_workloads_are_refused_in_one_sentence(workload: Workload, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        plan(SMOLLM2, 2, workload)


@pytest.mark.parametrize(
    "domains",
    [(LinkDomain("a", 8), LinkDomain("b", 12)), (LinkDomain("a", 8), LinkDomain("b", 4)), (LinkDomain("a", 0),)],
)
def test_a_topology_that_does_not_add_up_is_refused(domains: tuple[LinkDomain, ...]) -> None:
    with pytest.raises(BadInputError, match="chip: "):
        plan(SMOLLM2, 2, Workload(context_tokens=64), profile=replace(CHIP, link_domains=domains))


def test_what_a_model_assumes_is_carried_into_the_plan() -> None:
    report = plan(SMOLLM2, 1, Workload(context_tokens=64), 10**9)
    assert report.plan is not None
    assert any("absent" in warning for warning in report.plan.warnings)


def test_asked_choices_are_kept() -> None:
    asked = Choices(chunk_tokens=16)
    report = plan(SMOLLM2, 1, Workload(context_tokens=64, objective=Objective.THROUGHPUT), 10**9, choices=asked)
    assert report.plan is not None and report.plan.choices == asked
