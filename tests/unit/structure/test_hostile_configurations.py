"""Configurations of real models with one field gone wrong: read, or refused in one sentence; never a crash."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.release import HubKind, ModelRef
from dayzero.errors import BadInputError
from dayzero.stages.parameters.quantization_targets import as_globs
from dayzero.stages.structure.document import inspect_document
from dayzero.stages.structure.reading import read_spec
from golden_models import models

CONFIGS = [json.loads(model.config) for model in models()]
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 3, 7, 10**12, -(2**70), 2**300, 1.5, 1e308, "", "x", "8", "1e9",
    [], [1, 2], [None], [[]], {}, {"a": {}}, ["full_attention"], ["nobody_knows"],
    [0] * 100, [1] * 100, "MMMM", "M-*E" * 30, "re:((((", "*" * 50,
]  # fmt: skip


def places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of a document, nested ones too."""
    found: list[tuple[str, ...]] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            found.append((*path, key))
            found.extend(places(inner, (*path, key)))
    return found


def changed(config: Any, path: tuple[str, ...], value: Any) -> Any:
    copy = deepcopy(config)
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copy


def read_or_refused(config: Any) -> ModelSpec | None:
    try:
        spec = read_spec(json.dumps(config).encode(), None)
    except BadInputError as error:
        assert error.message and "\n" not in error.message and len(error.message) < 600
        return None
    inspect_document(spec, ModelRef(HubKind.CONFIG, "config.json"), 4096)
    return spec


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_one_field_of_a_real_configuration_gone_wrong(data: st.DataObject) -> None:
    config = data.draw(st.sampled_from(CONFIGS))
    path = data.draw(st.sampled_from(places(config)))
    read_or_refused(changed(config, path, data.draw(st.sampled_from(HOSTILE))))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_fields_of_two_models_in_one(data: st.DataObject) -> None:
    one, other = data.draw(st.sampled_from(CONFIGS)), data.draw(st.sampled_from(CONFIGS))
    keys = data.draw(st.sets(st.sampled_from(sorted(other)), max_size=12))
    read_or_refused({**one, **{key: other[key] for key in keys}})


@pytest.mark.parametrize("layers", [0, -1, 10**12, 10_001, 1.5, "12", [3], True])
def test_absurd_layers_are_refused(layers: Any) -> None:
    config = {**CONFIGS[-1], "num_hidden_layers": layers, "n_layer": layers}
    if isinstance(layers, list):
        assert len((read_or_refused(config) or read_spec(json.dumps(CONFIGS[-1]).encode(), None)).layers) == 3
    else:
        assert read_or_refused(config) is None


def test_a_megabyte_of_layer_names_is_read_in_time() -> None:
    config = {**CONFIGS[5], "layer_types": ["full_attention"] * 60_000}
    assert read_or_refused(config) is not None


def test_an_unknown_attention_kind_is_refused_by_name() -> None:
    gpt = next(config for config in CONFIGS if config.get("model_type") == "gpt_oss")
    with pytest.raises(BadInputError, match="'quantum_attention', an attention kind that nobody knows"):
        read_spec(json.dumps({**gpt, "layer_types": ["quantum_attention"] * 36}).encode(), None)


def test_an_unknown_quantization_is_no_size() -> None:
    llama = next(config for config in CONFIGS if config.get("model_type") == "llama")
    spec = read_spec(json.dumps({**llama, "quantization_config": {"quant_method": "hqq", "nbits": 3}}).encode(), None)
    assert spec.weights.predicted_bytes is None
    assert "weights.scheme_unknown" in {finding.code for finding in spec.findings}


def test_an_unknown_activation_is_kept_as_it_is_called() -> None:
    llama = next(config for config in CONFIGS if config.get("model_type") == "llama")
    spec = read_spec(json.dumps({**llama, "hidden_act": "frobnicate"}).encode(), None)
    assert spec.layers[0].feed_forward is not None and spec.layers[0].feed_forward.activation == "frobnicate"


@pytest.mark.parametrize(
    "side", [b"", b"[]", b"{", b'{"quantization": 3}', b'{"quantization": {"quant_algo": 7}}', b"\xff\xfe"]
)
def test_a_broken_side_file_is_refused(side: bytes) -> None:
    llama = next(config for config in CONFIGS if config.get("model_type") == "llama")
    with pytest.raises(BadInputError, match=r"hf_quant_config\.json|quant_algo"):
        read_spec(json.dumps(llama).encode(), None, side=side)


@pytest.mark.parametrize(
    ("expression", "globs"),
    [
        (".*self_attn.*", ["*self_attn**"]),
        (r".*mlp\.(gate|up)_proj.*", ["*mlp.gate_proj**", "*mlp.up_proj**"]),
        (r"^model\.layers\.0$", ["model.layers.0"]),
        ("(a+)+$", None),
        ("(a|b)*", None),
        ("[a-z]+", None),
        (r"\d", None),
        ("a.c", ["a?c*"]),
        ("a" * 501, None),
        ("(a|b)" * 20, None),
    ],
)
def test_publishers_expressions_are_translated_and_never_run(expression: str, globs: list[str] | None) -> None:
    assert as_globs(expression) == globs


def test_an_expression_that_is_not_read_leaves_the_bytes_unknown() -> None:
    llama = next(config for config in CONFIGS if config.get("model_type") == "llama")
    quantized = {"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+$"]}
    spec = read_spec(json.dumps({**llama, "quantization_config": quantized}).encode(), None)
    assert spec.weights.predicted_bytes is None and "(a+)+$" in spec.findings[-1].message


def test_a_block_without_an_extent_is_refused() -> None:
    llama = next(config for config in CONFIGS if config.get("model_type") == "llama")
    quantized = {"quant_method": "fp8", "weight_block_size": [0, 128]}
    with pytest.raises(BadInputError, match="weight_block_size is 0; it can be from 1"):
        read_spec(json.dumps({**llama, "quantization_config": quantized}).encode(), None)


def test_blocks_of_another_shape_have_their_own_scales() -> None:
    llama = next(config for config in CONFIGS if config.get("model_type") == "llama")

    def stored(block: list[int]) -> int:
        quantized = {"quant_method": "fp8", "weight_block_size": block, "modules_to_not_convert": ["mlp"]}
        return read_spec(json.dumps({**llama, "quantization_config": quantized}).encode(), None).weights.predicted_bytes or 0

    # Halving a block along one side doubles its scales, of four bytes each.
    scales = (stored([64, 128]) - stored([128, 128])) // 4
    assert scales == (stored([32, 128]) - stored([64, 128])) // 8 > 0
