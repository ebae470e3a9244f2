"""A configuration that contradicts its headers is reported with the tensors that show it."""

from typing import Any

import pytest

from dayzero.domain.findings import Finding, Severity
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.stages.structure.reading import read_spec
from small_structures import LLAMA, headers, llama_headers, read

MIXTURE: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "head_dim": 16,
}


def the(spec: Any, code: str) -> Finding:
    found = [finding for finding in spec.findings if finding.code == code]
    assert len(found) == 1, [finding.code for finding in spec.findings]
    return found[0]


def test_agreeing_headers_contradict_nothing() -> None:
    spec = read(LLAMA, headers(*llama_headers()))
    assert [finding.code for finding in spec.findings if finding.severity is Severity.ERROR] == []


def test_more_layers_than_stated() -> None:
    found = the(read(LLAMA, headers(*llama_headers(layers=4))), "structure.more_layers")
    assert found.severity is Severity.ERROR and found.numbers == {"stated": 2, "held": 4}
    assert all(name.startswith(("model.layers.2.", "model.layers.3.")) for name in found.names)


def test_draft_layers_are_not_too_many() -> None:
    spec = read({**LLAMA, "num_nextn_predict_layers": 1}, headers(*llama_headers(layers=3)))
    assert "structure.more_layers" not in {finding.code for finding in spec.findings}


def test_fewer_layers_than_stated() -> None:
    found = the(read(LLAMA, headers(*llama_headers(layers=1))), "structure.fewer_layers")
    assert found.names == ("layers.1",)


def test_another_number_of_experts() -> None:
    rows = [row for row in llama_headers() if ".mlp." not in row[0]]
    rows += [
        (f"model.layers.{at}.mlp.experts.{expert}.{name}_proj.weight", "BF16", (32, 64))
        for at in range(2)
        for expert in range(6)
        for name in ("gate", "up", "down")
    ]
    found = the(read(MIXTURE, headers(*rows)), "structure.experts")
    assert found.numbers == {"layer": 0, "stated": 4, "held": 6} and "experts.5" in found.names[0]


def test_a_head_that_is_tied_and_stored() -> None:
    found = the(read({**LLAMA, "tie_word_embeddings": True}, headers(*llama_headers())), "embeddings.two_heads")
    assert found.subject == "lm_head"


@pytest.mark.parametrize("scaled", [0, 1])
def test_eight_bit_weights_without_their_scales(scaled: int) -> None:
    rows = [(name, "F8_E4M3" if "proj" in name else dtype, shape) for name, dtype, shape in llama_headers()]
    if scaled:
        rows += [(f"{name}_scale_inv", "F32", (1, 1)) for name, dtype, _ in list(rows) if dtype == "F8_E4M3"]
    config = {**LLAMA, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    spec = read(config, headers(*rows))
    if scaled:
        assert "weights.no_scale" not in {finding.code for finding in spec.findings}
    else:
        found = the(spec, "weights.no_scale")
        assert found.numbers == {"without": 14, "of": 14} and len(found.names) == 14


def test_a_quantization_that_the_weights_do_not_have() -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    assert the(read(config, headers(*llama_headers())), "weights.not_quantized").severity is Severity.ERROR


def test_no_headers_contradict_nothing() -> None:
    assert read_spec(b'{"model_type": "llama2000"}', CheckpointIndex((), ())).findings
    empty = TensorHeader("x", "BF16", (1,), "f", 0, 2)
    assert read_spec(b'{"model_type": "llama2000"}', CheckpointIndex((empty,), ())).layers == ()
