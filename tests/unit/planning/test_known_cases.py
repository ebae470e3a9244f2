"""Cases that people reported or that have one right answer, planned for."""

import json
from dataclasses import replace

import pytest

from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Choices, Degrees, Objective, Recompute, Training, Workload
from dayzero.domain.platforms import Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.stages.planning.choosing import plan_for
from dayzero.stages.planning.fewest import least_devices
from dayzero.stages.planning.ranking import occupied_devices
from dayzero.stages.planning.ranks import RankMemory
from dayzero.stages.structure.reading import read_spec
from golden_models import models

PROFILES = load_profiles(None)
SERVED = Workload(context_tokens=5000, output_tokens=1000, concurrency=64, objective=Objective.THROUGHPUT)


def spec(name: str, **changed: object) -> ModelSpec:
    model = next(model for model in models() if model.name == name)
    return read_spec(json.dumps({**json.loads(model.config), **changed}).encode(), None, side=model.side)


def figure(value: float, unit: str = "B/s") -> Figure:
    return Figure(value, unit, "a test", FigureStatus.PROBED)


def plan(model: ModelSpec, profile: PlatformProfile, devices: int, workload: Workload = SERVED, **more) -> PlanReport:
    return plan_for(model, None, profile, workload, devices=devices, memory_limit_bytes=more.pop("limit", None), **more)


def test_twenty_eight_heads_on_eight_devices_are_tp4_by_dp2() -> None:
    """28 heads and 4 key-value heads (Qwen2.5-7B): tp 8 is impossible, the widest plan is four times two."""
    report = plan(spec("Qwen/Qwen2.5-7B-Instruct"), PROFILES["h100"], 8, replace(SERVED, objective=Objective.WIDEST))
    assert report.plan is not None and report.plan.degrees.world == 8
    dense = [p.degrees for p in (report.plan, *report.alternatives) if p.degrees.pp == 1]
    assert Degrees(tp=4, dp=2) in dense or report.plan.degrees == Degrees(tp=4, pp=2)
    refused = {rejection.degrees.tp for rejection in report.rejected if rejection.family == "heads"}
    assert 8 in refused
    alone = plan(spec("Qwen/Qwen2.5-7B-Instruct"), PROFILES["h100"], 8, fixed=Degrees(tp=4, dp=2))
    assert alone.plan is not None


@pytest.mark.parametrize("devices", [3, 6, 12])
@pytest.mark.parametrize("objective", [Objective.THROUGHPUT, Objective.LATENCY, Objective.WIDEST, Objective.FEWEST_DEVICES])
def test_thirty_two_heads_never_take_tp_3(devices: int, objective: Objective) -> None:
    report = plan(spec("meta-llama/Meta-Llama-3.1-8B"), PROFILES["h100"], devices, replace(SERVED, objective=objective))
    assert report.plan is not None
    assert all(32 % one.degrees.tp == 0 for one in (report.plan, *report.alternatives, *report.pareto))


@pytest.mark.parametrize("tp", [8, 16, 32])
def test_key_value_heads_are_replicated_once_tp_exceeds_them(tp: int) -> None:
    """8 key-value heads of 80 layers: 40,960 bytes a token and rank at tp 8, 16 and 32 (Llama-3.1-70B, bfloat16)."""
    report = plan(spec("meta-llama/Meta-Llama-3.1-70B"), PROFILES["h200"], tp,
                  replace(SERVED, concurrency=1), fixed=Degrees(tp=tp), choices=Choices())  # fmt: skip
    assert report.plan is not None
    assert {budget.items_bytes["state"] for budget in report.plan.memory} == {40960 * 5000}


def test_experts_are_divided_by_ep_and_redundant_ones_are_counted() -> None:
    """DeepSeek-V3 at ep 8: 36 expert slots a rank with 32 redundant experts, 32 without; never all 256."""
    model, profile = spec("deepseek-ai/DeepSeek-V3"), replace(PROFILES["h200"], memory_bytes=figure(400e9, "B"))
    alone, more = (
        plan(model, profile, 8, replace(SERVED, redundant_experts=extra), fixed=Degrees(ep=8, dp=8)).plan for extra in (0, 32)
    )
    assert alone is not None and more is not None
    experts = 58 * 256 * 44040192
    copies = [budget.items_bytes.get("redundant_experts", 0) for budget in more.memory]
    # Scales of 128 × 128 blocks come on top of a byte a weight.
    assert experts / 8 < alone.memory[0].items_bytes["weights"] < experts / 8 * 1.5
    # The draft layer has experts too, and its copies are written like the others'.
    assert sum(copies) == pytest.approx(59 * 32 * 44040192, rel=0.001)
    held = [budget.items_bytes["weights"] + copy for budget, copy in zip(more.memory, copies, strict=True)]
    assert len(set(held)) == 1
    assert held[0] - alone.memory[0].items_bytes["weights"] == pytest.approx(59 * 4 * 44040192, rel=0.001)


