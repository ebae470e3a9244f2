"""Predicted state against what the modelling library's own caches allocate, for every family that it builds."""

import pytest

import state_measured
import tiny_families
from dayzero.stages.structure.families import FAMILIES

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


def test_every_family_is_measured_or_said_why_not() -> None:
    assert set(FAMILIES) == set(tiny_families.FAMILIES) | set(tiny_families.NOT_BUILT)


@pytest.fixture(scope="module")
def rows() -> list[state_measured.Row]:
    return state_measured.measure(sorted(tiny_families.FAMILIES), ("bfloat16", "float32"))


def test_what_is_allocated_is_what_is_needed_and_a_named_rest(rows: list[state_measured.Row]) -> None:
    assert len(rows) == 2 * len(tiny_families.FAMILIES)
    assert {(row.family, row.dtype): row.unexplained for row in rows if any(row.unexplained.values())} == {}


def test_the_table_of_the_docs_is_what_is_measured(rows: list[state_measured.Row]) -> None:
    measured = state_measured.table([row for row in rows if row.dtype == "bfloat16"])
    assert state_measured.TABLE.read_text() == measured
