"""The first stack that knows a type is taken; what cannot be asked is neither yes nor no."""

import pytest

from dayzero.domain.platforms import Stack
from dayzero.domain.stacks import INSTALLED, Pin, StackRecipe, over
from dayzero.errors import BadInputError, UnavailableError
from dayzero.stages.stacks.choosing import choose, ordered, tried_sentence

OLDER = StackRecipe("older", (Pin("transformers", "5.10.4"),))
NEWER = StackRecipe("newer", (Pin("transformers", "5.24.0"), Pin("torch", "2.13.0")))
KNOWN = {"older": {"llama"}, "installed": {"llama", "qwen3"}, "newer": {"llama", "qwen3", "martian"}}


def known(recipe: StackRecipe) -> frozenset[str]:
    return frozenset(KNOWN[recipe.name])


def library(recipe: StackRecipe) -> str:
    return f"transformers {recipe.library_version or '5.20.0'}"


@pytest.mark.parametrize(
    ("model_type", "taken", "asked"),
    [("llama", "older", 1), ("qwen3", "installed", 2), ("martian", "newer", 3), ("x", None, 3)],
)
def test_the_first_that_knows_the_type(model_type: str, taken: str | None, asked: int) -> None:
    choice = choose(model_type, (OLDER, INSTALLED, NEWER), known, library)
    assert (choice.recipe.name if choice.recipe else None) == taken
    assert [one.knows for one in choice.tried] == [False] * (asked - 1) + [taken is not None]
    assert all(version in tried_sentence(choice) for version in ("5.10.4", "5.20.0", "5.24.0")[:asked])


def test_one_that_cannot_be_asked_is_passed_over_and_said() -> None:
    def broken(recipe: StackRecipe) -> frozenset[str]:
        if recipe == OLDER:
            raise UnavailableError("the index does not answer.")
        return known(recipe)

    choice = choose("martian", (OLDER, NEWER), broken, library)
    assert choice.recipe == NEWER
    assert [one.knows for one in choice.tried] == [None, True]
    assert "older (transformers 5.10.4) cannot be asked: the index does not answer." in tried_sentence(choice)


def test_a_configuration_without_a_type_takes_the_first() -> None:
    assert choose(None, (INSTALLED, NEWER), known, library).recipe == INSTALLED


def test_the_order_that_is_asked_for() -> None:
    assert ordered((INSTALLED, NEWER, OLDER), ()) == (INSTALLED, NEWER, OLDER)
    assert ordered((INSTALLED, NEWER, OLDER), ("older", "installed")) == (OLDER, INSTALLED)
    with pytest.raises(BadInputError, match="there is no stack absent") as refused:
        ordered((INSTALLED, NEWER), ("absent",))
    assert "installed, newer" in str(refused.value)


def test_versions_of_a_recipe_take_the_place_of_the_installed_ones() -> None:
    stack = Stack("cpu", {"torch": "2.12.0", "transformers": "5.20.0", "cpu": "avx2"})
    lying = over(stack, NEWER)
    assert (lying.components["torch"], lying.components["transformers"], lying.components["cpu"]) == (
        "2.13.0",
        "5.24.0",
        "avx2",
    )
    assert lying.components["stack"] == NEWER.fingerprint
    assert over(stack, INSTALLED) == stack
