"""How a sentence names what it found."""

NAMED = 3
"""How many a sentence names before it only counts."""


def layer_index_of(module: str) -> int | None:
    """The first number in a module's path: its layer."""
    return next((int(part) for part in module.split(".") if part.isdigit()), None)


def first_named(names: list[str]) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - NAMED
    return "; ".join(names[:NAMED]) + (f"; and {rest} more" if rest > 0 else "")
