"""What the tracer refuses before a process is started, and which architectures are known."""

import sys

import pytest

from dayzero.adapters.trace.components import component_of
from dayzero.adapters.trace.known import known_architecture
from dayzero.adapters.trace.tracer import SubprocessTracer
from dayzero.errors import BadInputError


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (b"not json", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no model_type"),
        (b'{"model_type": 3}', "no model_type"),
        (b" " * ((16 << 20) + 1), "bytes large"),
    ],
)
def test_bad_configurations_start_no_process(config: bytes, complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        SubprocessTracer(python="/nonexistent").trace(config, timeout_s=1)


def test_known_architectures_are_read_without_importing_the_library() -> None:
    before = "transformers" in sys.modules
    answer = known_architecture("llama")
    assert answer in (True, None)
    assert known_architecture("no-such-type") is (None if answer is None else False)
    assert ("transformers" in sys.modules) == before


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("model.embed_tokens.weight", "embedding"),
        ("lm_head.weight", "head"),
        ("model.layers.0.input_layernorm.weight", "norm"),
        ("model.layers.0.self_attn.q_proj.weight", "attention"),
        ("model.layers.0.self_attn.kv_a_layernorm.weight", "norm"),
        ("model.layers.3.mlp.experts.gate_up_proj", "experts"),
        ("model.layers.3.mlp.shared_experts.down_proj.weight", "shared_experts"),
        ("model.layers.3.mlp.gate.weight", "router"),
        ("model.layers.0.mlp.gate_proj.weight", "mlp"),
        ("model.visual.blocks.0.attn.qkv.weight", "towers"),
        ("something.else", "other"),
    ],
)
def test_parameters_find_their_component(name: str, component: str) -> None:
    assert component_of(name) == component
