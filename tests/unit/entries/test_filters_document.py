"""The filter reference says what the grammar does."""

import re
from pathlib import Path

import pytest

from dayzero.domain.columns import COMPATIBILITY_COLUMNS, EVENT_COLUMNS
from dayzero.domain.events import EventKind
from dayzero.stages.predicates.text import MAX_CHARACTERS, MAX_COMPARISONS, MAX_DEPTH, parse
from dayzero.stages.predicates.tree import Everything, fields_from

DOCUMENT = (Path(__file__).parents[3] / "docs" / "reference" / "filters.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```filter\n(.*?)\n```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_filter(example: str) -> None:
    assert parse(example, fields_from(EVENT_COLUMNS)) != Everything()


def test_there_are_examples_and_every_field_of_events_alone_is_listed() -> None:
    assert len(EXAMPLES) >= 5
    for column in set(EVENT_COLUMNS) - set(COMPATIBILITY_COLUMNS):
        assert f"| `{column.name}` | {column.kind.value} |" in DOCUMENT


def test_events_and_limits_are_the_real_ones() -> None:
    for kind in EventKind:
        assert kind.value in DOCUMENT or f"`.{kind.value.rpartition('.')[2]}`" in DOCUMENT
    assert f"{MAX_CHARACTERS} characters, {MAX_DEPTH} levels of nesting, {MAX_COMPARISONS} values" in DOCUMENT
