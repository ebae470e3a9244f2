"""The reference pages say what the code does."""

from pathlib import Path

import pytest

from dayzero.cli.reference import EVENTS, PAGES
from dayzero.domain.events import EventKind

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_pages_are_as_generated(name: str) -> None:
    assert (REFERENCE / name).read_text() == PAGES[name](), "run `python -m dayzero.cli.reference docs/reference`"


def test_every_event_is_explained() -> None:
    assert set(EVENTS) == set(EventKind)
