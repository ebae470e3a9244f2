"""The search for the fewest promotions: sound, minimal, repeatable, and on small sets compared with every subset."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.stages.precision.promotion import Found, fewest, worst_first

NAMES = tuple("abcdefgh")


def budget(errors: dict[str, float], limit: float) -> Callable[[frozenset[str]], bool]:
    """Errors of modules that keep no precision add up."""
    return lambda promoted: sum(error for name, error in errors.items() if name not in promoted) <= limit


def smallest(errors: dict[str, float], limit: float) -> int:
    """How many promotions the best of all subsets has."""
    meets = budget(errors, limit)
    return next(n for n in range(len(errors) + 1) if any(meets(frozenset(one)) for one in combinations(errors, n)))


def test_exactly_the_sensitive_ones_are_promoted() -> None:
    errors = dict.fromkeys(NAMES, 0.001) | {"c": 0.5, "g": 0.2}
    assert fewest(worst_first(errors), budget(errors, 0.01)) == Found(("c", "g"), 5)


def test_none_where_the_limit_holds_and_nothing_where_it_cannot() -> None:
    errors = dict.fromkeys(NAMES, 0.001)
    assert fewest(worst_first(errors), budget(errors, 1.0)).promoted == ()
    assert fewest(worst_first(errors), lambda _promoted: False).promoted is None


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 100))
def test_errors_that_add_up_give_the_smallest_of_all_subsets(values: list[int], limit: int) -> None:
    errors = {name: float(value) for name, value in zip(NAMES, values, strict=False)}
    found = fewest(worst_first(errors), budget(errors, limit))
    assert found.promoted is not None
    assert budget(errors, limit)(frozenset(found.promoted))
    assert len(found.promoted) == smallest(errors, limit)


@given(st.sets(st.sets(st.sampled_from(NAMES[:5])).map(frozenset), min_size=1))
def test_no_promotion_can_be_left_out_whatever_the_sets(minimal_sets: set[frozenset[str]]) -> None:
    def meets(promoted: frozenset[str]) -> bool:
        return any(needed <= promoted for needed in minimal_sets)

    found = fewest(NAMES[:5], meets)
    assert found.promoted is not None
    assert meets(frozenset(found.promoted))
    assert not any(meets(frozenset(found.promoted) - {name}) for name in found.promoted)


def test_order_is_by_error_then_by_name_and_no_number_comes_first() -> None:
    assert worst_first({"b": 0.1, "a": 0.1, "d": None, "c": 0.3}) == ("d", "c", "a", "b")


def test_each_set_is_measured_once() -> None:
    asked: list[frozenset[str]] = []

    def meets(promoted: frozenset[str]) -> bool:
        asked.append(promoted)
        return {"a", "f"} <= promoted

    found = fewest(NAMES, meets)
    assert found == Found(("a", "f"), len(asked))
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("names", [(), ("a",)])
def test_few_modules(names: tuple[str, ...]) -> None:
    assert fewest(names, lambda promoted: promoted == frozenset(names)).promoted == names
