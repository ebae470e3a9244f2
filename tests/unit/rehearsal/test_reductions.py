"""Reduced configurations: the same kinds of layers, everything that only multiplies work smaller."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.architecture import ModelSpec
from dayzero.errors import BadInputError
from dayzero.stages.reduction.reducing import MOST_LAYERS, reduce_configuration
from dayzero.stages.structure.reading import read_spec

CONFIGS = sorted((Path(__file__).parents[2] / "golden" / "configs").glob("*.json"))

V4 = {
    "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "attention_bias": False, "head_dim": 512,
    "hidden_size": 7168, "hidden_act": "silu", "index_head_dim": 128, "index_n_heads": 64, "index_topk": 1024, "hc_mult": 4,
    "max_position_embeddings": 1048576, "moe_intermediate_size": 3072, "n_routed_experts": 384, "n_shared_experts": 1,
    "num_attention_heads": 128, "num_experts_per_tok": 6, "num_hidden_layers": 12, "num_hash_layers": 3,
    "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 16, "o_lora_rank": 1024, "q_lora_rank": 1536,
    "qk_rope_head_dim": 64, "scoring_func": "sqrtsoftplus", "sliding_window": 128, "vocab_size": 129280, "eos_token_id": 1,
    "bos_token_id": 0, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    "compress_ratios": [128, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 0],
}  # fmt: skip
"""Published fields of DeepSeek-V4-Pro, with 12 of its 61 layers."""

KIMI_LINEAR = {
    "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 8, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 72, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "intermediate_size": 9216, "moe_intermediate_size": 1024, "num_experts": 256,
    "num_experts_per_token": 8, "num_shared_experts": 1, "first_k_dense_replace": 1, "vocab_size": 163840,
    "dtype": "bfloat16", "tie_word_embeddings": False, "hidden_act": "silu", "mla_use_nope": True,
    "linear_attn_config": {
        "full_attn_layers": [4, 8], "kda_layers": [1, 2, 3, 5, 6, 7], "head_dim": 128, "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
}  # fmt: skip


def spec_of(config: dict[str, object] | bytes) -> ModelSpec:
    return read_spec(config if isinstance(config, bytes) else json.dumps(config).encode(), None)


def kinds(spec: ModelSpec) -> set[object]:
    """Kinds of layers with the figures that decide which kernel runs."""
    return {
        (
            tuple((mixer.kind, mixer.head_dim, mixer.kv_lora_rank, mixer.compression, mixer.qk_norm) for mixer in layer.mixers),
            (layer.feed_forward.kind, layer.feed_forward.activation, layer.feed_forward.hash_routed)
            if layer.feed_forward
            else None,
        )
        for layer in spec.layers
    }


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_kind_of_layer_stays_and_nothing_grows(path: Path) -> None:
    document = path.read_bytes()
    whole = spec_of(document)
    reduced = reduce_configuration(document, whole)
    small = spec_of(reduced.config.encode())
    assert kinds(small) == kinds(whole)
    assert len(small.layers) == reduced.layers <= MOST_LAYERS
    assert (small.parameters.total_language or 0) <= (whole.parameters.total_language or 0)
    assert (small.parameters.total_language or 0) < 5e8
    assert reduce_configuration(document, whole) == reduced, "the same bytes give the same bytes"


def test_deepseek_v4_keeps_its_ratios() -> None:
    reduced = reduce_configuration(json.dumps(V4).encode(), spec_of(V4))
    small = json.loads(reduced.config)
    assert kinds(spec_of(small)) == kinds(spec_of(V4)) and reduced.kinds == 4
    assert (small["num_hidden_layers"], small["compress_ratios"]) == (5, [128, 128, 4, 128, 4])
    assert small["num_attention_heads"] // small["o_groups"] == V4["num_attention_heads"] // V4["o_groups"]
    assert small["o_groups"] >= 2 and small["head_dim"] == 512 and small["index_head_dim"] == 128
    assert small["n_routed_experts"] >= 2 * small["num_experts_per_tok"] == 12
    assert small["vocab_size"] > small["bos_token_id"] and small["eos_token_id"] is None
    assert "quantization_config" not in small and small["num_nextn_predict_layers"] == 0
    assert {finding.code for finding in reduced.findings} == {"rehearsal.unquantized", "rehearsal.no_draft_layers"}
    changed = {change.name: (change.was, change.now) for change in reduced.changes}
    assert changed["hidden_size"] == ("7168", str(small["hidden_size"]))
    assert changed["quantization_config"][1] is None


def test_layers_counted_from_one_stay_counted_from_one() -> None:
    small = json.loads(reduce_configuration(json.dumps(KIMI_LINEAR).encode(), spec_of(KIMI_LINEAR)).config)
    assert small["linear_attn_config"]["kda_layers"] == [1, 2, 3]
    assert small["linear_attn_config"]["full_attn_layers"] == [4]
    assert kinds(spec_of(small)) == kinds(spec_of(KIMI_LINEAR))


def test_kinds_that_come_late_are_left_out_and_said() -> None:
    layers = 40
    late = {**json.loads(CONFIGS[0].read_text()), "num_hidden_layers": layers}
    spec = spec_of((Path(CONFIGS[0].parent) / "tiny_llama.json").read_bytes())
    strange = replace(spec.layers[0], norm="norm.layer")
    made = replace(
        spec, layers=tuple(replace(strange if index == 30 else spec.layers[0], index=index) for index in range(layers))
    )
    reduced = reduce_configuration(json.dumps(late).encode(), made)
    assert reduced.layers == MOST_LAYERS and reduced.kinds == 1
    (told,) = [finding for finding in reduced.findings if finding.code == "rehearsal.layers_left_out"]
    assert told.message.startswith("1 kinds of layer")


def test_no_number_of_layers_is_refused() -> None:
    nothing = replace(spec_of(V4), layers=())
    with pytest.raises(BadInputError, match="no number of layers"):
        reduce_configuration(b"{}", nothing)
    with pytest.raises(BadInputError, match="no JSON object"):
        reduce_configuration(b"[]", nothing)


@given(
    heads=st.integers(1, 128),
    shared=st.integers(1, 16),
    width=st.sampled_from([32, 64, 96, 128]),
    layers=st.integers(1, 90),
    inner=st.integers(64, 60_000),
)
def test_any_dense_model_stays_divisible(heads: int, shared: int, width: int, layers: int, inner: int) -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_attention_heads": heads * shared,
        "num_key_value_heads": shared, "hidden_size": heads * shared * width, "intermediate_size": inner,
        "num_hidden_layers": layers, "vocab_size": 32000, "torch_dtype": "bfloat16", "hidden_act": "silu",
        "tie_word_embeddings": False, "attention_bias": False,
    }  # fmt: skip
    small = json.loads(reduce_configuration(json.dumps(config).encode(), spec_of(config)).config)
    if shared > 1:
        assert small["num_attention_heads"] == small["num_key_value_heads"] * heads, "the ratio stays"
    else:
        assert small["num_key_value_heads"] == 1, "what shares one head goes on sharing one"
    assert small["hidden_size"] == small["num_attention_heads"] * width, "the width of a head stays"
    assert small["num_key_value_heads"] >= min(shared, 2) and small["num_attention_heads"] >= min(heads * shared, 4)
    assert small["intermediate_size"] <= inner and spec_of(small).parameters.total_language
