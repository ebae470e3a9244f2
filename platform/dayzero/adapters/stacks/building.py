"""A recipe installed into a folder of its own: what lies there is found before what is installed.

Only wheels are taken, so nothing of a package runs while it is installed. A folder that is there under its fingerprint is
whole: it got that name last.
"""

import importlib.metadata
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from dayzero.disk import refusals_spoken
from dayzero.domain.stacks import StackRecipe
from dayzero.errors import DependencyError
from dayzero.installer import ask_pip
from dayzero.stages.stacks.locks import canonical, write_lock


def installed_at(recipe: StackRecipe, root: Path) -> Path | None:
    """Where the recipe is installed under `root`; None where it is not."""
    place = root / recipe.fingerprint
    return place if place.is_dir() else None


def install(recipe: StackRecipe, root: Path) -> Path:
    """The recipe's folder under `root`, made now where it is not there; processes that make it at once end with one.

    DependencyError names a package that what is pinned needs, and that is neither pinned nor installed in a version that will
    do; else as `ask_pip`.
    """
    place = root / recipe.fingerprint
    if place.is_dir():
        return place
    with refusals_spoken(root):
        root.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=root))
    try:
        _fill(recipe, partial)
        _require_whole(recipe, partial)
        with refusals_spoken(place):
            if not place.is_dir():
                partial.rename(place)
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return place


def _fill(recipe: StackRecipe, folder: Path) -> None:
    lock = folder / "lock.txt"
    lock.write_text(write_lock(recipe), encoding="utf-8")
    hashes = ("--require-hashes",) if any(pin.sha256 for pin in recipe.pins) else ()
    wanted = ("--no-deps", "--only-binary", ":all:", "--no-compile", *hashes, "-r", str(lock))
    ask_pip(("install", "--quiet", "--target", str(folder / "packages"), *wanted), f"stack {recipe.name}")
    if not (folder / "packages").is_dir():
        raise DependencyError(f"pip installed nothing for stack {recipe.name}.", remedy="Look at its lock file.")


def packages_of(place: Path) -> Path:
    """The folder of packages of an installed recipe."""
    return place / "packages"


def _require_whole(recipe: StackRecipe, place: Path) -> None:
    """DependencyError for the first package that is needed and not there in a version that will do."""
    pinned = _versions([str(packages_of(place))])
    for whose, wanted in _needs(place):
        name = canonical(wanted.name)
        version = pinned.get(name) or _installed(name)
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            has = f"{name} {version} is there" if version else "none is there"
            raise DependencyError(
                f"stack {recipe.name}: {whose} needs {wanted.name}{wanted.specifier}, and {has}.",
                remedy=f"Pin it too: dayzero stack add {recipe.name} --replace {' '.join(map(str, recipe.pins))} {wanted.name}",
            )


def _needs(place: Path) -> Iterator[tuple[str, Requirement]]:
    """What the folder's packages say that they need here, with the name of each."""
    for found in importlib.metadata.distributions(path=[str(packages_of(place))]):
        for text in found.requires or ():
            try:
                wanted = Requirement(text)
            except InvalidRequirement:
                continue
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                yield f"{found.name} {found.version}", wanted


def _versions(path: list[str]) -> Mapping[str, str]:
    return {canonical(found.name): found.version for found in importlib.metadata.distributions(path=path)}


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
