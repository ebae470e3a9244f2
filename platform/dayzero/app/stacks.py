"""This host's stacks: lock files in a folder, each installed in a folder of its own when it is first needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dayzero.adapters.packages.library import library_types
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.adapters.stacks.building import install, installed_at, packages_of
from dayzero.adapters.stacks.folder import keep_lock, recipes_in
from dayzero.adapters.stacks.locking import locked
from dayzero.adapters.trace.known import installed_types, library_name
from dayzero.adapters.trace.tracer import Library, SubprocessTracer
from dayzero.domain.stacks import INSTALLED, LIBRARY, StackRecipe
from dayzero.errors import NotFoundError
from dayzero.settings import Settings
from dayzero.stages.stacks.choosing import ordered


@dataclass(frozen=True, slots=True)
class KnownStack:
    """A stack as `dayzero stack ls` shows it: its library with the number of model types that it knows (None: not read yet or
    none), whether it knows the type that was asked for, and whether it is installed here."""

    recipe: StackRecipe
    library: str | None
    types: int | None
    knows: bool | None
    installed: bool


class HostStacks:
    """The stacks of this host's settings as ports.running.Stacks; runners are kept, one a stack."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = stacks_folder(settings)
        self._runners: dict[str, SubprocessRunner] = {}

    def recipes(self, platform: str) -> Sequence[StackRecipe]:
        """What is installed, and the locks for the platform, in the order that the settings ask for."""
        return ordered(recipes_in(self._folder, platform), self._settings.stacks)

    def library(self, recipe: StackRecipe) -> str | None:
        """The modelling library that the recipe pins, else the installed one."""
        return f"{LIBRARY} {recipe.library_version}" if recipe.library_version else library_name()

    def model_types(self, recipe: StackRecipe) -> frozenset[str] | None:
        """What that library knows, read from its wheel or from what is installed."""
        if recipe.library_version is None:
            return installed_types() or None
        return library_types(LIBRARY, recipe.library_version, self._settings.data_dir / "packages")

    def tracer(self, recipe: StackRecipe) -> SubprocessTracer:
        """A tracer that finds the recipe's packages first."""
        types = self.model_types(recipe)

        def knows(model_type: str) -> bool | None:
            return None if types is None else model_type in types

        return SubprocessTracer(library=Library(self.library(recipe), knows, self._packages(recipe)))

    def runner(self, recipe: StackRecipe) -> SubprocessRunner:
        """A runner that finds the recipe's packages first."""
        if recipe.fingerprint not in self._runners:
            self._runners[recipe.fingerprint] = SubprocessRunner(
                self._settings.data_dir.resolve() / "work" / "runs",
                compile_cache=self._settings.compile_cache,
                recipe=recipe,
                packages=self._packages(recipe),
            )
        return self._runners[recipe.fingerprint]

    def _packages(self, recipe: StackRecipe) -> Path:
        return packages_of(install(recipe, installed_folder(self._settings)))


def stacks_folder(settings: Settings) -> Path:
    """Where the locks lie, and under it what is installed from them."""
    return (settings.stacks_dir or settings.data_dir / "stacks").expanduser().resolve()


def installed_folder(settings: Settings) -> Path:
    """Where stacks are installed, a folder each."""
    return stacks_folder(settings) / "installed"


def add_stack(
    settings: Settings, name: str, requirements: Sequence[str], platform: str | None, *, replace: bool = False
) -> tuple[StackRecipe, Path]:
    """Lock what the requirements need beside what is installed, and keep it; the recipe and its file."""
    recipe = locked(name, requirements)
    return recipe, keep_lock(stacks_folder(settings), platform, recipe, replace=replace)


def list_stacks(settings: Settings, platform: str, model_type: str | None) -> tuple[KnownStack, ...]:
    """The platform's stacks in the order in which a release tries them; types are read where a type is asked for."""
    stacks, root = HostStacks(settings), installed_folder(settings)
    shown = []
    for recipe in stacks.recipes(platform):
        types = stacks.model_types(recipe) if model_type or recipe == INSTALLED else None
        knows = None if model_type is None or types is None else model_type in types
        here = recipe == INSTALLED or installed_at(recipe, root) is not None
        shown.append(KnownStack(recipe, stacks.library(recipe), len(types) if types else None, knows, here))
    return tuple(shown)


def build_stack(settings: Settings, name: str, platform: str) -> Path:
    """Install a stack now, where it would be installed when it is needed; its folder."""
    recipe = next((one for one in recipes_in(stacks_folder(settings), platform) if one.name == name), None)
    if recipe is None or recipe == INSTALLED:
        raise NotFoundError(f"there is no lock of a stack {name} for {platform}.", remedy=f"Make it: dayzero stack add {name}")
    return install(recipe, installed_folder(settings))
