"""Which architectures the installed modelling library knows, read from its source text so that nothing heavy is imported."""

import ast
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

_REGISTRIES = ("auto_mappings.py", "configuration_auto.py")


def library_name() -> str | None:
    """The modelling library with its version, or None when it is not installed."""
    try:
        return f"transformers {metadata.version('transformers')}"
    except metadata.PackageNotFoundError:
        return None


def known_architecture(model_type: str) -> bool | None:
    """Whether the installed modelling library knows the model type; None when it is not installed or cannot be read."""
    types = _known_types()
    return None if not types else model_type in types


@lru_cache(maxsize=1)
def _known_types() -> frozenset[str]:
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        return frozenset()
    folder = Path(spec.origin).parent / "models" / "auto"
    found: set[str] = set()
    for name in _REGISTRIES:
        path = folder / name
        if path.is_file():
            found |= _types_in(path.read_text(encoding="utf-8"))
    return frozenset(found)


def _types_in(source: str) -> set[str]:
    """Model types in a registry's source: every pair of a string and the name of a configuration class."""
    pairs: list[tuple[ast.expr | None, ast.expr]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            pairs.append((node.elts[0], node.elts[1]))
        elif isinstance(node, ast.Dict):
            pairs.extend(zip(node.keys, node.values, strict=True))
    return {key for left, right in pairs if (key := _text(left)) and (_text(right) or "").endswith("Config")}


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
