"""What a step costs: rooflines, collectives over nested domains, and that nothing gets dearer by better hardware."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.domain.costs import Load
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.stages.cost.estimates import Estimator
from dayzero.stages.cost.feed_forward import touched_experts
from dayzero.stages.cost.links import Network
from dayzero.stages.cost.serving import stage_kinds
from dayzero.stages.structure.reading import read_spec
from golden_models import models


def figure(value: float, unit: str = "B/s") -> Figure:
    return Figure(value, unit, "a test", FigureStatus.PROBED)


NODE = LinkDomain("node", 8, figure(400e9), figure(1e-6, "s"))
RACK = LinkDomain("rack", 64, figure(100e9), figure(5e-6, "s"))
CHIP = PlatformProfile(
    "chip", "A chip", "chip", memory_bytes=figure(141e9, "B"), memory_bandwidth_bytes_per_s=figure(4e12),
    flops_per_s={"bfloat16": figure(1e15, "1/s"), "float8": figure(2e15, "1/s")}, link_domains=(NODE, RACK),
    devices_per_node=figure(8, "device"), nic_bytes_per_s=figure(25e9),
)  # fmt: skip


def spec(name: str):
    model = next(model for model in models() if model.name == name)
    return read_spec(model.config, None, side=model.side)


def test_all_reduce_inside_a_node_is_a_ring() -> None:
    # 2 (8 - 1) / 8 of 8 MB at 400 GB/s, and 14 hops of a microsecond.
    assert Network(CHIP).all_reduce(8e6, 8) == pytest.approx(2 * 7 / 8 * 8e6 / 400e9 + 14e-6)


def test_small_all_reduce_takes_the_tree() -> None:
    assert Network(CHIP).all_reduce(8.0, 8) == pytest.approx(6 * (8.0 / 400e9 + 1e-6))


def test_all_reduce_between_nodes_sends_an_eighth_over_the_slower_link() -> None:
    inside, outside = 2 * 7 / 8 * 8e8 / 400e9, 2 * 3 / 4 * 1e8 / 100e9
    assert Network(CHIP).all_reduce(8e8, 32) == pytest.approx(inside + outside + 14e-6 + 30e-6)


def test_a_strided_group_leaves_the_node_at_once() -> None:
    assert Network(CHIP).all_reduce(8e8, 8, stride=8) == pytest.approx(2 * 7 / 8 * 8e8 / 100e9 + 70e-6)


def test_all_to_all_pays_for_what_leaves_each_domain() -> None:
    sent = Network(CHIP).all_to_all(64e6, 64)
    assert sent == pytest.approx(7e6 / 400e9 + 1e-6 + 56e6 / 100e9 + 5e-6)


def test_beyond_the_last_domain_the_network_between_nodes_is_taken() -> None:
    assert Network(CHIP).farthest(128, 1) == "network between nodes"
    assert Network(replace(CHIP, nic_bytes_per_s=None)).all_reduce(1e6, 128) is None


def test_a_domain_without_bandwidth_has_no_time() -> None:
    silent = replace(CHIP, link_domains=(replace(NODE, bandwidth_bytes_per_s=None), RACK))
    assert Network(silent).all_reduce(1e6, 4) is None
    assert Network(silent).all_reduce(1e6, 1) == 0.0


def test_touched_experts_are_those_of_a_batch_not_all() -> None:
    assert touched_experts(256, 8, 1) == pytest.approx(8)
    assert touched_experts(256, 8, 32) == pytest.approx(256 * (1 - (248 / 256) ** 32))
    assert touched_experts(256, 8, 1e6) == pytest.approx(256)
    assert touched_experts(0, 8, 5) == 0


def test_decode_reads_a_window_not_the_context() -> None:
    """gpt-oss: every other layer sees 128 tokens; at 131,072 the step grows by the full layers alone."""
    model = spec("openai/gpt-oss-120b")

    def decode_s(context: int, windows: bool) -> float:
        open_layers = (replace(layer, mixer=layer.mixer and replace(layer.mixer, window_tokens=None)) for layer in model.layers)
        layers = model.layers if windows else tuple(open_layers)
        workload = Workload(context_tokens=context, output_tokens=1, concurrency=64)
        serving = Estimator(replace(model, layers=layers), CHIP, workload).likely
        assert serving is not None
        pace = serving.pace(Degrees(tp=8), Choices(chunk_tokens=128), 64)
        assert pace is not None
        return pace.decode_s

    assert decode_s(131072, True) - decode_s(1024, True) < 0.55 * (decode_s(131072, False) - decode_s(1024, False))


def estimate(name: str, profile: PlatformProfile, degrees: Degrees, concurrency: int):
    workload = Workload(context_tokens=4096, concurrency=concurrency)
    return Estimator(spec(name), profile, workload).estimates(degrees, Choices(chunk_tokens=2048))[0]


FASTER = st.floats(1.0, 8.0)
PLANS = st.sampled_from([
    ("deepseek-ai/DeepSeek-V3", Degrees(tp=8, ep=32, dp=4)), ("deepseek-ai/DeepSeek-V3", Degrees(tp=4, pp=4, dp=2)),
    ("Qwen/Qwen3-235B-A22B", Degrees(ep=16, dp=16)), ("meta-llama/Meta-Llama-3.1-70B", Degrees(tp=8, pp=2)),
    ("moonshotai/Kimi-K3", Degrees(tp=8, ep=64, dp=16)),
])  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(PLANS, FASTER, FASTER, FASTER, FASTER, st.sampled_from([1, 64, 1024]))
def test_faster_hardware_never_raises_an_estimate(
    plan, links: float, memory: float, rate: float, hop: float, many: int
) -> None:
    name, degrees = plan
    faster = replace(
        CHIP,
        memory_bandwidth_bytes_per_s=figure(4e12 * memory),
        flops_per_s={key: figure(known.value * rate, "1/s") for key, known in CHIP.flops_per_s.items()},
        link_domains=tuple(
            replace(domain, bandwidth_bytes_per_s=figure(domain.bandwidth_bytes_per_s.value * links),
                    latency_s=figure(domain.latency_s.value / hop, "s"))
            for domain in CHIP.link_domains if domain.bandwidth_bytes_per_s and domain.latency_s),
        nic_bytes_per_s=figure(25e9 * links),
    )  # fmt: skip
    before, after = estimate(name, CHIP, degrees, many), estimate(name, faster, degrees, many)
    for slow, fast in ((before.tpot_s, after.tpot_s), (before.ttft_s, after.ttft_s)):
        assert slow is not None and fast is not None
        assert fast.mid <= slow.mid * (1 + 1e-9) and fast.high <= slow.high * (1 + 1e-9)
    assert before.throughput_tokens_per_s is not None and after.throughput_tokens_per_s is not None
    assert after.throughput_tokens_per_s.mid >= before.throughput_tokens_per_s.mid * (1 - 1e-9)


def test_a_chip_without_fp8_arithmetic_multiplies_fp8_weights_in_bfloat16_and_says_so() -> None:
    without = replace(CHIP, flops_per_s={"bfloat16": CHIP.flops_per_s["bfloat16"]})
    estimator = Estimator(spec("deepseek-ai/DeepSeek-V3"), without, Workload())
    assert "estimate.dequantized" in {finding.code for finding in estimator.findings}


@pytest.mark.parametrize("lacking", ["memory_bandwidth_bytes_per_s", "flops_per_s"])
def test_a_missing_figure_is_named_and_nothing_is_estimated(lacking: str) -> None:
    profile = replace(CHIP, **{lacking: {} if lacking == "flops_per_s" else None})
    estimator = Estimator(spec("meta-llama/Meta-Llama-3.1-70B"), profile, Workload())
    assert estimator.likely is None
    (missing,) = estimator.missing
    assert missing.code == "estimate.no_figure" and "chip" in missing.message


@settings(max_examples=30, deadline=None)
@given(PLANS, st.integers(0, 9000), st.integers(1, 3000), st.booleans())
def test_the_terms_add_up_to_the_step(plan, prefill: int, sequences: int, head: bool) -> None:
    name, degrees = plan
    serving = Estimator(spec(name), CHIP, Workload()).likely
    assert serving is not None
    load = Load(prefill, prefill // 2, sequences, 3000)
    for counts, _ in stage_kinds(serving.steps.class_of, degrees.pp):
        parts = serving.steps.parts(counts, degrees, load, 2, head=head)
        whole = serving.steps.stage_s(counts, degrees, load, 2, head=head)
        assert sum(part.seconds - part.hidden_s for part in parts) == pytest.approx(whole)
