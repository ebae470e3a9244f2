"""The document of `inspect --json`, and parameters counted from packed headers."""

import json

import pytest

from checkpoints import DEEPSEEK, GPT_OSS, SMOLLM2, index_for, spec_for
from dayzero.domain.release import HubKind, ModelRef
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.memory.state_of_sequence import state_of
from dayzero.stages.structure.document import inspect_document
from small_structures import LLAMA, read


def header(name: str, dtype: str, shape: tuple[int, ...], size: int) -> TensorHeader:
    return TensorHeader(name, dtype, shape, "f", 0, size)


def test_document_has_what_the_design_lists() -> None:
    spec = spec_for(GPT_OSS, index_for(GPT_OSS))
    document = inspect_document(spec, ModelRef(HubKind.HUGGING_FACE, "org/name", "abc"), 100)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema"] == "dayzero.inspect/1"
    assert document["model"] == {"hub": "hf", "repo_id": "org/name", "revision": "abc"}
    assert {"architecture", "known", "layers", "parameters", "weights", "state", "quantization", "findings",
            "assumptions"} <= set(document)  # fmt: skip
    # Two layers with a window of 16 tokens, two without; 2 heads × (8 + 8) × 2 bytes = 64 bytes a token and layer.
    assert document["state"] == {
        "dtype": "bfloat16", "constant_bytes": 0, "bytes_per_token": 256,
        "segments": [{"from_token": 0, "bytes_per_token": 256}, {"from_token": 16, "bytes_per_token": 128}],
        "bytes_at_context": 2 * 64 * 100 + 2 * 64 * 16, "context_tokens": 100,
    }  # fmt: skip
    assert [layer["mixer"] for layer in document["layers"]] == ["attention.sliding_window", "attention.gqa"] * 2


def test_unknown_numbers_are_null_with_a_finding() -> None:
    spec = spec_for({**SMOLLM2, "model_type": "new"})
    document = inspect_document(spec, ModelRef(HubKind.DIRECTORY, "/m"), 10)
    assert document["model"] == {"hub": "dir", "path": "/m", "revision": None}
    assert document["state"]["bytes_per_token"] is None and document["state"]["bytes_at_context"] is None
    assert document["parameters"]["total_language"] is None
    assert {"state.unknown", "parameters.unknown"} <= {finding["code"] for finding in document["findings"]}


def test_unknown_architecture_is_counted_from_its_headers() -> None:
    index = index_for(DEEPSEEK)
    spec = spec_for({**DEEPSEEK, "model_type": "new"}, index)
    known = spec_for(DEEPSEEK)
    assert spec.parameters.source == "tensor_headers"
    assert spec.parameters.total_language == known.parameters.total_language
    assert spec.parameters.active == known.parameters.active
    assert spec.weights.bytes == index.weight_bytes and spec.weights.by_dtype == {"BF16": index.weight_bytes}


def test_packed_weights_are_unpacked_and_scales_are_no_parameters() -> None:
    index = CheckpointIndex(
        (
            header("model.layers.0.mlp.experts.0.gate_proj.weight_packed", "I32", (2048, 896), 2048 * 896 * 4),
            header("model.layers.0.mlp.experts.0.gate_proj.weight_scale", "BF16", (2048, 224), 2048 * 224 * 2),
            header("model.layers.0.mlp.experts.0.gate_proj.weight_shape", "I32", (2,), 8),
        )
    )
    quantization = {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4}}}}
    spec = spec_for({"model_type": "new", "quantization_config": quantization}, index)
    assert spec.parameters.total_language == 14680064
    blocks = CheckpointIndex(
        (
            header("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", (128, 5760, 90, 16), 1061683200),
            header("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", (128, 5760, 90), 66355200),
        )
    )
    spec = spec_for({"model_type": "new", "quantization_config": {"quant_method": "mxfp4"}}, blocks)
    assert spec.parameters.total_language == 2123366400


def test_unstated_packing_leaves_the_count_unknown() -> None:
    index = CheckpointIndex((header("model.layers.0.mlp.up_proj.qweight", "I32", (8, 8), 256),))
    spec = spec_for({"model_type": "new"}, index)
    assert spec.parameters.total_language is None
    assert "parameters.packing_unknown" in {finding.code for finding in spec.findings}


@pytest.mark.parametrize(
    ("tied", "stored", "code"), [(True, True, "embeddings.two_heads"), (False, False, "embeddings.no_head")]
)
def test_tying_that_contradicts_the_checkpoint(tied: bool, stored: bool, code: str) -> None:
    index = index_for({**SMOLLM2, "tie_word_embeddings": not stored})
    spec = spec_for({**SMOLLM2, "tie_word_embeddings": tied}, index)
    assert code in {finding.code for finding in spec.findings}


def test_tying_that_is_not_stated_is_taken_from_the_checkpoint() -> None:
    unstated = {key: value for key, value in SMOLLM2.items() if key != "tie_word_embeddings"}
    spec = spec_for(unstated, index_for(SMOLLM2))
    assert spec.tied_embeddings is True
    assert "tie_word_embeddings" in {assumption.field for assumption in spec.assumptions}
    assert spec_for(unstated).tied_embeddings is False


def test_cache_dtype() -> None:
    spec = spec_for(SMOLLM2)
    half = state_of(spec.layers, "fp8").bytes_per_token
    assert half is not None and spec.state.bytes_per_token == 2 * half
    with pytest.raises(BadInputError, match="int3 is no cache dtype"):
        state_of(spec.layers, "int3")


def test_training_keeps_sixteen_bytes_a_parameter() -> None:
    spec = read(LLAMA)
    document = inspect_document(spec, ModelRef(HubKind.CONFIG, "config.json"), None)
    state = document["training_state"]
    assert isinstance(state, dict) and state["total_bytes"] == 16 * (spec.parameters.total or 0)
    assert state["items_bytes"]["gradients"] == 2 * (spec.parameters.total or 0)
    assert inspect_document(read({"model_type": "nobody"}), ModelRef(HubKind.CONFIG, "c"), None)["training_state"] is None
