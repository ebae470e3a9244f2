"""The inventory: kernels from a specification, the trace beside it, and what disagrees."""

from dataclasses import replace
from importlib.resources import files

import pytest

from dayzero.domain.architecture import (
    FeedForward,
    Indexer,
    Layer,
    Mixer,
    ModelSpec,
    Parameters,
    Quantization,
    QuantizationGroup,
    Recurrence,
    SequenceState,
    Source,
    WeightsSummary,
)
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.operators import GraphUse, Phase, Trace
from dayzero.errors import BadInputError
from dayzero.stages.inventory.taking import inventory_of
from dayzero.stages.inventory.taxonomy import Taxonomy, parse_taxonomy

TAXONOMY = parse_taxonomy(files("dayzero.platforms").joinpath("taxonomy.toml").read_text(encoding="utf-8"))
GQA = Mixer("attention.gqa", heads=32, kv_heads=8, head_dim=128, rope_theta=500000.0)
MLA = Mixer(
    "attention.mla", heads=128, kv_lora_rank=512, q_lora_rank=1536, rope_head_dim=64, value_head_dim=128, rope_theta=1e4
)
GATED = FeedForward("mlp.gated", intermediate_size=14336, activation="silu")
ROUTED = FeedForward(
    "moe.routed", intermediate_size=2048, activation="silu", routed_experts=256, shared_experts=1, experts_per_token=8,
    groups=8, scoring="sigmoid",
)  # fmt: skip


def spec(*layers: tuple[Mixer, FeedForward], quantization: Quantization | None = None) -> ModelSpec:
    return ModelSpec(
        "X", "x", True, 4096, 128256, 8192, "bfloat16", False,
        tuple(Layer(index, mixer, feed_forward) for index, (mixer, feed_forward) in enumerate(layers)),
        Parameters(None, None, None, None, {}, Source.CONFIG), WeightsSummary(None), SequenceState("bfloat16", None, None),
        quantization,
    )  # fmt: skip


def trace(*names: str) -> Trace:
    uses = tuple(GraphUse(name, ("bfloat16",), "(T,4)", Phase.PREFILL, 1, ("model",)) for name in names)
    return Trace(uses, {}, "library 1")


def by_name(model: ModelSpec) -> dict[str, int]:
    return {kernel.name: kernel.layers for kernel in inventory_of(model, None, TAXONOMY).kernels}


def test_a_dense_model() -> None:
    found = inventory_of(spec((GQA, GATED), (GQA, GATED)), None, TAXONOMY)
    kernel = next(kernel for kernel in found.kernels if kernel.name == "attention.gqa")
    assert kernel.layers == 2 and kernel.constraints == {"heads": 32, "kv_heads": 8, "head_dim": 128}
    names = {kernel.name for kernel in found.kernels}
    assert {"mlp.gated", "activation.silu_gate", "norm.rms", "rope.default", "gemm.dense", "embedding.token"} <= names
    assert not any(name.startswith("moe.") for name in names)
    assert found.graph == () and found.traced_with is None
    assert [finding.code for finding in found.findings] == ["inventory.not_traced"]


def test_a_mixture_of_experts_with_latent_attention() -> None:
    found = inventory_of(spec((MLA, GATED), (MLA, ROUTED), (MLA, ROUTED)), None, TAXONOMY)
    counts = {kernel.name: kernel.layers for kernel in found.kernels}
    assert counts["attention.mla"] == 3 and counts["moe.routed"] == 2 and counts["mlp.gated"] == 1
    router = next(kernel for kernel in found.kernels if kernel.name == "moe.router.grouped_topk")
    assert router.constraints == {"routed_experts": 256, "experts_per_token": 8, "scoring": "sigmoid", "groups": 8}
    rope = next(kernel for kernel in found.kernels if kernel.name == "rope.default")
    assert rope.constraints["head_dim"] == 64


def test_layers_with_other_figures_are_other_uses() -> None:
    narrow = Mixer("attention.sliding_window", heads=32, kv_heads=8, head_dim=128, window_tokens=1024)
    wide = Mixer("attention.sliding_window", heads=32, kv_heads=8, head_dim=128, window_tokens=4096)
    found = inventory_of(spec((narrow, GATED), (wide, GATED), (narrow, GATED)), None, TAXONOMY)
    windows = [(kernel.constraints["window_tokens"], kernel.layers) for kernel in found.kernels if "window" in kernel.name]
    assert sorted(windows) == [(1024, 2), (4096, 1)]


