"""Lock files in a folder: `NAME.txt` for every platform, `PLATFORM/NAME.txt` for one."""

from pathlib import Path

from dayzero.disk import refusals_spoken, write_whole
from dayzero.domain.stacks import INSTALLED, StackRecipe
from dayzero.errors import BadInputError
from dayzero.stages.stacks.locks import MAX_LOCK_BYTES, read_lock, write_lock

SUFFIX = ".txt"


def recipes_in(folder: Path, platform: str) -> tuple[StackRecipe, ...]:
    """What is installed, then the platform's locks by their names, then those for every platform; a lock for the platform
    takes the place of one for all. BadInputError names a file that is no lock."""
    found: dict[str, StackRecipe] = {INSTALLED.name: INSTALLED}
    for place in (folder / platform, folder):
        for path in sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else []:
            recipe = _read(path)
            found.setdefault(recipe.name, recipe)
    return tuple(found.values())


def _read(path: Path) -> StackRecipe:
    name = path.name.removesuffix(SUFFIX)
    if name == INSTALLED.name:
        raise BadInputError(f"{path}: {name} is what a worker has, and has no lock.", remedy="Call the stack something else.")
    with refusals_spoken(path), path.open("rb") as file:
        data = file.read(MAX_LOCK_BYTES + 1)
    try:
        return read_lock(name, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path} is not UTF-8 text.", remedy="Make it anew with `dayzero stack add`.") from error


def keep_lock(folder: Path, platform: str | None, recipe: StackRecipe, *, replace: bool = False) -> Path:
    """Write the recipe's lock, for one platform or for all. BadInputError where another lock of that name is there."""
    if recipe.name == INSTALLED.name:
        raise BadInputError(f"{recipe.name} is what a worker has.", remedy="Call the stack something else.")
    place = folder / platform if platform else folder
    path = place / f"{recipe.name}{SUFFIX}"
    if path.exists() and not replace:
        raise BadInputError(f"there is a stack {recipe.name} already: {path}.", remedy="Take another name, or add --replace.")
    with refusals_spoken(path):
        place.mkdir(parents=True, exist_ok=True)
        write_whole(path, write_lock(recipe).encode())
    return path
