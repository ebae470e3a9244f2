"""The memory of one rank, item by item: what each item is, and what no figure may ever do."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import DEEPSEEK, GPT_OSS, MIXTRAL, SMOLLM2, index_for, spec_for
from dayzero.adapters.profiles.parse import profile_from
from dayzero.domain.plan import MemoryBudget
from dayzero.domain.planning import Choices, Degrees, Optimizer, Recompute, Training, Workload
from dayzero.domain.platforms import Figure, FigureStatus, PlatformProfile
from dayzero.errors import BadInputError
from dayzero.stages.layout.laying import group_tensors, weight_bytes_by_rank, weight_shares
from dayzero.stages.memory.ranks import MemoryModel, budgets_of
from dayzero.stages.memory.state import CacheShape, hybrid_pages
from dayzero.stages.memory.step import CAPACITY, EAGER, LIBRARY
from dayzero.stages.memory.training_state import training_state_of
from dayzero.stages.structure.reading import read_spec
from golden_models import spec_of

BARE = PlatformProfile("bare", "No figures", "bare")
ONE = Degrees()
PLAIN = Choices()
USUAL = Workload()
CONFIGS = [SMOLLM2, DEEPSEEK, MIXTRAL, GPT_OSS]


def items(spec, workload=USUAL, degrees=ONE, choices=PLAIN, stage=0, profile=BARE, execution=None):
    return MemoryModel(spec, profile, workload, execution).items(degrees, choices, stage)


def test_pages_are_whole_and_a_window_may_touch_one_more() -> None:
    spec = spec_for(MIXTRAL)
    # 2 heads × 8 × 2 (keys, values) × 2 bytes × 3 layers, in a window of 16 tokens.
    token = 2 * 8 * 2 * 2 * 3
    assert items(spec, Workload(context_tokens=100))["state"] == 16 * token
    assert items(spec, Workload(context_tokens=100), choices=Choices(page_tokens=16))["state"] == 32 * token
    assert items(spec, Workload(context_tokens=9), choices=Choices(page_tokens=4))["state"] == 12 * token


def test_hybrids_pad_recurrent_state_to_a_page_of_attention() -> None:
    spec = spec_of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    kinds = tuple(dict.fromkeys(replace(layer, index=0) for layer in spec.layers))
    small = [
        replace(layer, mixer=replace(layer.mixer, recurrence=replace(layer.mixer.recurrence, state_dtype="bfloat16")))
        if layer.mixer is not None and layer.mixer.recurrence is not None
        else layer
        for layer in kinds
    ]
    shape = hybrid_pages(small, CacheShape(4096, 1, 1, 16, 2))
    # 544 tokens a page is what vLLM takes for this model (vllm-project/vllm#32492); it pads by 1.49 % then.
    state = 32 * 128 * 128 * 2 + 3 * 8192 * 2
    assert shape.page_tokens == 544 and round(shape.unit_bytes / state - 1, 4) == 0.0149
    # In float32 it is nearly twice as long; 36 layers keep one such page each, 12 keep whole pages of tokens.
    page = -(-(2 * state - 3 * 8192 * 2) // (16 * 2048)) * 16
    found = items(spec, Workload(context_tokens=4096), choices=Choices(page_tokens=16))["state"]
    assert found == 36 * page * 2048 + 12 * -(-4096 // page) * page * 2048
    assert hybrid_pages(kinds, CacheShape(4096, 1, 1, 1, 2)).unit_bytes == 0


def test_a_cache_of_a_byte_an_element_takes_half() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    whole = items(spec)["state"]
    assert items(spec, choices=Choices(cache_dtype="fp8"))["state"] * 2 == whole
    assert items(spec, choices=Choices(cache_dtype="int8"))["state"] * 2 == whole
    with pytest.raises(BadInputError, match="fp3 is no cache dtype"):
        items(spec, choices=Choices(cache_dtype="fp3"))


def test_context_parallel_ranks_share_a_sequence() -> None:
    spec = spec_of("meta-llama/Meta-Llama-3.1-70B")
    alone, shared = items(spec), items(spec, degrees=Degrees(cp=4))
    assert shared["state"] * 4 == alone["state"] and "communication_buffers" not in alone
    assert shared["communication_buffers"] > 0


def test_indexer_scores_are_bounded_by_serving_engines_alone() -> None:
    spec, long = spec_of("zai-org/GLM-5"), Workload(context_tokens=131072)
    assert items(spec, long, execution=LIBRARY)["activations"] > items(spec, long)["activations"] + 100 * 2**30 // 4


def test_scores_of_unfused_attention_grow_with_the_square() -> None:
    spec = spec_for(SMOLLM2)
    plain = [
        items(spec, Workload(context_tokens=tokens, output_tokens=1), execution=LIBRARY)["activations"]
        for tokens in (1000, 2000)
    ]
    eager = [
        items(spec, Workload(context_tokens=tokens, output_tokens=1), execution=EAGER)["activations"] for tokens in (1000, 2000)
    ]
    # 9 heads × tokens × context × (2 + 4) bytes.
    assert eager[1] - plain[1] >= 9 * 1999 * 2000 * 6 > eager[0] - plain[0]


def test_experts_take_their_share_of_all_replicas_tokens() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    workload = Workload(context_tokens=4097, output_tokens=1)
    buffers = items(spec, workload, Degrees(ep=8, dp=8))["expert_buffers"]
    # 4096 tokens × 8 experts each leave, as many times the capacity factor arrive; hidden 7168, there and back in 2 bytes.
    assert buffers == (4096 * 8 + int(CAPACITY * 4096 * 8)) * 7168 * 4
    packed = items(spec, workload, Degrees(ep=8, dp=8), Choices(compressed=True))["expert_buffers"]
    assert packed * 4 == buffers * 3
    assert "expert_buffers" not in items(spec, workload, Degrees(tp=8))


def test_logits_lie_on_the_last_stage() -> None:
    spec, workload = spec_of("meta-llama/Meta-Llama-3.1-70B"), Workload(concurrency=3)
    assert "logits" not in items(spec, workload, Degrees(pp=2), stage=0)
    assert items(spec, workload, Degrees(pp=2), stage=1)["logits"] == 3 * 128256 * (2 + 4)


def test_a_host_copies_a_head_of_16_bits_for_each_sequence() -> None:
    spec, workload = spec_of("meta-llama/Meta-Llama-3.1-70B"), Workload(concurrency=3)
    host = replace(BARE, torch_device="cpu")
    found = items(spec, workload, Degrees(tp=2), profile=host)["logits"]
    assert found == 3 * (128256 * (2 + 4) + 128256 // 2 * 8192 * 2)
    assert any(one.field == "logits" for one in MemoryModel(spec, host, workload).assumptions(PLAIN))


def test_a_reserve_is_an_item_where_it_was_measured_and_an_assumption_where_not() -> None:
    spec = spec_for(SMOLLM2)
    measured = replace(BARE, reserve_bytes=Figure(5e8, "B", "a test", FigureStatus.PROBED))
    assert items(spec, profile=measured)["reserve"] == 500_000_000 and "reserve" not in items(spec)
    said = [MemoryModel(spec, profile, Workload()).assumptions(PLAIN) for profile in (BARE, measured)]
    assert [any(one.field == "reserve" for one in assumptions) for assumptions in said] == [True, False]
    assert measured.figures_digest != BARE.figures_digest


def test_a_profile_may_state_its_reserve() -> None:
    figure = {"value": 1e9, "unit": "B", "source": "measured", "status": "probed"}
    profile = profile_from({"slug": "one", "reserve_bytes": figure}, "one.toml")
    assert profile.reserve_bytes is not None and profile.reserve_bytes.value == 1e9
    with pytest.raises(BadInputError, match=r"reserve_bytes\.unit"):
        profile_from({"slug": "one", "reserve_bytes": {**figure, "unit": "GB"}}, "one.toml")


def test_what_lies_on_the_host_is_not_charged_to_the_device() -> None:
    spec = spec_for(DEEPSEEK)
    model = MemoryModel(spec, BARE, Workload(context_tokens=64))
    stored = index_for(DEEPSEEK).weight_bytes
    here, there = (model.rank_items(ONE, choices, 0, stored) for choices in (PLAIN, Choices(experts_on_host=True)))
    experts = model.experts_bytes(ONE, 0)
    assert there["host_experts"] == experts == spec.parameters.by_component["experts"] * 2
    # Three layers have experts; two of them stay on the device.
    assert here["weights"] - there["weights"] == experts // 3
    cached = model.rank_items(ONE, Choices(cache_on_host=True), 0, stored)
    assert cached["host_state"] == here["state"] == 2 * cached["state"]
    budget = MemoryBudget(0, there, None)
    assert budget.host_bytes == there["host_experts"] + there["host_staging"]
    assert budget.total_bytes + budget.host_bytes == sum(there.values())


def test_an_unknown_architecture_has_no_items() -> None:
    assert items(read_spec(json.dumps({**SMOLLM2, "model_type": "new"}).encode(), None)) == {}


def test_thousands_of_plans_are_cheap_because_little_is_computed_twice() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    model = MemoryModel(spec, BARE, Workload(context_tokens=32768, concurrency=64))
    assert len(model.kinds) == 2
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 4):
            for dp in (1, 2, 4, 8):
                for stage in range(pp):
                    model.items(Degrees(tp, pp, 1, dp), Choices(chunk_tokens=8192), stage)
    # A figure of each kind for each of the four ways of cutting and of the step, whatever pp and (in steps of prefill) dp are.
    assert len(model._sizes) <= 2 * 3 * 4


# ---- training


def trained(spec, degrees=ONE, choices=PLAIN, stage=0, **more):
    training = Training(**{"tokens_per_step": 2**16, "sequence_tokens": 64, **more})
    return items(spec, Workload(training=training), degrees, choices, stage)


STATE = ("weights", "gradients", "gradient_copies", "master_weights", "moments", "adapters", "host_optimizer")


def state_sum(found):
    return sum(found.get(name, 0) for name in STATE)


@settings(max_examples=60, deadline=None)
@given(
    config=st.sampled_from([SMOLLM2, DEEPSEEK, MIXTRAL]),
    zero=st.integers(0, 3),
    optimizer=st.sampled_from(list(Optimizer)),
    dp=st.sampled_from([1, 2, 4]),
    offload=st.booleans(),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
)
def test_training_state_of_all_ranks_is_that_of_the_model(config, zero, optimizer, dp, offload, dtype) -> None:
    spec = spec_for({**config, "torch_dtype": dtype})
    found = trained(spec, Degrees(dp=dp), zero=zero, optimizer=optimizer, offload=offload)
    whole = training_state_of(spec, Training(1, optimizer=optimizer))
    assert whole is not None
    copies = {"weights": 3, "gradients": 2}
    expected = sum(size * (dp if zero < copies.get(name, 1) else 1) for name, size in whole.items_bytes.items())
    # Shares are rounded up: no rank holds more than one parameter of each kind too many.
    assert expected <= dp * state_sum(found) <= expected + dp * 4 * 24


def test_each_optimizer_keeps_its_own() -> None:
    spec = spec_of("meta-llama/Meta-Llama-3.1-8B")
    count = spec.parameters.total
    assert trained(spec)["moments"] == 8 * count
    assert trained(spec, optimizer=Optimizer.SGD)["moments"] == 4 * count
    assert trained(spec, optimizer=Optimizer.ADAMW_8BIT)["moments"] == 2 * count + 2 * 4 * -(-count // 256)
    apart = 2 * 128256 * 4096 + 65 * 4096
    assert trained(spec, optimizer=Optimizer.MUON)["moments"] == 4 * (count - apart) + 8 * apart
    assert trained(spec)["weights"] + trained(spec)["gradients"] + trained(spec)["master_weights"] == 8 * count


def test_experts_are_sharded_over_their_own_replicas_only() -> None:
    spec = spec_for(DEEPSEEK)
    experts = spec.parameters.by_component["experts"]
    shared_out = trained(spec, Degrees(ep=4, dp=4), zero=3)["weights"]
    # Four ranks hold a quarter of the experts each, and nobody else has the same: ZeRO has nothing to shard there.
    dense = spec.parameters.total - experts
    assert abs(shared_out - 2 * (experts / 4 + dense / 4)) < 16
    assert trained(spec, Degrees(ep=2, dp=4), zero=3)["weights"] == shared_out


def test_adapters_alone_are_trained_beside_frozen_weights() -> None:
    spec = spec_for(SMOLLM2)
    model = MemoryModel(spec, BARE, Workload(training=Training(2**16, 64, lora_rank=4)))
    found = model.rank_items(ONE, PLAIN, 0, 1000)
    # Query and output 72 + 72, key and value 72 + 24, gate, up and down 72 + 96, in each of three layers.
    count = 4 * 3 * (2 * 144 + 2 * 96 + 3 * 168)
    assert found["weights"] == 1000
    assert (found["adapters"], found["gradients"], found["moments"]) == (4 * count, 4 * count, 8 * count)
    assert "master_weights" not in found


def test_recomputation_keeps_less() -> None:
    spec = spec_of("meta-llama/Meta-Llama-3.1-8B")
    kept = [trained(spec, recompute=how, sequence_tokens=4096)["activations"] for how in Recompute]
    assert kept[0] > kept[1] > kept[2]
    # Full recomputation keeps each layer's input: 4096 tokens × 4096 wide × 2 bytes × 32 layers, beside one layer at work.
    assert kept[2] > 32 * 4096 * 4096 * 2


def test_stages_keep_the_micro_batches_in_flight() -> None:
    spec = spec_of("meta-llama/Meta-Llama-3.1-8B")
    kept = [trained(spec, Degrees(pp=4), stage=stage)["activations"] for stage in range(4)]
    one = trained(spec, Degrees(pp=4), stage=3)["activations"]
    assert kept[0] > kept[1] > kept[2] > kept[3]
    step = kept[2] - kept[3]
    assert kept[0] - one == 3 * step
    virtual = trained(spec, Degrees(pp=4), Choices(virtual_stages=2))["activations"]
    # Interleaved: 2 × 3 + 4 + 1 = 11 halves instead of 4 wholes.
    assert abs(virtual - kept[0] - 1.5 * step) <= 1


def test_offloaded_activations_and_optimizer_lie_on_the_host() -> None:
    spec = spec_of("meta-llama/Meta-Llama-3.1-8B")
    here, there = trained(spec), trained(spec, offload=True, offload_activations=True)
    assert there["host_optimizer"] == here["master_weights"] + here["moments"] and "moments" not in there
    assert there["activations"] < here["activations"]


def test_float16_unscales_gradients_into_copies() -> None:
    config = {**SMOLLM2, "torch_dtype": "float16"}
    assert trained(spec_for(config))["gradient_copies"] == 4 * spec_for(config).parameters.total


# ---- what no figure may ever do

WORKLOADS = st.builds(Workload, context_tokens=st.integers(1, 5000), concurrency=st.integers(1, 40))
CHOICES = st.builds(
    Choices,
    cache_dtype=st.sampled_from([None, "fp8"]),
    chunk_tokens=st.sampled_from([None, 128, 2048]),
    page_tokens=st.sampled_from([1, 16, 64]),
    micro_batch=st.integers(1, 4),
    virtual_stages=st.sampled_from([1, 2]),
    sequence_parallel=st.booleans(),
    compressed=st.booleans(),
    cache_on_host=st.booleans(),
    experts_on_host=st.booleans(),
)
TRAINING = st.one_of(
    st.none(),
    st.builds(
        Training,
        tokens_per_step=st.integers(1, 2**18),
        sequence_tokens=st.sampled_from([64, 512]),
        optimizer=st.sampled_from(list(Optimizer)),
        zero=st.integers(0, 3),
        recompute=st.sampled_from(list(Recompute)),
        lora_rank=st.sampled_from([None, 8]),
        offload=st.booleans(),
        offload_activations=st.booleans(),
    ),
)
PLANS = st.sampled_from([ONE, Degrees(tp=2), Degrees(pp=2), Degrees(dp=2), Degrees(ep=2, dp=2), Degrees(tp=2, pp=2, dp=2)])


@settings(max_examples=150, deadline=None)
@given(
    config=st.sampled_from([DEEPSEEK, MIXTRAL, GPT_OSS]), workload=WORKLOADS, training=TRAINING, choices=CHOICES, degrees=PLANS
)
def test_no_item_is_negative_and_more_memory_never_hurts(config, workload, training, choices, degrees) -> None:
    spec = spec_for(config)
    model = MemoryModel(spec, BARE, replace(workload, training=training))
    shares = weight_shares(group_tensors(spec, index_for(config)), spec, degrees)
    weights = weight_bytes_by_rank(shares, spec, degrees)
    budgets = budgets_of(model, degrees, choices, weights, None)
    assert len(budgets) == degrees.world
    for budget in budgets:
        assert all(isinstance(size, int) and size >= 0 for size in budget.items_bytes.values())
        assert budget.total_bytes + budget.host_bytes == sum(budget.items_bytes.values())
    again = budgets_of(MemoryModel(spec, BARE, model.workload), degrees, choices, weights, 10**9)
    assert [one.items_bytes for one in again] == [one.items_bytes for one in budgets]


@settings(max_examples=150, deadline=None)
@given(
    config=st.sampled_from(CONFIGS),
    workload=WORKLOADS,
    choices=CHOICES,
    degrees=st.sampled_from([ONE, Degrees(tp=2), Degrees(pp=2), Degrees(dp=2), Degrees(cp=2)]),
    grow=st.sampled_from(["context", "concurrency", "layers"]),
    by=st.integers(1, 500),
)
def test_items_grow_with_context_concurrency_and_layers(config, workload, choices, degrees, grow, by) -> None:
    spec, more, larger = spec_for(config), workload, spec_for(config)
    if grow == "context":
        more = replace(workload, context_tokens=workload.context_tokens + by)
    elif grow == "concurrency":
        more = replace(workload, concurrency=workload.concurrency + by)
    else:
        larger = spec_for({**config, "num_hidden_layers": config["num_hidden_layers"] + 2})
    for stage in range(degrees.pp):
        less = items(spec, workload, degrees, choices, stage)
        grown = items(larger, more, degrees, choices, stage)
        assert all(grown.get(name, 0) >= size for name, size in less.items())


@settings(max_examples=80, deadline=None)
@given(config=st.sampled_from(CONFIGS), workload=WORKLOADS, choices=CHOICES, tp=st.sampled_from([2, 3, 4, 8, 16]))
def test_ranks_together_hold_at_least_the_whole_state(config, workload, choices, tp) -> None:
    spec = spec_for(config)
    choices = replace(choices, cache_on_host=False)
    assert tp * items(spec, workload, Degrees(tp=tp), choices)["state"] >= items(spec, workload, ONE, choices)["state"]


def test_golden_models_have_items_for_usual_plans() -> None:
    rows = json.loads((Path(__file__).parents[2] / "golden" / "structures.json").read_text())
    for row in rows:
        spec = spec_of(row["model"])
        found = items(spec, Workload(context_tokens=8192, concurrency=4), Degrees(tp=2, pp=2), Choices(chunk_tokens=2048), 1)
        assert (found == {}) is (not spec.layers)
        if spec.layers:
            assert found["activations"] > 0 and found["logits"] > 0
