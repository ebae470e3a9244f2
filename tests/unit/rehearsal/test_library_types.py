"""Model types and default configurations, read from source text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.errors import BadInputError
from dayzero.stages.configuration.library_types import (
    default_configuration,
    model_types,
    nested_configuration,
    parts_of,
    whole_architectures,
)

REGISTRY = """
CONFIG_MAPPING_NAMES = OrderedDict([("llama", "LlamaConfig"), ("next-gen", "NextGenConfig"), ("x", "NotOne")])
MORE = {"mamba": "MambaConfig", 3: "NumberConfig"}
raise SystemExit("this must never run")
"""

CLASSES = """
class NextGenConfig(PreTrainedConfig):
    model_type = "next-gen"
    hidden_size: int = 4096
    rope: dict | None = None
    rates: list[float] = [0.5, 1e3]
    computed: int = 4 * 1024
    infinite: float = 1e999
    _hidden: int = 1

class OldConfig(PretrainedConfig):
    def __init__(self, vocab_size=32000, pad=None, factory=dict(), *, heads=8, **kwargs):
        open("/tmp/must-not-be", "w")
"""


def test_types_come_with_the_name_of_their_class() -> None:
    assert model_types(REGISTRY) == {"llama": "LlamaConfig", "next-gen": "NextGenConfig", "mamba": "MambaConfig"}


def test_defaults_that_are_plain_values_become_a_configuration() -> None:
    assert json.loads(default_configuration(CLASSES, "NextGenConfig", "next-gen") or "") == {
        "model_type": "next-gen",
        "hidden_size": 4096,
        "rates": [0.5, 1000.0],
    }
    assert json.loads(default_configuration(CLASSES, "OldConfig", "old") or "") == {
        "model_type": "old",
        "vocab_size": 32000,
        "heads": 8,
    }
    assert default_configuration(CLASSES, "AbsentConfig", "absent") is None


def test_parts_are_described_inside_the_whole() -> None:
    types = ["gem", "gem_text", "gem_vision_encoder", "gem_audio_tokenizer", "lone_text", "gem_moe"]
    assert whole_architectures(types) == {"gem", "lone_text", "gem_moe"}
    assert parts_of("gem", types) == ("gem_text", "gem_vision_encoder")
    described = {"gem": '{"model_type": "gem"}', "gem_text": '{"hidden_size": 8}', "gem_vision_encoder": '{"depth": 2}'}
    assert json.loads(nested_configuration("gem", described)) == {
        "model_type": "gem",
        "text_config": {"hidden_size": 8},
        "vision_config": {"depth": 2},
    }


@pytest.mark.parametrize("source", ["def (", "x = \x00", "(" * 5000])
def test_what_is_no_python_is_refused(source: str) -> None:
    with pytest.raises(BadInputError, match="no Python"):
        model_types(source)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(source: str) -> None:
    try:
        assert all(name.endswith("Config") for name in model_types(source).values())
    except BadInputError as error:
        assert "no Python" in str(error)
