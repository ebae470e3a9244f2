"""A type that the library lacks is another's equal only by the publisher's word and our rules."""

import json

import pytest

from dayzero.stages.judging.same_code import SAME_CODE, as_same_code


def test_kimi_k2_is_deepseek_v3_s_code() -> None:
    found = as_same_code(
        json.dumps({"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"], "n_routed_experts": 384})
    )
    assert found is not None
    assert json.loads(found[0]) == {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "n_routed_experts": 384,
    }
    assert found[1].code == SAME_CODE and "the same code" in found[1].message


@pytest.mark.parametrize(
    "config",
    [
        '{"model_type": "kimi_k2"}', '{"model_type": "kimi_k2", "architectures": ["KimiForCausalLM"]}',
        '{"model_type": "kimi_k3", "architectures": ["DeepseekV3ForCausalLM"]}', '{"model_type": 3}', "[]", "not json", "{",
        '{"model_type": "kimi_k2", "architectures": "DeepseekV3ForCausalLM"}',
    ],
)  # fmt: skip
def test_nothing_else_is(config: str) -> None:
    assert as_same_code(config) is None
