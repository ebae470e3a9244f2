"""Which architectures the installed modelling library knows, read from its source text so that nothing heavy is imported."""

from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from dayzero.stages.configuration.library_types import REGISTRIES, model_types


def library_name() -> str | None:
    """The modelling library with its version, or None when it is not installed."""
    try:
        return f"transformers {metadata.version('transformers')}"
    except metadata.PackageNotFoundError:
        return None


def known_architecture(model_type: str) -> bool | None:
    """Whether the installed modelling library knows the model type; None when it is not installed or cannot be read."""
    types = installed_types()
    return None if not types else model_type in types


@lru_cache(maxsize=1)
def installed_types() -> frozenset[str]:
    """Every model type that the installed modelling library knows; none where there is none that can be read."""
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        return frozenset()
    folder = Path(spec.origin).parent / "models" / "auto"
    found: set[str] = set()
    for name in REGISTRIES:
        path = folder / name
        if path.is_file():
            found |= set(model_types(path.read_text(encoding="utf-8")))
    return frozenset(found)
