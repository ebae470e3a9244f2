"""Stacks that can be installed: lock files, which of them a release takes, and why not the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dayzero.domain.canonical import digest
from dayzero.domain.platforms import Stack

LIBRARY = "transformers"
"""The modelling library: what it knows decides whether a stack can be a reference for a release."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One package of a lock: its version, and the sha256 of the files that may be installed for it (none: any)."""

    name: str
    version: str
    sha256: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class StackRecipe:
    """A stack as it can be installed: over what a worker has, these packages take the place of its own."""

    name: str
    pins: tuple[Pin, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The digest of what it installs, whatever it is called."""
        return digest(self.pins)

    @property
    def library_version(self) -> str | None:
        """The version of the modelling library that it pins; None where it takes the worker's own."""
        return next((pin.version for pin in self.pins if pin.name == LIBRARY), None)


INSTALLED = StackRecipe("installed")
"""What a worker has, as it is."""


@dataclass(frozen=True, slots=True)
class StackTried:
    """One stack that was asked for a model type: its modelling library, whether that knows the type (None: it could not be
    asked), and why in words."""

    stack: str
    library: str | None
    knows: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class StackChoice:
    """The first stack of the platform that knows the model type (None: none does), and all that were asked before it."""

    model_type: str | None
    recipe: StackRecipe | None
    tried: tuple[StackTried, ...] = field(default_factory=tuple)


def over(stack: Stack, recipe: StackRecipe) -> Stack:
    """What is installed once the recipe lies over a worker's stack: its versions take the place of the others."""
    if not recipe.pins:
        return stack
    pinned: Mapping[str, str] = {pin.name: pin.version for pin in recipe.pins}
    known = {name: pinned.get(name, version) for name, version in stack.components.items()}
    return replace(stack, components={**known, "stack": recipe.fingerprint})
