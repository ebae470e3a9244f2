"""The predicate grammar: what it takes, what it refuses and how, and what unknown fields do."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.errors import BadInputError, ExitCode
from dayzero.stages.predicates.matching import matches
from dayzero.stages.predicates.text import parse
from dayzero.stages.predicates.tree import And, Comparison, Everything, FieldKind, Membership, Not, Operator, Or

FIELDS = {
    "model": FieldKind.TEXT,
    "platform": FieldKind.TEXT,
    "weight_bytes": FieldKind.NUMBER,
    "verified_at": FieldKind.TIME,
}
ROW = {
    "model": "deepseek-ai/DeepSeek-V3",
    "platform": "cpu",
    "weight_bytes": 1_000,
    "verified_at": datetime(2026, 1, 31, 12, tzinfo=UTC),
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        'model = "deepseek-ai/DeepSeek-V3"',
        "model = 'deepseek-ai/DeepSeek-V3'",
        'model ~ "deepseek-ai/*"',
        'model ~ "*-V?"',
        'not model ~ "qwen/*"',
        'platform in ("h200", "cpu")',
        'platform not in ("h200", "b200")',
        "weight_bytes >= 1e3 and weight_bytes < 1001",
        "weight_bytes = 1000.0",
        'verified_at > "2026-01-31"',
        'verified_at = "2026-01-31T13:00:00+01:00"',
        'platform = "h200" or (platform = "cpu" and weight_bytes > -1)',
        'platform = "cpu" or platform = "h200" and model = "x"',
        'MODEL_x = "y" or model != "x"'.replace("MODEL_x", "platform"),
        'platform = "cpu" AND NOT model = "x"',
    ],
)
def test_takes(text: str) -> None:
    assert matches(parse(text, FIELDS), ROW)


@pytest.mark.parametrize(
    "text",
    [
        'model = "DeepSeek-V3"',
        'model ~ "deepseek"',
        'model ~ "DEEPSEEK-AI/*"',
        'model != "deepseek-ai/DeepSeek-V3"',
        "weight_bytes > 1000",
        'verified_at < "2026-01-31"',
        '(platform = "cpu" or platform = "h200") and model = "x"',
        'platform not in ("cpu")',
    ],
)
def test_leaves(text: str) -> None:
    assert not matches(parse(text, FIELDS), ROW)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('modell = "x"', "character 1", "model, platform, verified_at, weight_bytes"),
        ('model = "x" and', "character 16", "the end"),
        ("model = x", "character 9", "text in quotes"),
        ('model = "x', "character 9", "never closed"),
        ('model < "x"', "character 7", "only != = ~"),
        ('weight_bytes = "1"', "character 16", "a number"),
        ("weight_bytes = 1e999", "character 16", "too large"),
        ("weight_bytes ~ 1", "character 14", "cannot compare"),
        ('verified_at > "soon"', "character 15", "no ISO date"),
        ('verified_at > "0001-01-01T00:00+23:00"', "character 15", "no ISO date"),
        ("model in ()", "character 11", "text in quotes"),
        ('model in "x"', "character 10", "expected ("),
        ('model not "x"', "character 7", "expected in"),
        ('(model = "x"', "character 13", "expected )"),
        ('model = "x")', "character 12", "the end"),
        ('model = "x" model = "y"', "character 13", "and, or"),
        ('model = "a\0b"', "character 9", "no field can hold"),
        ('model = "x"; drop table entries', "character 12", "not understood"),
        ("weight_bytes = 12abc", "character 16", ""),
        ("(" * 33 + 'model = "x"' + ")" * 33, "character 33", "32 levels"),
        ("not " * 40 + 'model = "x"', "character", "32 levels"),
        (" or ".join(['model = "x"'] * 201), "character", "200 values"),
        ("x" * 4001, "", "4001 characters"),
    ],
)
def test_refuses_with_the_position(text: str, where: str, what: str) -> None:
    with pytest.raises(BadInputError) as refused:
        parse(text, FIELDS)
    assert where in refused.value.message
    assert what in refused.value.message
    assert refused.value.remedy
    assert refused.value.exit_code is ExitCode.BAD_INPUT


def test_unknown_fields_match_nothing_and_neither_does_their_opposite() -> None:
    for text in ('model = "x"', 'not model = "x"', 'model != "x"', 'model not in ("x")', 'not (model = "x" or model = "y")'):
        assert not matches(parse(text, FIELDS), {})
        assert not matches(parse(text, FIELDS), {"model": None})
        assert not matches(parse(text, FIELDS), {"model": 7})
    assert matches(parse('model = "x" or platform = "cpu"', FIELDS), {"platform": "cpu"})
    assert not matches(parse('model = "x" and platform = "cpu"', FIELDS), {"platform": "cpu"})
    assert matches(parse('not (model = "x" and platform = "h200")', FIELDS), {"platform": "cpu"})


def test_values_of_another_type_are_unknown() -> None:
    assert not matches(parse("weight_bytes >= 0", FIELDS), {"weight_bytes": True})
    assert not matches(parse("not weight_bytes = 0", FIELDS), {"weight_bytes": float("nan")})
    assert not matches(parse("not weight_bytes = 0", FIELDS), {"weight_bytes": 10**400})
    assert not matches(parse('not verified_at = "2026-01-01"', FIELDS), {"verified_at": "never"})
    assert matches(parse('verified_at = "2026-01-01"', FIELDS), {"verified_at": "2026-01-01T00:00:00Z"})


def test_builds_the_tree_that_precedence_says() -> None:
    a, b, c = (Comparison("model", FieldKind.TEXT, Operator.EQUAL, value) for value in "abc")
    assert parse('model="a" or model="b" and not model="c"', FIELDS) == Or((a, And((b, Not(c)))))
    assert parse("model in ('a', 'b\\'\\\\')", FIELDS) == Membership("model", FieldKind.TEXT, ("a", "b'\\"))
    assert parse("", FIELDS) == Everything()


def test_patterns_that_would_stall_a_regular_expression_are_quick() -> None:
    predicate = parse(f'model ~ "{"*a" * 900}*b"', FIELDS)
    assert not matches(predicate, {"model": "a" * 5000})


PIECES = st.sampled_from(
    ["model", "platform", "weight_bytes", "verified_at", "=", "!=", "~", "<", ">=", "(", ")", ",", "in", "not", "and", "or",
     '"x"', "'", '"', "\\", "1", "-2.5e3", '"2026-01-31"', "\x00", "٣", "é", "9" * 400]
)  # fmt: skip


@given(st.text() | st.lists(PIECES, max_size=30).map(" ".join))
def test_whatever_the_text_it_is_a_predicate_or_bad_input(text: str) -> None:
    try:
        predicate = parse(text, FIELDS)
    except BadInputError:
        return
    assert matches(predicate, {}) is (predicate == Everything())
