"""config.json at the door: what is read, what is assumed, what is refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import read_configuration
from dayzero.stages.structure.reading import read_spec

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 576, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70) | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "model_type",
    "architectures",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "torch_dtype",
    "tie_word_embeddings",
    "layer_types",
    "sliding_window",
    "use_sliding_window",
    "max_window_layers",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "n_routed_experts",
    "num_experts",
    "num_experts_per_tok",
    "moe_layer_freq",
    "first_k_dense_replace",
    "mlp_only_layers",
    "decoder_sparse_step",
    "quantization_config",
    "text_config",
    "rope_theta",
    "rope_parameters",
    "attention_bias",
    "num_nextn_predict_layers",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "vision_config",
    "auto_map",
]
FAMILIES = st.sampled_from(
    ["llama", "deepseek_v3", "qwen3_moe", "qwen2_moe", "gpt_oss", "gemma2", "mixtral", "glm4_moe", "new"]
)


def spec(**changes: object):
    return read_spec(json.dumps({**LLAMA, **changes}).encode(), None)


def test_smollm2() -> None:
    model = spec()
    assert model.parameters.total_language == 134515008
    assert (model.layers[0].mixer.head_dim, model.layers[0].mixer.kind) == (64, "attention.gqa")
    assert "head_dim" in {assumption.field for assumption in model.assumptions}


def test_null_is_absent() -> None:
    model = spec(head_dim=None, sliding_window=None, num_key_value_heads=None)
    assert model.layers[0].mixer.head_dim == 64
    assert model.layers[0].mixer.kind == "attention.mha"
    assert "num_key_value_heads" in {assumption.field for assumption in model.assumptions}


def test_nested_text_fields_come_before_the_wrapper() -> None:
    nested = read_configuration(
        json.dumps({"model_type": "x_vl", "hidden_size": 1, "vision_config": {"hidden_size": 2}, "text_config": LLAMA}).encode()
    )
    assert (nested.model_type, nested.text_model_type, nested.hidden_size) == ("x_vl", "llama", 576)
    assert [tower.name for tower in nested.towers] == ["vision_config"]
    assert read_configuration(json.dumps({**LLAMA, "text_config": None}).encode()).hidden_size == 576
    assert read_configuration(json.dumps({"model_type": "y", "llm_config": LLAMA}).encode()).layers == 30


def test_list_scalars_and_renamed_keys() -> None:
    config = read_configuration(
        b'{"model_type": "gpt2", "n_embd": [768, 768], "n_layer": 12, "n_head": 12.0, "dtype": "float32"}'
    )
    assert (config.hidden_size, config.layers, config.heads, config.dtype) == (768, 12, 12, "float32")


def test_two_names_that_disagree_are_a_finding() -> None:
    config = read_configuration(b'{"model_type": "x", "num_experts": 8, "num_local_experts": 4}')
    assert config.routed_experts == 8
    assert [finding.code for finding in config.findings] == ["configuration.conflict"]


def test_long_layer_lists_are_cut_and_short_ones_refused() -> None:
    types = ["sliding_attention"] * 31
    model = spec(layer_types=types, sliding_window=7)
    assert len(model.layers) == 30 and model.layers[0].mixer.window_tokens == 7
    assert "configuration.long_list" in {finding.code for finding in model.findings}
    with pytest.raises(BadInputError, match="layer_types has 29 items for 30 layers"):
        spec(layer_types=types[:29])


def test_no_model_type_is_a_finding() -> None:
    model = read_spec(b"{}", None)
    assert {"configuration.no_model_type", "structure.unknown_architecture"} <= {finding.code for finding in model.findings}
    assert model.parameters.total_language is None and model.state.bytes_per_token is None


def test_unknown_architecture_is_not_guessed() -> None:
    model = spec(model_type="brand_new_attn", auto_map={"AutoConfig": "configuration_new.NewConfig"})
    assert model.layers == () and model.state.bytes_per_token is None and model.remote_code
    assert model.hidden_size == 576


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"not json", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xff", "not JSON"),
        (b"[1]", "JSON list"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 80 + b"1" + b"}" * 80, "nested deeper"),
        (b'{"hidden_size": "4096"}', "hidden_size is '4096'"),
        (b'{"hidden_size": true}', "hidden_size is True"),
        (b'{"hidden_size": -1}', "hidden_size is -1"),
        (b'{"hidden_size": 1e400}', "hidden_size is inf"),
        (b'{"num_hidden_layers": 1000000000}', "num_hidden_layers is 1000000000"),
        (b'{"hidden_size": 1' + b"0" * 400 + b"}", "hidden_size is a number of"),
        (b'{"model_type": 3}', "model_type is 3"),
        (b'{"architectures": "x"}', "architectures is 'x'"),
        (b'{"quantization_config": 3}', "quantization_config is 3"),
        (b'{"model_type": "llama", "hidden_size": 8}', "no num_hidden_layers"),
    ],
)
def test_refused_in_one_sentence(document: bytes, words: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_spec(document, None)
    assert words in caught.value.message


def test_contradicting_numbers_are_refused() -> None:
    with pytest.raises(BadInputError, match="9 attention heads do not divide by 2"):
        spec(num_key_value_heads=2)
    with pytest.raises(BadInputError, match="500 does not divide by 9 heads"):
        spec(hidden_size=500)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(document: bytes) -> None:
    try:
        read_spec(document, None)
    except BadInputError as error:
        assert error.message


@settings(max_examples=80, deadline=None)
@given(FAMILIES, st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_any_object_is_read_or_refused(model_type: str, changes: dict) -> None:
    document = json.dumps({**LLAMA, "model_type": model_type, **changes}).encode()
    try:
        model = read_spec(document, None)
    except BadInputError as error:
        assert error.message
    else:
        assert model.parameters.total_language is None or model.parameters.total_language > 0
