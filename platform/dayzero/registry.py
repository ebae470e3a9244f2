"""Plugins by entry point; the built-ins come in by the same door as a stranger's.

A plugin setting is `NAME[:option=value…][@MODEL-PATTERN]`, for example `planted-fault:seed=7@demo/*`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from typing import Protocol, cast

from dayzero.domain.operators import OperatorSupport
from dayzero.domain.platforms import Device
from dayzero.errors import BadInputError, DependencyError, NotFoundError

OPERATOR_GROUP = "dayzero.operators"
DEVICE_GROUP = "dayzero.devices"


class OperatorBridge(Protocol):
    """An implementation of one operator, for platforms that lack it: a kernel package, a Triton kernel, or plain torch.

    It comes in by the same group as OperatorPlugin. `operator` is the ATen operator (`aten.topk.default`); `platforms` where
    it may be used (empty: everywhere). It is used only when it is switched on and was verified on the platform.
    """

    name: str
    operator: str
    platforms: tuple[str, ...]

    def implementation(self, options: Mapping[str, str]) -> Callable[..., object]:
        """The implementation, with the operator's own arguments (imports what it needs); BadInputError for a bad option."""
        ...


class DevicePlugin(Protocol):
    """What makes torch know a device that it does not bring: a vendor's adapter, or the simulated accelerator.

    The entry point's name is the torch device type that profiles name.
    """

    name: str

    def install(self, device: Device) -> None:
        """Make the device usable in this process (imports what it needs); again with the same device is no error."""
        ...

    def support(self, qualified: str) -> OperatorSupport | None:
        """What the installed device says of an operator (`aten::mm`); None: it has no kernel of it."""
        ...


class OperatorPlugin(Protocol):
    """An operator that a platform's owner brings for operators that the platform lacks or does slowly.

    `operator` is the ATen operator whose place it takes (`aten.silu.default`), by which it is judged in float64;
    `replacement` the name it is dispatched by (`mine.silu.default`); `platforms` where it works (empty: everywhere).
    """

    name: str
    operator: str
    replacement: str
    platforms: tuple[str, ...]

    def install(self, model: object, options: Mapping[str, str]) -> AbstractContextManager[None]:
        """Put the operator into the model (a torch module) while the context lasts; BadInputError for a bad option."""
        ...


@dataclass(frozen=True, slots=True)
class PluginSetting:
    """One plugin switched on: its name, its options, and the shell pattern of the models it is for."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    model_pattern: str = "*"


def parse_plugin_setting(text: str) -> PluginSetting:
    """The setting as a noun; BadInputError says what is wrong with the text."""
    body, at, pattern = text.strip().partition("@")
    name, *options = body.split(":")
    if not name or not all(char.isalnum() or char in "-_." for char in name):
        raise BadInputError(f"operator plugin setting {text!r} names no plugin.", remedy="Write NAME[:option=value…][@MODEL].")
    if at and not pattern:
        raise BadInputError(
            f"operator plugin setting {text!r} ends with @.", remedy="Name a model pattern, or leave out the @."
        )
    pairs: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not key or not equals or not value or key in pairs:
            raise BadInputError(f"option {option!r} of {text!r} is not option=value, once.", remedy="Write :option=value.")
        pairs[key] = value
    return PluginSetting(name, pairs, pattern or "*")


def settings_for(model: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Those of the plugin settings whose pattern takes the model's name, as RunRequest.custom_operators wants them."""
    return tuple(text for text in texts if fnmatchcase(model, parse_plugin_setting(text).model_pattern))


def plugin_names(group: str) -> tuple[str, ...]:
    """Names of the group's entry points, without importing any."""
    return tuple(sorted({entry.name for entry in entry_points(group=group)}))


def load_plugin(group: str, name: str) -> object:
    """What the entry point names; NotFoundError lists the known ones, DependencyError says what its import lacks."""
    found = [entry for entry in entry_points(group=group) if entry.name == name]
    if not found:
        known = ", ".join(plugin_names(group)) or "none"
        raise NotFoundError(f"no plugin {name!r} in {group} (installed: {known}).", remedy="Install the package that has it.")
    try:
        return cast("object", found[0].load())
    except ImportError as error:
        raise DependencyError(
            f"plugin {name!r} of {group} cannot be imported: {error}.", remedy="Install what it needs (extra: worker)."
        ) from error


def operator_plugins() -> Mapping[str, OperatorPlugin]:
    """Every installed operator plugin by name (imports them, and so torch); bridges are none of them."""
    return {name: operator_plugin(name) for name in plugin_names(OPERATOR_GROUP) if operator_bridge(name) is None}


def operator_plugin(name: str) -> OperatorPlugin:
    """One operator plugin by name; NotFoundError, DependencyError, or BadInputError when it is none."""
    plugin = load_plugin(OPERATOR_GROUP, name)
    if any(not hasattr(plugin, wanted) for wanted in ("name", "operator", "replacement", "platforms", "install")):
        raise BadInputError(f"plugin {name!r} of {OPERATOR_GROUP} is no operator plugin.", remedy="Give it all attributes.")
    return cast("OperatorPlugin", plugin)


def device_plugin(name: str) -> DevicePlugin:
    """The plugin of a torch device type; NotFoundError, DependencyError, or BadInputError when it is none."""
    plugin = load_plugin(DEVICE_GROUP, name)
    if any(not hasattr(plugin, wanted) for wanted in ("name", "install", "support")):
        raise BadInputError(f"plugin {name!r} of {DEVICE_GROUP} is no device plugin.", remedy="Give it all attributes.")
    return cast("DevicePlugin", plugin)


def operator_bridge(name: str) -> OperatorBridge | None:
    """The bridge of that name, or None when it is a plugin of another kind; NotFoundError, DependencyError."""
    plugin = load_plugin(OPERATOR_GROUP, name)
    if any(not hasattr(plugin, wanted) for wanted in ("name", "operator", "platforms", "implementation")):
        return None
    return cast("OperatorBridge", plugin)
