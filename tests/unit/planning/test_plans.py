"""Plans: what fits is taken, what does not is refused with its figures, more memory never hurts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import DEEPSEEK, GPT_OSS, MIXTRAL, SMOLLM2, index_for, spec_for
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.platforms import Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.errors import BadInputError
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.index import predicted_index
from dayzero.stages.structure.reading import read_spec

BARE = PlatformProfile("bare", "No figures", "bare")
SHORT = Workload(context_tokens=64)


def figure(value: float, unit: str) -> Figure:
    return Figure(value, unit, "a test", FigureStatus.PROBED)


FULL = replace(
    BARE,
    slug="full",
    memory_bytes=figure(80e9, "B"),
    memory_bandwidth_bytes_per_s=figure(2e12, "B/s"),
    flops_per_s={"bfloat16": figure(1e15, "1/s")},
    link_domains=(LinkDomain("node", 8, figure(4e11, "B/s")),),
)


def plan(config: dict, devices: int, limit: int | None = None, workload: Workload = SHORT, profile=BARE, **more):
    return plan_for(spec_for(config), index_for(config), profile, workload, devices=devices, memory_limit_bytes=limit, **more)


def test_nine_heads_take_tp_3_and_refuse_tp_2() -> None:
    report = plan(SMOLLM2, 3)
    assert report.plan is not None and report.plan.degrees == Degrees(tp=3)
    assert report.plan.ladder == (Degrees(),)
    refused = [(r.degrees, r.reason) for r in report.rejected if r.family == "heads"]
    assert (Degrees(tp=2), "9 heads do not divide by tp 2") in refused


def test_nine_heads_on_two_devices_take_pp_2() -> None:
    report = plan(SMOLLM2, 2)
    assert report.plan is not None and report.plan.degrees == Degrees(pp=2)
    assert report.plan.stage_layers == ((0, 2), (2, 3))


def test_ladder_leads_up_from_one_device() -> None:
    report = plan(DEEPSEEK, 4)
    assert report.plan is not None and report.plan.degrees == Degrees(tp=4)
    assert report.plan.ladder == (Degrees(), Degrees(tp=2))


def test_memory_refusal_says_how_many_bytes_are_short_and_of_what() -> None:
    report = plan(DEEPSEEK, 1, limit=1000)
    assert report.plan is None
    (refusal,) = report.rejected
    assert refusal.family == "memory"
    others = ("limit_bytes", "short_bytes", "host_staging_bytes")
    need = sum(size for name, size in refusal.numbers.items() if name not in others)
    assert refusal.numbers["short_bytes"] == need - 1000
    assert f"short by {need - 1000}" in refusal.reason and "largest item is" in refusal.reason


def test_without_memory_figure_memory_is_not_judged_and_said_so() -> None:
    report = plan(DEEPSEEK, 2)
    assert report.plan is not None and report.plan.memory[0].limit_bytes is None
    codes = {finding.code for finding in report.findings}
    assert {"plan.memory_not_judged", "estimate.no_figure"} <= codes
    assert report.plan.estimates.tpot_s is None and report.plan.binds is None


def test_estimates_where_figures_exist() -> None:
    report = plan(DEEPSEEK, 4, profile=FULL)
    assert report.plan is not None
    tpot = report.plan.estimates.tpot_s
    assert tpot is not None and 0 < tpot.low < tpot.mid < tpot.high
    rate = report.plan.estimates.throughput_tokens_per_s
    assert rate is not None and rate.low < rate.mid < rate.high
    # A structure of 64 columns is bound by starting its kernels.
    assert report.plan.binds == "launch"
    assert report.plan.memory[0].limit_bytes == 80_000_000_000


def test_processes_of_one_machine_share_its_memory() -> None:
    report = plan(DEEPSEEK, 2, limit=10_000_000, profile=replace(BARE, torch_device="cpu"))
    assert report.plan is not None and report.plan.memory[0].limit_bytes == 5_000_000


def test_fixed_degrees_beyond_the_devices() -> None:
    report = plan(DEEPSEEK, 2, fixed=Degrees(tp=4))
    assert report.plan is None
    assert [r.reason for r in report.rejected] == ["tp4 takes 4 devices; there are 2"]


def test_degrees_below_one() -> None:
    with pytest.raises(BadInputError, match="tp 0, pp 1, ep 1, dp 1: every degree is at least 1"):
        plan(DEEPSEEK, 2, fixed=Degrees(tp=0))


def test_draft_layers_of_the_checkpoint_are_named_in_the_plan() -> None:
    index = index_for(DEEPSEEK)
    draft = [replace(header, name=header.name.replace("layers.3.", "layers.4.")) for header in index.tensors
             if "layers.3." in header.name]  # fmt: skip
    with_draft = replace(index, tensors=(*index.tensors, *draft))
    spec = spec_for({**DEEPSEEK, "num_nextn_predict_layers": 1}, with_draft)
    report = plan_for(spec, with_draft, BARE, SHORT, devices=2, memory_limit_bytes=None, fixed=Degrees(pp=2))
    assert "plan.prediction_layers" in {finding.code for finding in report.findings}
    assert report.plan is not None
    assert sum(budget.items_bytes["weights"] for budget in report.plan.memory) == with_draft.weight_bytes
    assert spec.parameters.by_component["multi_token_prediction"] > 0
    assert spec.parameters.total_language == spec_for(DEEPSEEK).parameters.total_language


@pytest.mark.parametrize("devices", [0, -1, 10**9])
def test_absurd_devices(devices: int) -> None:
    with pytest.raises(BadInputError, match="devices cannot be planned for"):
        plan(SMOLLM2, devices)


def test_before_weights_the_plan_is_predicted_and_says_so() -> None:
    spec = spec_for(DEEPSEEK)
    report = plan_for(spec, None, BARE, SHORT, devices=2, memory_limit_bytes=None)
    with_headers = plan(DEEPSEEK, 2)
    assert report.plan is not None and with_headers.plan is not None
    assert report.plan.memory == with_headers.plan.memory
    assert "plan.predicted_weights" in {finding.code for finding in report.findings}


def test_unknown_architecture_is_planned_by_its_weights_alone() -> None:
    report = plan_for(spec_for({**SMOLLM2, "model_type": "new"}), index_for(SMOLLM2), BARE, SHORT, devices=2,
                      memory_limit_bytes=None)  # fmt: skip
    assert report.plan is not None and report.plan.degrees == Degrees(dp=2)
    assert report.plan.memory[0].items_bytes == {
            "weights": index_for(SMOLLM2).weight_bytes, "host_staging": index_for(SMOLLM2).weight_bytes}  # fmt: skip
    assert {"layout.replicated", "plan.state_unknown"} <= {finding.code for finding in report.findings}
    assert "unknown architecture" in {rejection.family for rejection in report.rejected}


MODELS = st.sampled_from([SMOLLM2, DEEPSEEK, MIXTRAL, GPT_OSS])


@settings(max_examples=40, deadline=None)
@given(MODELS, st.integers(1, 6), st.integers(1, 500_000), st.integers(0, 500_000), st.booleans())
def test_more_memory_never_makes_a_plan_infeasible(config: dict, devices: int, limit: int, more: int, shared: bool) -> None:
    profile = replace(BARE, torch_device="cpu") if shared else BARE
    less, greater = plan(config, devices, limit, profile=profile), plan(config, devices, limit + more, profile=profile)

    def refused(report) -> set:
        return {r.degrees for r in report.rejected}

    assert refused(greater) <= refused(less)


@settings(max_examples=40, deadline=None)
@given(MODELS, st.integers(1, 6))
def test_plans_add_up(config: dict, devices: int) -> None:
    report = plan(config, devices)
    assert report.plan is not None
    for taken in (report.plan, *report.alternatives):
        degrees = taken.degrees
        assert degrees.tp * degrees.pp * degrees.dp == degrees.world == len(taken.memory) <= devices
        manifest = lay_out("c", spec_for(config), index_for(config), degrees)
        for budget in taken.memory:
            assert budget.items_bytes["weights"] == manifest.rank_weight_bytes(budget.rank)
        assert taken.stage_layers[0][0] == 0 and taken.stage_layers[-1][1] == len(spec_for(config).layers)
        assert all(rung.world < degrees.world for rung in taken.ladder)
    assert plan(config, devices) == report


def golden(model: str):
    facts = json.loads((Path(__file__).parents[2] / "golden" / "structures.json").read_text())
    return read_spec(json.dumps(next(fact for fact in facts if fact["model"] == model)["config"]).encode(), None)


def test_predicted_bytes_of_gpt_oss_are_the_published_ones() -> None:
    # 65,248,815,744 bytes: 4-bit expert blocks with 8-bit scales, everything else bfloat16.
    index = predicted_index(golden("openai/gpt-oss-120b"))
    assert index is not None and index.weight_bytes == 65248815744


def test_fp8_blocks_limit_tensor_parallelism_before_any_weights() -> None:
    # 18432 / 32 = 576 columns a rank are no multiple of 128, 18432 / 16 = 1152 are.
    spec = golden("deepseek-ai/DeepSeek-V3")
    for tp, family in ((32, "block quantization"), (16, None)):
        report = plan_for(spec, None, FULL, SHORT, devices=32, memory_limit_bytes=None, fixed=Degrees(tp=tp))
        assert {rejection.family for rejection in report.rejected} == ({family} if family else set())