@pytest.mark.parametrize(
    ("quantization", "kernel"),
    [
        (None, "gemm.dense"),
        (Quantization("fp8", 8, (128, 128)), "gemm.fp8_block"),
        (Quantization("fp8", 8), "gemm.fp8_tensor"),
        (Quantization("mxfp4", 4), "gemm.fp4_block"),
        (Quantization("awq", 4), "gemm.int4_group"),
        (Quantization("bitsandbytes", 8), "gemm.other_quantized"),
    ],
)
def test_the_product_follows_the_quantization(quantization: Quantization | None, kernel: str) -> None:
    assert kernel in by_name(spec((GQA, GATED), quantization=quantization))


def test_only_names_of_the_taxonomy() -> None:
    found = inventory_of(spec((Mixer("attention.invented"), FeedForward("mlp.plain", activation="mish"))), None, TAXONOMY)
    assert {kernel.name for kernel in found.kernels} <= TAXONOMY.names
    assert "attention.invented" in {finding.subject for finding in found.findings if finding.code == "inventory.unnamed_kernel"}
    assert "activation.other" in {kernel.name for kernel in found.kernels}


AGREEING = (
    "aten.scaled_dot_product_attention.default", "aten.rsqrt.default", "aten.cos.default", "aten.silu.default",
    "aten.cat.default", "aten.mm.default", "aten.embedding.default",
)  # fmt: skip


def test_trace_and_specification_are_held_against_each_other() -> None:
    seen = trace("aten.native_layer_norm.default", "aten._grouped_mm.default")
    codes = {(f.code, f.subject) for f in inventory_of(spec((GQA, GATED)), seen, TAXONOMY).findings}
    assert ("inventory.predicted_not_traced", "attention.gqa") in codes
    assert ("inventory.predicted_not_traced", "norm.rms") in codes
    assert ("inventory.traced_not_predicted", "moe") in codes
    assert ("inventory.traced_not_predicted", "norm.layer") in codes
    assert inventory_of(spec((GQA, GATED)), trace(*AGREEING), TAXONOMY).findings == ()


def test_every_kind_of_mixer_is_told_from_the_others_by_the_trace() -> None:
    delta = Mixer(
        "linear_attention.gated_delta", heads=32, recurrence=Recurrence(32, 128, 128, conv_kernel=4, conv_channels=8192)
    )
    seen = trace(*AGREEING, "mamba_ssm.mamba_chunk_scan_combined", "causal_conv1d.causal_conv1d_fn")
    codes = {(f.code, f.subject) for f in inventory_of(spec((delta, GATED), (GQA, GATED)), seen, TAXONOMY).findings}
    assert codes == {
        ("inventory.predicted_not_traced", "linear_attention.gated_delta"), ("inventory.traced_not_predicted", "ssm.mamba2"),
    }  # fmt: skip


def test_what_is_inside_a_composite_predicts_nothing() -> None:
    inside = GraphUse("aten.topk.default", ("bfloat16",), "(T,4)", Phase.PREFILL, 1, ("m",), part_of="hub.Any")
    seen = replace(trace(*AGREEING), uses=(*trace(*AGREEING).uses, inside))
    assert inventory_of(spec((GQA, GATED)), seen, TAXONOMY).findings == ()
    loose = replace(seen, uses=(*seen.uses, replace(inside, part_of=None)))
    assert [f.code for f in inventory_of(spec((GQA, GATED)), loose, TAXONOMY).findings] == ["inventory.traced_not_predicted"]


def test_a_trace_without_quantization_cannot_show_quantized_products() -> None:
    quantized = spec((GQA, GATED), quantization=Quantization("fp8", 8, (128, 128)))
    note = Finding("trace.unquantized", "trace", "traced with unquantized weights", Severity.NOTE)
    assert inventory_of(quantized, replace(trace(*AGREEING), findings=(note,)), TAXONOMY).findings == (note,)
    codes = {(f.code, f.subject) for f in inventory_of(quantized, trace(*AGREEING), TAXONOMY).findings}
    assert codes == {("inventory.predicted_not_traced", "gemm.fp8_block")}


