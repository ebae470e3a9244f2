"""Changes of modules that are undone when a stack closes."""

import inspect
import types
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any


class Planting:
    """Puts other values in the place of attributes; the stack puts the old ones back, last first."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack

    def swap(self, holder: Any, name: str, value: Any) -> None:
        """holder.name = value, until the stack closes."""
        own = name in vars(holder) or name in getattr(holder, "_parameters", {}) or name in getattr(holder, "_buffers", {})
        own = own or name in getattr(holder, "_modules", {})
        if own:
            self.stack.callback(setattr, holder, name, getattr(holder, name))
        else:
            self.stack.callback(delattr, holder, name)
        setattr(holder, name, value)

    def swap_item(self, mapping: Any, key: str, value: Any) -> None:
        """mapping[key] = value, until the stack closes."""
        if key in mapping:
            self.stack.callback(mapping.__setitem__, key, mapping[key])
        else:
            self.stack.callback(mapping.__delitem__, key)
        mapping[key] = value

    def rename_globals(self, module: Any, names: Mapping[str, Any]) -> None:
        """The module's forward, with other things behind those of its global names; only this one instance."""
        forward = inspect.unwrap(type(module).forward)
        changed = types.FunctionType(
            forward.__code__, {**forward.__globals__, **names}, forward.__name__, forward.__defaults__, forward.__closure__
        )
        changed.__kwdefaults__ = forward.__kwdefaults__
        self.swap(module, "forward", types.MethodType(changed, module))
