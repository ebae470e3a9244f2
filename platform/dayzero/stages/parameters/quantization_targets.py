"""Which modules a quantization is for, and which it leaves alone."""

import fnmatch
import re
from collections.abc import Iterable

from dayzero.stages.parameters.expected import ExpectedTensor

_LINEAR = ("attention", "feed_forward", "experts", "recurrent")
_PREFIXES = ("model.", "language_model.", "transformer.", "backbone.")


def is_linear(tensor: ExpectedTensor) -> bool:
    """Whether a tensor is the weight of a linear module that quantizations take by default: no embedding, head or router."""
    if tensor.component not in _LINEAR or len(tensor.shape) < 2 or "conv" in tensor.name:
        return False
    return tensor.name.endswith((".weight", ".gate_up_proj", ".down_proj"))


def is_matrix(tensor: ExpectedTensor) -> bool:
    """Whether a tensor is a matrix of a layer (routers among them), or a stack of such: no embedding, head, norm, bias or
    convolution."""
    return tensor.layer is not None and len(tensor.shape) >= 2 and "conv" not in tensor.name


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
    """Module names that are left alone: exact, with `*`, as `re:` expressions, or as one word of the path.

    `unread` holds expressions that are more than literals, alternatives and "anything": a publisher's regular expression is
    never run as such, because one can be made to run for ever.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.exact: set[str] = set()
        self.words: set[str] = set()
        self.globs: list[re.Pattern[str]] = []
        self.unread: list[str] = []
        for pattern in patterns:
            if pattern.startswith("re:"):
                globs = as_globs(pattern[3:])
                if globs is None:
                    self.unread.append(pattern)
                self.globs += [re.compile(fnmatch.translate(glob)) for glob in globs or ()]
            elif "*" in pattern:
                # Patterns of fnmatch match in linear time (Python 3.11: atomic groups).
                self.globs.append(re.compile(fnmatch.translate(bare_name(pattern))))
            elif "." in pattern:
                self.exact.add(bare_name(pattern))
            else:
                self.words.add(pattern)

    def match(self, module: str) -> bool:
        """Whether the module, or one that holds it, is left alone."""
        parts = module.split(".")
        if self.words.intersection(parts):
            return True
        holders = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        if any(holder in self.exact for holder in holders):
            return True
        return any(glob.match(holder) for glob in self.globs for holder in holders)


def as_globs(expression: str) -> list[str] | None:
    """A regular expression of literals, `.*`, `\\.` and one level of (a|b|c) as fnmatch patterns; None for anything else.

    It matches from the start of a name, as compressed-tensors does (re.match), so an open end takes anything.
    """
    if len(expression) > MAX_EXPRESSION:
        return None
    texts = [""]
    rest = expression.removeprefix("^")
    while rest:
        token = _TOKEN.match(rest)
        if token is None:
            return None
        rest = rest[token.end() :]
        if token.group("end"):
            return texts if not rest else None
        if token.group("any"):
            parts = ["*"]
        elif token.group("choice"):
            parts = token.group("choice")[1:-1].removeprefix("?:").split("|")
        else:
            literal = token.group("literal")
            parts = ["?" if literal == "." else literal.removeprefix("\\")]
        texts = [text + part for text in texts for part in parts]
        if len(texts) > MAX_CHOICES:
            return None
    return [f"{text}*" for text in texts]


MAX_EXPRESSION = 500
MAX_CHOICES = 64
_TOKEN = re.compile(r"(?P<any>\.\*\??|\.\+)|(?P<choice>\((?:\?:)?[\w.]+(?:\|[\w.]+)*\)(?![*+?{]))|(?P<end>\$)|"
                    r"(?P<literal>[\w-]|\\[.\-_]|\.)(?![*+?{])")  # fmt: skip
