"""The first stack that knows a model type, and what is said of those that do not."""

from collections.abc import Callable, Iterable

from dayzero.domain.stacks import StackChoice, StackRecipe, StackTried
from dayzero.errors import BadInputError, DayzeroError

Known = Callable[[StackRecipe], frozenset[str] | None]
"""The model types that a stack's modelling library knows; None where that cannot be read. A DayzeroError says why not."""

LibraryOf = Callable[[StackRecipe], str | None]
"""A stack's modelling library with its version; None where it has none."""


def choose(model_type: str | None, recipes: Iterable[StackRecipe], known: Known, library: LibraryOf) -> StackChoice:
    """The first of the recipes whose library knows the type; a configuration without a type takes the first there is."""
    tried: list[StackTried] = []
    for recipe in recipes:
        if model_type is None:
            return StackChoice(None, recipe, (StackTried(recipe.name, library(recipe), None, "the type is not stated"),))
        asked = _asked(model_type, recipe, known, library)
        tried.append(asked)
        if asked.knows:
            return StackChoice(model_type, recipe, tuple(tried))
    return StackChoice(model_type, None, tuple(tried))


def _asked(model_type: str, recipe: StackRecipe, known: Known, library: LibraryOf) -> StackTried:
    name = library(recipe)
    try:
        types = known(recipe)
    except DayzeroError as error:
        return StackTried(recipe.name, name, None, f"cannot be asked: {error.message}")
    if types is None:
        return StackTried(recipe.name, name, None, "has no modelling library that can be read")
    knows = model_type in types
    return StackTried(recipe.name, name, knows, f"{'knows' if knows else 'does not know'} {model_type}")


def ordered(recipes: Iterable[StackRecipe], names: tuple[str, ...]) -> tuple[StackRecipe, ...]:
    """The recipes that are named, in that order; all of them as they come where none is. BadInputError lists what there is."""
    by_name = {recipe.name: recipe for recipe in recipes}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise BadInputError(
            f"there is no stack {missing[0]}.",
            remedy=f"Known ones: {', '.join(by_name)}; make it: dayzero stack add {missing[0]}",
        )
    return tuple(by_name[name] for name in names) if names else tuple(by_name.values())


def tried_sentence(choice: StackChoice) -> str:
    """Which stacks were asked, with their libraries' versions."""
    asked = [f"{one.stack} ({one.library or 'no library'}) {one.why}" for one in choice.tried]
    return "; ".join(asked) if asked else "there is no stack to ask"
