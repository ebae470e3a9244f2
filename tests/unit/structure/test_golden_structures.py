"""Structures of published models, against totals that their publishers state or that follow exactly from their tensors."""

import json
import os
from pathlib import Path

import pytest

from dayzero.errors import BadInputError
from dayzero.stages.state import bytes_at
from dayzero.stages.structure import read_spec

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "structures.json").read_text())


@pytest.mark.parametrize("fact", GOLDEN, ids=[fact["model"] for fact in GOLDEN])
def test_published_model(fact: dict) -> None:
    spec = read_spec(json.dumps(fact["config"]).encode(), None)
    expect = fact["expect"]
    assert spec.parameters.total_language == expect["total_language"]
    assert spec.parameters.active == expect["active"]
    assert spec.state.bytes_per_token == expect["bytes_per_token"]
    assert spec.layers[0].mixer.kind == expect["first_mixer"]
    assert sum(layer.feed_forward.kind == "moe.routed" for layer in spec.layers) == expect["expert_layers"]
    assert spec.model_type == fact["config"]["model_type"]


def _spec(model: str):
    return read_spec(json.dumps(next(fact for fact in GOLDEN if fact["model"] == model)["config"]).encode(), None)


def test_sliding_window_state_of_gpt_oss() -> None:
    # 4.50439453125 GiB at 131,072 tokens is the published figure (kvfit): 18 full and 18 window layers.
    spec = _spec("openai/gpt-oss-120b")
    assert bytes_at(spec.state, 131072) == int(4.50439453125 * 2**30)
    assert [segment.from_token for segment in spec.state.segments] == [0, 128]
    assert spec.state.segments[-1].bytes_per_token == 36864


def test_window_that_is_switched_off_counts_as_full() -> None:
    assert all(layer.mixer.window_tokens is None for layer in _spec("Qwen/Qwen2.5-7B-Instruct").layers)


def test_quantization_and_prediction_layers_of_deepseek_v3() -> None:
    spec = _spec("deepseek-ai/DeepSeek-V3")
    assert spec.quantization is not None
    assert (spec.quantization.method, spec.quantization.bits, spec.quantization.block_shape) == ("fp8", 8, (128, 128))
    assert spec.predict_layers == 1 and len(spec.layers) == 61
    assert spec.parameters.checkpoint_total is None
    assert "parameters.prediction_unknown" in {finding.code for finding in spec.findings}


def test_nested_quantization_of_kimi_k25() -> None:
    spec = _spec("moonshotai/Kimi-K2.5")
    assert spec.quantization is not None and spec.quantization.bits == 4
    assert spec.parameters.total is None
    assert "parameters.towers_unknown" in {finding.code for finding in spec.findings}


@pytest.mark.skipif("DAYZERO_CONFIGS" not in os.environ, reason="DAYZERO_CONFIGS names no folder of configurations")
def test_every_configuration_of_a_folder_is_read_or_refused_in_a_sentence() -> None:
    files = sorted(Path(os.environ["DAYZERO_CONFIGS"]).glob("*.json"))
    assert files
    for file in files:
        try:
            spec = read_spec(file.read_bytes(), None)
        except BadInputError as error:
            assert error.message.startswith("config.json")
        else:
            assert spec.parameters.total_language is not None or spec.findings, file.name
