"""Which modules a quantization is for, and which it leaves alone."""

import fnmatch
import re
from collections.abc import Iterable

from dayzero.stages.parameters_expected import ExpectedTensor

_LINEAR = ("attention", "feed_forward", "experts", "recurrent")
_PREFIXES = ("model.", "language_model.", "transformer.", "backbone.")


def is_linear(tensor: ExpectedTensor) -> bool:
    """Whether a tensor is the weight of a linear module that quantizations take by default: no embedding, head or router."""
    if tensor.component not in _LINEAR or len(tensor.shape) < 2 or "conv" in tensor.name:
        return False
    return tensor.name.endswith((".weight", ".gate_up_proj", ".down_proj"))


def module_of(tensor: ExpectedTensor) -> str:
    """The module's path without prefixes, that of the first expert for all experts."""
    name = tensor.name.removesuffix(".weight").replace("{e}", "0")
    return name if tensor.layer is None else f"layers.{tensor.layer}.{name}"


def bare_name(name: str) -> str:
    """A module's name without the prefixes that differ between wrappers."""
    before = ""
    while before != name:
        before = name
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
    return name


class ModuleNames:
    """Module names that are left alone: exact, with `*`, as `re:` expressions, or as one word of the path."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.exact: set[str] = set()
        self.words: set[str] = set()
        self.expressions: list[re.Pattern[str]] = []
        for pattern in patterns:
            if pattern.startswith("re:"):
                self._add(pattern[3:])
            elif "*" in pattern:
                self._add(fnmatch.translate(bare_name(pattern)))
            elif "." in pattern:
                self.exact.add(bare_name(pattern))
            else:
                self.words.add(pattern)

    def _add(self, expression: str) -> None:
        # An expression that does not compile leaves nothing alone, as in the library that wrote it.
        if len(expression) <= 500 and expression.count("(") < 20:
            try:
                self.expressions.append(re.compile(expression))
            except re.error:
                return

    def match(self, module: str) -> bool:
        """Whether the module, or one that holds it, is left alone."""
        parts = module.split(".")
        if self.words.intersection(parts):
            return True
        holders = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        if any(holder in self.exact for holder in holders):
            return True
        return any(expression.match(holder) for expression in self.expressions for holder in holders)
