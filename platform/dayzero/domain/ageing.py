"""What an entry rests on, what makes it stale, and the queue of those that are to be run again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dayzero.domain.adaptation import Purpose
from dayzero.domain.canonical import digest
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.stacks import StackRecipe, over
from dayzero.domain.verdict import Mode
from dayzero.domain.waivers import Waiver

DIGITS = 12
"""Characters of a figure's digest that an entry keeps: enough to tell that it changed, for each figure by its name."""

_PROSE = ("title", "notes", "vendor", "plugin_package", "collectives", "engines")
"""What a profile says beside its figures: no entry depends on it."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What an entry was derived on beside its content and its method.

    `stack` are the components that it ran in, those of a recipe (`pins`) in the place of the platform's own; `profile` maps
    each figure of the platform to its digest, shortened. An older version's entries have none: what they rest on is unknown.
    """

    stack: Mapping[str, str] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    profile: Mapping[str, str] = field(default_factory=dict)

    def on(self, stack: Stack) -> Mapping[str, str]:
        """The components that the entry would run in on another stack: its pins stay."""
        kept = {"stack": self.stack["stack"]} if "stack" in self.stack else {}
        return {**{name: self.pins.get(name, version) for name, version in stack.components.items()}, **kept}


def basis_of(stack: Stack | None, recipe: StackRecipe, profile: PlatformProfile | None) -> Basis:
    """The basis of an entry that is derived now."""
    return Basis(
        stack=dict(over(stack, recipe).components) if stack else {},
        pins={pin.name: pin.version for pin in recipe.pins},
        profile=figures_of(profile) if profile else {},
    )


def figures_of(profile: PlatformProfile) -> Mapping[str, str]:
    """A profile's figures by name, each as its shortened digest; prose does not count."""
    names = (name for name in PlatformProfile.__slots__ if name not in _PROSE)
    return {name: digest(getattr(profile, name))[:DIGITS] for name in names if getattr(profile, name)}


class Cause(StrEnum):
    """Why an entry is stale."""

    RELEASE = "release"
    STACK = "stack"
    PROFILE = "profile"
    METHOD = "method"
    WAIVER = "waiver"


@dataclass(frozen=True, slots=True)
class Ageing:
    """One cause that made an entry stale, in words."""

    cause: Cause
    why: str


@dataclass(frozen=True, slots=True)
class StandingEntry:
    """An entry of the list that counts as current, as far as its ageing goes."""

    entry_id: str
    adaptation_id: str
    model: str
    platform: str
    mode: Mode
    purpose: Purpose
    method: str
    basis: Basis | None
    waivers: tuple[Waiver, ...] = ()


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds now for one platform and mode: the stacks that its workers have (none: nobody told), the figures of its
    profile (None: it has none), the method, the waivers that were ended early, and the moment."""

    stacks: tuple[Stack, ...]
    profile: Mapping[str, str] | None
    method: str
    ended_waivers: frozenset[str]
    now: datetime


@dataclass(frozen=True, slots=True)
class Worth:
    """What speaks for running an entry again soon, and what it costs.

    `subscribers`: subscriptions that would hear of it; `asked`: look-ups of the model on the platform in the last days;
    `waited_s`: since it was queued; `verified`: whether it was verified before; `devices` and `took_s` of its last run (None:
    nobody knows).
    """

    subscribers: int
    asked: int
    waited_s: float
    verified: bool
    devices: int
    took_s: float | None


@dataclass(frozen=True, slots=True)
class Priority:
    """A place in the queue: the higher score first, and the terms that make it, in words."""

    score: float
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rerun:
    """An adaptation that is to be run again: why, since when, and (once it was started) when and with which priority."""

    id: str
    adaptation_id: str
    entry_id: str
    model: str
    platform: str
    mode: Mode
    purpose: Purpose
    reasons: tuple[str, ...]
    queued_at: datetime
    worth: Worth
    started_at: datetime | None = None
