"""The ladder: from one device to the plan, each rung one kind of parallelism more, reduced where memory demands it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.plan import RungWeights
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.stages.layout.shares import weight_table
from dayzero.stages.planning.ladder import rungs_of, steps_to
from dayzero.stages.planning.ladder_need import need_of
from plans import DENSE, EXPERTS, GB, made_plan, shipped, structure


def rungs(model: str, degrees: Degrees, limit: int | None, need):
    spec = structure(model)
    return rungs_of(spec, made_plan(degrees, spec, limit=limit), need, lambda _: limit)


def test_deepseek_on_sixteen_devices() -> None:
    spec = structure(EXPERTS)
    need = need_of(spec, None, shipped("h200"), Workload(context_tokens=2048), Choices())
    found = rungs(EXPERTS, Degrees(tp=8, ep=16, dp=2), 141 * GB, need)
    assert [str(rung.degrees) for rung in found] == ["tp1", "tp2", "tp4", "tp8", "tp8-ep8", "tp8-ep16-dp2"]
    assert [rung.weights.value for rung in found] == ["dummy"] * 3 + ["real"] * 3
    first = found[0]
    assert 4 <= first.layers < 61 and first.needed_bytes is not None and first.needed_bytes <= 141 * GB
    assert need(first.degrees, first.layers + 1) > 141 * GB
    assert "all 61 layers need 6" in first.why and f"{first.layers} fit" in first.why


def test_the_whole_depth_needs_the_bytes_of_the_weights() -> None:
    spec = structure(DENSE)
    need, table = need_of(spec, None, shipped("h200"), Workload(context_tokens=1), Choices()), weight_table(spec, None)
    assert table is not None
    for degrees in (Degrees(), Degrees(tp=4), Degrees(tp=2, pp=4)):
        held = max(stage.most_bytes for stage in table.stages(degrees))
        whole = need(degrees, len(spec.layers))
        assert whole is not None and held <= whole < held * 1.01


def test_a_rung_that_not_even_one_layer_fits_is_left_out() -> None:
    found = rungs(DENSE, Degrees(tp=2, pp=2), 10, lambda degrees, layers: layers * 100 // degrees.tp)
    assert [str(rung.degrees) for rung in found] == ["tp2-pp2"]


def test_without_a_limit_or_a_need_rungs_are_whole_and_say_no_figure() -> None:
    found = rungs(DENSE, Degrees(tp=2), None, lambda degrees, layers: None)
    assert [(rung.layers, rung.weights, rung.needed_bytes) for rung in found[:-1]] == [(80, RungWeights.REAL, None)]


def test_what_the_structure_forbids_is_no_rung() -> None:
    # 8 key-value heads: tp 8 divides them, tp 3 would not; a goal of 3 has only itself above one device.
    found = rungs(DENSE, Degrees(tp=3, pp=2), None, lambda degrees, layers: None)
    assert [str(rung.degrees) for rung in found] == ["tp1", "tp3-pp2"]


@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_steps_grow_to_the_goal(tp: int, pp: int, sharing: int, replicas: int, cp: int, experts: bool) -> None:
    goal = Degrees(tp, pp, tp * sharing if experts and tp * sharing > 1 else 1, sharing * replicas, cp)
    steps = [degrees for degrees, _ in steps_to(goal)]
    assert steps[0] == Degrees() and steps[-1] == goal and len(set(steps)) == len(steps)
    for one, two in pairwise(steps):
        assert one.world <= two.world
        assert all(
            after % before == 0 for before, after in zip((one.tp, one.pp, one.cp), (two.tp, two.pp, two.cp), strict=True)
        )


@given(st.integers(1, 400), st.integers(1, 80))
def test_the_depth_is_the_most_that_fits(limit: int, a_layer: int) -> None:
    found = rungs(DENSE, Degrees(tp=2), limit, lambda degrees, layers: layers * a_layer)
    for rung in found[:-1]:
        assert rung.needed_bytes is not None and rung.needed_bytes <= limit
        assert rung.layers == 80 or (rung.layers + 1) * a_layer > limit


@pytest.mark.parametrize("goal", [Degrees(), Degrees(dp=4), Degrees(tp=4, ep=2, etp=4, dp=2)])
def test_steps_of_odd_goals(goal: Degrees) -> None:
    assert [degrees for degrees, _ in steps_to(goal)][-1] == goal
