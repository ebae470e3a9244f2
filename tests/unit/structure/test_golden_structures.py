"""Structures of published models, against totals that their publishers state or that follow exactly from their tensors."""

import json
import os
from pathlib import Path

import pytest

from dayzero.errors import BadInputError
from dayzero.stages.memory.state_of_sequence import bytes_at
from dayzero.stages.structure.reading import read_spec
from golden_models import GRADED_BASIS, NOT_PRINTED, OFF, TABLE, Model, models, printed_of, spec_of, table

GRADED = [model for model in models() if model.graded and model.expect["total"] is not None]
REPORTED = [model for model in models() if not model.graded]


def test_most_models_are_graded() -> None:
    assert len(GRADED) >= 44 and len(GRADED) + len(REPORTED) <= len(models())


@pytest.mark.parametrize("model", GRADED, ids=lambda model: model.name)
def test_totals_active_and_cache_are_what_is_known(model: Model) -> None:
    spec = spec_of(model.name)
    parameters = spec.parameters
    total = parameters.total if model.scope == "with_towers" else parameters.total_language
    assert total is not None and parameters.active is not None
    assert total + OFF.get(model.name, (0, ""))[0] == model.expect["total"]
    assert len(spec.layers) == model.expect["layers"]
    towers = total - (parameters.total_language or 0)
    assert model.expect["active"] is not None
    assert abs(parameters.active + towers - model.expect["active"]) <= model.expect["active"] / 100
    if "language_total" in model.expect:
        assert parameters.total_language == model.expect["language_total"]
        assert parameters.active == model.expect["language_active"]
    if model.expect["bytes_per_token"] is not None:
        assert spec.state.bytes_per_token == model.expect["bytes_per_token"]
    if "last_segment" in model.expect:
        assert spec.state.segments[-1].bytes_per_token == model.expect["last_segment"]


PRINTED = [model for model in GRADED if model.published["basis"] in GRADED_BASIS]


@pytest.mark.parametrize("model", PRINTED, ids=lambda model: model.name)
def test_published_counts_follow_a_convention_or_are_explained(model: Model) -> None:
    for which, text, convention in printed_of(model):
        assert (convention is None) == ((model.name, text) in NOT_PRINTED), (which, text, convention)


@pytest.mark.parametrize("model", REPORTED, ids=lambda model: model.name)
def test_what_is_recalled_or_partial_is_reported(model: Model) -> None:
    spec = spec_of(model.name)
    assert spec.parameters.total_language is not None or any(finding.code.endswith("unknown") for finding in spec.findings)


def test_the_table_of_the_docs_is_what_is_counted() -> None:
    assert TABLE.read_text() == table(), "run python tests/golden_models.py"


def test_sliding_window_state_of_gpt_oss() -> None:
    # 4.50439453125 GiB at 131,072 tokens is the published figure (kvfit): 18 full and 18 window layers.
    spec = spec_of("openai/gpt-oss-120b")
    assert bytes_at(spec.state, 131072) == int(4.50439453125 * 2**30)
    assert [segment.from_token for segment in spec.state.segments] == [0, 128]
    assert spec.state.segments[-1].bytes_per_token == 36864


def test_compressed_cache_of_deepseek_v4() -> None:
    # vLLM publishes 9.62 GiB at 1,048,576 tokens in bfloat16: entries of 4 and 128 tokens, with an index key beside each of 4.
    spec = spec_of("deepseek-ai/DeepSeek-V4-Pro")
    assert spec.state.segments[-1].bytes_per_token == 9848
    entries = (bytes_at(spec.state, 2**20) or 0) - (spec.state.constant_bytes or 0)
    assert round(entries / 2**30, 2) == 9.62
    # Beside the entries: keys and gates of up to 3 (two series of both, and of the last entry's 4) or 127 waiting tokens.
    kinds = [layer.mixer.compression for layer in spec.layers]
    waiting = 2 * (2 * 3 + 4) * (512 + 128) * kinds.count(4) + 2 * 127 * 512 * kinds.count(128)
    assert spec.state.constant_bytes == 2 * waiting
    assert [layer.mixer.compression for layer in spec.layers[:4]] == [128, 128, 4, 128]
    assert [layer.feed_forward.hash_routed for layer in spec.layers[:4]] == [True, True, True, False]


def test_window_that_is_switched_off_counts_as_full() -> None:
    assert all(layer.mixer.window_tokens is None for layer in spec_of("Qwen/Qwen2.5-7B-Instruct").layers)


def test_quantization_and_prediction_layers_of_deepseek_v3() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    assert spec.quantization is not None
    assert (spec.quantization.method, spec.quantization.bits, spec.quantization.block_shape) == ("fp8", 8, (128, 128))
    assert spec.predict_layers == 1 and len(spec.layers) == 61
    # The hub holds 684,489,830,656 (main model, draft layer with its 256 biases, second embeddings and head); the main model's
    # 58 × 256 correction biases come to it.
    assert spec.parameters.checkpoint_total == 684489830656 + 58 * 256


def test_the_hub_total_of_nemotron_3_super() -> None:
    assert spec_of("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8").parameters.checkpoint_total == 123611033088


def test_towers_and_nested_quantization_of_kimi_k25() -> None:
    spec = spec_of("moonshotai/Kimi-K2.5")
    assert spec.quantization is not None and spec.quantization.groups[0].scheme == "int4_group"
    assert spec.parameters.by_component["towers"] == 471143920


def test_latent_experts_of_kimi_k3() -> None:
    spec = spec_of("moonshotai/Kimi-K3")
    assert spec.parameters.by_component["experts"] == 2722740830208
    kinds = [layer.mixer.kind for layer in spec.layers]
    assert kinds.count("linear_attention.kimi_delta") == 69 and kinds.count("attention.mla") == 24
    # Experts in MXFP4, all else in bfloat16, is what the publisher's 1.56 TB come to.
    assert spec.weights.predicted_bytes == 1559943357632
    assert "weights.predicted_without" in {finding.code for finding in spec.findings}


def test_gpt_oss_weighs_what_its_publisher_ships() -> None:
    assert spec_of("openai/gpt-oss-120b").weights.predicted_bytes == 65248815744


@pytest.mark.skipif("DAYZERO_CONFIGS" not in os.environ, reason="DAYZERO_CONFIGS names no folder of configurations")
def test_every_configuration_of_a_folder_is_read_or_refused_in_a_sentence() -> None:
    files = [file for file in sorted(Path(os.environ["DAYZERO_CONFIGS"]).glob("*.json")) if ".hf_quant." not in file.name]
    assert files
    for file in files:
        side = file.with_suffix(".hf_quant.json")
        try:
            spec = read_spec(file.read_bytes(), None, side=side.read_bytes() if side.exists() else None)
        except BadInputError as error:
            assert error.message.startswith("config.json")
        else:
            assert spec.parameters.total_language is not None or spec.findings, file.name
            json.dumps([finding.message for finding in spec.findings])


def test_experts_of_deepseek_v4_are_stored_in_a_dtype_of_their_own() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V4-Pro")
    assert spec.quantization is not None
    assert [(group.scheme, group.targets) for group in spec.quantization.groups] == [("fp8_block", ()), ("mxfp4", ("experts",))]
    experts = spec.parameters.by_component["experts"]
    assert 0 < (spec.weights.predicted_bytes or 0) - experts * 17 // 32 < 2 * (spec.parameters.total_language - experts)
