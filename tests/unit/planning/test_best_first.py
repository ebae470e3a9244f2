"""Bounded times: no plan is faster than they say, and a search that starts from them finds what a look at every plan finds."""

from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkpoints import DEEPSEEK, GPT_OSS, MIXTRAL, SMOLLM2, index_for, spec_for
from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.plan import ParallelPlan, PlanReport
from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.planning import search
from dayzero.stages.planning.best_first import BestFirst
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.groups import grouped
from golden_models import spec_of

PROFILES = load_profiles(None)
MODELS = st.sampled_from([SMOLLM2, DEEPSEEK, MIXTRAL, GPT_OSS])
LARGE = ("moonshotai/Kimi-K3", "deepseek-ai/DeepSeek-V3", "meta-llama/Meta-Llama-3.1-405B")
OBJECTIVES = st.sampled_from([Objective.THROUGHPUT, Objective.LATENCY, Objective.FEWEST_DEVICES])
POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def divisions(draw: st.DrawFn) -> Degrees:
    tp, etp, sets = draw(POWERS), draw(POWERS), draw(st.integers(1, 6))
    experts = draw(st.booleans()) and etp <= tp
    ep = tp * draw(st.integers(1, 4)) if experts else 1
    shared = max(1, ep * etp // tp) if experts else 1
    return Degrees(tp, draw(st.integers(1, 48)), ep, shared * sets, draw(st.sampled_from([1, 1, 2])), etp if experts else 1)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(LARGE), st.sampled_from(["h200", "ascend-910c", "tpu-v5e", "tpu-v6e"]), divisions(),
       st.integers(1, 5000), st.sampled_from([None, 512]), st.sampled_from([None, "fp8"]), st.integers(2, 6000))  # fmt: skip
def test_no_plan_is_faster_than_its_bounds(model, platform, degrees, concurrency, chunk, dtype, context) -> None:
    workload = Workload(context_tokens=context, output_tokens=max(1, context // 5), concurrency=concurrency)
    estimator, choices = Estimator(spec_of(model), PROFILES[platform], workload), Choices(cache_dtype=dtype, chunk_tokens=chunk)
    likely, floor = estimator.likely, estimator.floor
    assert likely is not None and floor is not None
    exact = likely.served(degrees, choices)
    if exact is None:
        assert floor.served(degrees, choices) is None
        return
    groups, others = grouped([(degrees, choices)], floor, PROFILES[platform], workload)
    assert not others
    for bound in (floor.served(degrees, choices), groups[0].served):
        assert bound is not None
        assert bound.ttft_s <= exact.ttft_s
        assert bound.tpot_s <= exact.tpot_s
        assert bound.tokens_per_s >= exact.tokens_per_s


def figures(plan: ParallelPlan | None) -> tuple[object, ...]:
    if plan is None:
        return ()
    estimates = plan.estimates
    return plan.degrees, plan.choices, estimates.ttft_s, estimates.tpot_s, estimates.throughput_tokens_per_s


@settings(max_examples=40, deadline=None)
@given(MODELS, st.integers(9, 48), st.integers(20_000, 400_000), st.integers(1, 200), OBJECTIVES, st.booleans(),
       st.sampled_from([(None, None), (0.004, None), (None, 0.02), (1e-5, None), (0.003, 0.01)]))  # fmt: skip
@example(DEEPSEEK, 32, 49_176, 1, Objective.THROUGHPUT, True, (None, None))
@example(GPT_OSS, 32, 49_176, 1, Objective.THROUGHPUT, True, (None, None))
def test_bounds_lead_to_the_same_plans_as_looking_at_all(
    config, devices, limit, concurrency, objective, links, targets
) -> None:
    tpot, ttft = targets
    workload = Workload(context_tokens=64, output_tokens=16, concurrency=concurrency, objective=objective, tpot_s=tpot,
                        ttft_s=ttft, cache_dtypes=("bfloat16", "fp8"))  # fmt: skip
    profile = PROFILES["h200" if links else "ascend-910c"]

    def planned(judged: int) -> PlanReport:
        with patch.object(search, "ALL_JUDGED", judged):
            return plan_for(spec_for(config), index_for(config), profile, workload, devices=devices, memory_limit_bytes=limit)

    bounded, whole = planned(0), planned(1 << 30)
    assert figures(bounded.plan) == figures(whole.plan)
    assert [figures(one) for one in bounded.alternatives] == [figures(one) for one in whole.alternatives]
    assert [figures(one) for one in bounded.pareto] == [figures(one) for one in whole.pareto]
    assert figures(bounded.apart) == figures(whole.apart)
    assert bounded.candidates == whole.candidates
    assert bounded.fitting + sum(family.count for family in bounded.families) == bounded.candidates
    assert (bounded.nearest is None) == (whole.nearest is None)
    if bounded.nearest is not None and whole.nearest is not None:
        assert bounded.nearest.short_bytes == whole.nearest.short_bytes
        assert bounded.nearest.degrees == whole.nearest.degrees


def test_bounded_things_give_way_only_when_their_turn_comes() -> None:
    looked: list[int] = []

    def nearer(bound: tuple[int, bool]) -> list[tuple[int, bool]]:
        looked.append(bound[0])
        return [(bound[0] + 5, False), (bound[0] + 1, True)] if bound[0] % 2 else []

    queue = BestFirst([(3, True), (7, False), (4, True), (20, True)], lambda one: (one[0],), lambda one: one[1], nearer)
    taken = []
    for number, _ in queue:
        taken.append(number)
        if number == 8:
            break
    assert taken == [7, 8]
    assert looked == [3, 4, 4]
    assert queue.waiting == [(20, True)]


def test_a_plan_behind_others_says_whether_its_times_are_bounds() -> None:
    workload = Workload(context_tokens=5000, output_tokens=1000, concurrency=1024, objective=Objective.THROUGHPUT)
    with patch.object(search, "ALL_JUDGED", 0):
        report = plan_for(spec_of("moonshotai/Kimi-K3"), None, PROFILES["h200"], workload, devices=64, memory_limit_bytes=None)
    behind = [rejection for rejection in report.rejected if rejection.family == "outranked"]
    assert report.plan is not None and behind
    best = report.plan.estimates.throughput_tokens_per_s
    assert best is not None
    for rejection in behind:
        rate = rejection.numbers["throughput_tokens_per_s"]
        assert isinstance(rate, float)
        assert rate <= best.mid * (1 + 1e-9)
        assert "behind" in rejection.reason
    assert any("even at its fastest" in rejection.reason for rejection in behind)


@pytest.mark.parametrize("target", [{"ttft_s": 1e-6}, {"tpot_s": 1e-6}])
def test_a_refusal_by_a_bound_says_at_least(target: dict[str, float]) -> None:
    workload = Workload(context_tokens=5000, output_tokens=1000, concurrency=1024, objective=Objective.THROUGHPUT, **target)
    with patch.object(search, "ALL_JUDGED", 0):
        report = plan_for(spec_of("moonshotai/Kimi-K3"), None, PROFILES["h200"], workload, devices=64, memory_limit_bytes=None)
    assert report.plan is None
    family = next(iter(target)).removesuffix("_s")
    assert any(f"{family} at least" in one.reason for one in report.rejected if one.family == family)
    assert report.nearest is not None and report.nearest.item == family