def test_window_layers_are_not_charged_in_full() -> None:
    """gpt-oss-120b: 4.50439453125 GiB at 131,072 tokens, half its layers see 128."""
    report = plan(spec("openai/gpt-oss-120b"), PROFILES["h200"], 1,
                  replace(SERVED, context_tokens=131072, concurrency=1), fixed=Degrees(), choices=Choices())  # fmt: skip
    assert report.plan is not None
    assert report.plan.memory[0].items_bytes["state"] == int(4.50439453125 * 2**30)


@pytest.mark.parametrize(("tp", "legal"), [(16, True), (32, False)])
def test_fp8_blocks_forbid_tp_32_for_18432_columns(tp: int, legal: bool) -> None:
    report = plan(spec("deepseek-ai/DeepSeek-V3"), PROFILES["h200"], 32, fixed=Degrees(tp=tp, ep=32, dp=32 // tp))
    families = {family.family for family in report.families}
    assert ("block quantization" not in families) == legal
    if not legal:
        assert any("128" in rejection.reason for rejection in report.rejected)


def test_vocabulary_is_padded_not_refused() -> None:
    """151,552 rows over six ranks do not divide; a plan pads them (GLM-4.5-Air's vocabulary)."""
    model = spec("Qwen/Qwen3-0.6B", vocab_size=151552, num_attention_heads=12, num_key_value_heads=6, intermediate_size=3072)
    report = plan(model, PROFILES["h100"], 6, fixed=Degrees(tp=6))
    assert report.plan is not None
    assert not {"vocabulary", "tensor size"} & {family.family for family in report.families}


def trillion() -> ModelSpec:
    """Kimi-K2 with more layers and no quantization: three trillion parameters in bfloat16."""
    config = {"quantization_config": None, "num_hidden_layers": 176, "torch_dtype": "bfloat16"}
    return spec("moonshotai/Kimi-K2-Instruct", **config)


def test_three_trillion_parameters_need_47_devices_of_128_gb_48_in_whole_nodes_and_more_for_service() -> None:
    """Weights alone: 47 × 128 GB = 6.016 TB for 6 TB; nodes of eight make it 48; caches and activations come on top."""
    profile = replace(PROFILES["gaudi3"], memory_bytes=figure(128e9, "B"))
    model = trillion()
    total = model.parameters.total_language
    assert total is not None and 2.9e12 < total < 3.1e12
    memory = RankMemory(model, None, profile, SERVED, round(128e9 * 2 * total / 6e12))
    least = least_devices(memory)
    assert least == 47
    assert occupied_devices(Degrees(pp=least), profile) == 48
    workload = Workload(context_tokens=8192, concurrency=64, objective=Objective.FEWEST_DEVICES)
    report = plan(model, profile, 256, workload, limit=memory.limit_bytes)
    assert report.plan is not None
    assert report.plan.degrees.world > 47


FAST = LinkDomain("node", 8, figure(450e9), figure(1e-6, "s"))


def across(network: float) -> PlatformProfile:
    return replace(PROFILES["h200"], link_domains=(FAST,), nic_bytes_per_s=figure(network))


def test_tp_stays_inside_the_fast_domain() -> None:
    """Llama-3.1-405B on two nodes: pipeline or replicas between nodes, tp inside."""
    report = plan(spec("meta-llama/Meta-Llama-3.1-405B"), across(50e9), 16)
    assert report.plan is not None and report.plan.degrees.tp <= 8


def test_tp_leaves_the_node_where_the_network_is_as_fast_and_one_user_waits() -> None:
    wide = LinkDomain("rack", 64, figure(450e9), figure(1e-6, "s"))
    one = replace(SERVED, concurrency=1, objective=Objective.LATENCY)
    model = spec("meta-llama/Meta-Llama-3.1-405B")
    slow = plan(model, across(50e9), 16, one)
    fast = plan(model, replace(PROFILES["h200"], link_domains=(wide,)), 16, one)
    assert slow.plan is not None and fast.plan is not None
    assert slow.plan.degrees.tp <= 8 < fast.plan.degrees.tp


def test_tp4_fits_where_tp2_by_pp2_does_not_and_the_item_is_named() -> None:
    """Uneven stages: 61 layers over two stages and the vocabulary on the ends make one rank fuller than tp 4 makes any."""
    model = spec("meta-llama/Meta-Llama-3.1-70B")
    free = replace(PROFILES["h200"], memory_bytes=None)
    narrow = plan(model, free, 4, fixed=Degrees(tp=2, pp=2), choices=Choices(chunk_tokens=2048))
    wide = plan(model, free, 4, fixed=Degrees(tp=4), choices=Choices(chunk_tokens=2048))
    assert narrow.plan is not None and wide.plan is not None
    most = [max(budget.total_bytes for budget in one.plan.memory) for one in (narrow, wide) if one.plan is not None]
    assert most[0] != most[1]
    loser, winner = (Degrees(tp=2, pp=2), Degrees(tp=4)) if most[0] > most[1] else (Degrees(tp=4), Degrees(tp=2, pp=2))
    limit = sum(most) // 2
    fits = plan(model, free, 4, fixed=winner, choices=Choices(chunk_tokens=2048), limit=limit)
    short = plan(model, free, 4, fixed=loser, choices=Choices(chunk_tokens=2048), limit=limit)
    assert fits.plan is not None and short.plan is None and short.nearest is not None
    assert short.nearest.short_bytes == max(most) - limit
    assert short.nearest.item in short.nearest.budget.items_bytes
    (refusal,) = short.rejected
    assert f"short by {short.nearest.short_bytes}" in refusal.reason and "largest item is" in refusal.reason


@pytest.mark.parametrize("slug", ["h20", "mi300x"])
def test_a_platform_without_a_network_figure_is_planned_in_its_nodes(slug: str) -> None:
    report = plan(spec("deepseek-ai/DeepSeek-V3"), PROFILES[slug], 16, replace(SERVED, concurrency=8))
    assert report.plan is not None
    assert report.plan.estimates.tpot_s is not None
    group = report.plan.degrees.tp * report.plan.degrees.attention_dp * report.plan.degrees.pp
    assert group <= 8


@pytest.mark.parametrize("slug", ["bi-v150", "kunlunxin-p800", "mlu590"])
def test_missing_figures_are_named_and_no_default_is_taken(slug: str) -> None:
    report = plan(spec("meta-llama/Meta-Llama-3.1-8B"), PROFILES[slug], 2)
    assert report.plan is not None and report.plan.estimates.tpot_s is None
    codes = {finding.code for finding in report.findings}
    assert {"plan.memory_not_judged", "estimate.no_figure"} <= codes


def test_an_fp8_cache_is_offered_only_where_the_platform_takes_it() -> None:
    workload = replace(SERVED, cache_dtypes=("fp8",))
    taken = plan(spec("meta-llama/Meta-Llama-3.1-8B"), PROFILES["h100"], 1, workload)
    refused = plan(spec("meta-llama/Meta-Llama-3.1-8B"), PROFILES["a100"], 1, workload)
    assert taken.plan is not None and taken.plan.choices.cache_dtype == "fp8"
    assert refused.plan is not None and refused.plan.choices.cache_dtype is None
    assert "plan.cache_dtype" in {finding.code for finding in refused.findings}


def test_norms_are_cut_by_tp_in_training_only_where_memory_asks_for_it() -> None:
    training = Training(tokens_per_step=4 << 20, sequence_tokens=8192, recompute=Recompute.NONE)
    workload = Workload(objective=Objective.THROUGHPUT, training=training)
    model, h200 = spec("meta-llama/Meta-Llama-3.1-405B"), PROFILES["h200"]
    found = plan(model, h200, 256, workload)
    assert found.plan is not None and found.plan.choices.sequence_parallel
    without = replace(found.plan.choices, sequence_parallel=False)
    assert plan(model, h200, 256, workload, fixed=found.plan.degrees, choices=without).plan is None
    roomy = plan(model, replace(h200, memory_bytes=figure(1e12, "B")), 256, workload)
    assert roomy.plan is not None and not roomy.plan.choices.sequence_parallel


def test_long_sequences_are_cut_over_context_parallel_ranks_in_training() -> None:
    """Llama-3.1-405B was trained at 131,072 tokens with cp 16, and at 8,192 with none (arXiv 2407.21783, table 4)."""
    model, h200 = spec("meta-llama/Meta-Llama-3.1-405B"), PROFILES["h200"]

    def trained(sequence_tokens: int) -> PlanReport:
        training = Training(tokens_per_step=4 << 20, sequence_tokens=sequence_tokens, recompute=Recompute.FULL)
        return plan(model, h200, 256, Workload(objective=Objective.THROUGHPUT, training=training))

    short, long = trained(8192), trained(131_072)
    assert short.plan is not None and short.plan.degrees.cp == 1
    assert long.plan is not None and long.plan.degrees.cp > 1