def test_indexers_convolutions_and_shared_experts_are_kernels_of_their_own() -> None:
    sparse = replace(MLA, indexer=Indexer(64, 128, top_k=2048))
    counts = by_name(spec((sparse, replace(ROUTED, shared_intermediate_size=2048))))
    assert counts["attention.sparse_indexer"] == counts["mlp.gated"] == counts["cache.append_latent"] == 1
    state = Recurrence(128, 128, 64, conv_kernel=4, conv_channels=10240)
    counts = by_name(spec((Mixer("ssm.mamba2", recurrence=state), GATED)))
    assert counts["conv.causal_1d"] == counts["ssm.mamba2"] == 1 and "cache.append" not in counts


def test_schemes_go_to_the_modules_that_they_name() -> None:
    groups = (QuantizationGroup("mxfp4", 4, 32, 8, ("re:.*experts.*",)),)
    counts = by_name(spec((GQA, ROUTED), quantization=Quantization("mxfp4", 4, groups=groups)))
    assert "gemm.dense" in counts and "moe.experts.grouped_gemm_quantized" in counts and "gemm.fp4_block" not in counts
    left_alone = Quantization("fp8", 8, (128, 128), ("self_attn",))
    assert "gemm.dense" in by_name(spec((GQA, GATED), quantization=left_alone))


def test_parameters_are_held_against_each_other() -> None:
    model = spec((GQA, GATED))
    model = replace(model, parameters=replace(model.parameters, total_language=10))
    seen = trace(*AGREEING)
    (finding,) = inventory_of(model, replace(seen, parameters_by_component={"mlp": 12, "towers": 5}), TAXONOMY).findings
    assert finding.code == "inventory.parameters_differ" and finding.numbers == {"built": 12, "stated": 10}
    assert finding.names == ("attention and feed-forward: built 12, stated 0",)
    same = replace(seen, parameters_by_component={"mlp": 10, "towers": 5})
    assert inventory_of(model, same, TAXONOMY).findings == ()


def test_the_cache_of_latent_attention_holds_the_latent() -> None:
    found = inventory_of(spec((MLA, GATED)), None, TAXONOMY)
    cache = next(kernel for kernel in found.kernels if kernel.name == "cache.append_latent")
    assert cache.constraints == {"kv_lora_rank": 512, "rope_head_dim": 64}


def test_a_specification_without_layers_says_so() -> None:
    found = inventory_of(spec(), trace("aten.mm.default"), TAXONOMY)
    assert found.kernels == () and [finding.code for finding in found.findings] == ["inventory.no_layers"]


def test_the_taxonomy_holds_what_specifications_use() -> None:
    used = {"attention.mha", "attention.gqa", "attention.mqa", "attention.mla", "attention.sliding_window", "mlp.gated"}
    assert used | {"mlp.plain", "moe.routed", "norm.rms", "norm.layer"} <= TAXONOMY.names
    assert all(operator.meaning.endswith(".") for operator in TAXONOMY.operators)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version = ", "not TOML"),
        ("version = 1", "needs"),
        ("version = 1\noperator = [3]", "not a table"),
        ('version = 1\n[[operator]]\nname = "x"', "no name"),
        ('version = 1\n[[operator]]\nname = "x.y"', "no meaning"),
        ('version = 1\n[[operator]]\nname = "x.y"\nmeaning = "m"\nknown = 3', "known"),
        ('version = 1\n[[operator]]\nname = "x.y"\nmeaning = "m"\nconstraints = "a"', "constraints"),
        ('version = 1\n[[operator]]\nname = "x.y"\nmeaning = "m"\n[[operator]]\nname = "x.y"\nmeaning = "m"', "twice"),
    ],
)
def test_a_bad_taxonomy_gets_one_clear_sentence(text: str, complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        parse_taxonomy(text)


def test_the_taxonomy_finds_by_name() -> None:
    assert isinstance(TAXONOMY, Taxonomy)
    operator = TAXONOMY.get("moe.router.topk")
    assert operator is not None and operator.family == "moe" and TAXONOMY.get("no.such") is None
