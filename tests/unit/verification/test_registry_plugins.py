"""Plugin settings are parsed once, and every rejection says what is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.errors import BadInputError, NotFoundError
from dayzero.registry import OPERATOR_GROUP, load_plugin, parse_plugin_setting, settings_for
from dayzero.stages.precision.planting import planted_layer


def test_a_full_setting_gives_name_options_and_pattern() -> None:
    setting = parse_plugin_setting("planted-fault:seed=7:scale=1.03@demo/*")
    assert (setting.name, dict(setting.options), setting.model_pattern) == (
        "planted-fault",
        {"seed": "7", "scale": "1.03"},
        "demo/*",
    )


@pytest.mark.parametrize("text", ["", ":seed=1", "name@", "name:seed", "name:seed=", "name:=1", "name:a=1:a=2", "na me", "a/b"])
def test_a_malformed_setting_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_plugin_setting(text)


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        assert parse_plugin_setting(text).name
    except BadInputError as error:
        assert error.remedy


def test_settings_are_for_the_models_that_they_name() -> None:
    texts = ("a@demo/*", "b", "c@other/x")
    assert settings_for("demo/faulty", texts) == ("a@demo/*", "b")


def test_an_unknown_plugin_is_named_with_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="no plugin 'nonesuch'"):
        load_plugin(OPERATOR_GROUP, "nonesuch")


@given(st.integers(), st.integers(min_value=1, max_value=200))
def test_the_planted_layer_is_drawn_inside_the_model_and_the_same_each_time(seed: int, layers: int) -> None:
    assert 0 <= planted_layer(seed, layers) < layers
    assert planted_layer(seed, layers) == planted_layer(seed, layers)


def test_seeds_reach_every_layer() -> None:
    assert {planted_layer(seed, 6) for seed in range(100)} == set(range(6))
