"""Shape classes read back: `(1,8T,D),(V/8)` as sizes, each symbol by the size that it has in a trace."""

import re
from collections.abc import Mapping

_SIZE = re.compile(r"^(\d*)([A-Za-z]\w*)?(?:/(\d+))?$")


def sizes_of(shape_class: str, symbols: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The shapes that a class stands for, none for an empty one; LookupError for a size or a symbol that nobody knows."""
    if not shape_class:
        return []
    if not (shape_class.startswith("(") and shape_class.endswith(")")):
        raise LookupError(f"{shape_class} is no class of shapes")
    shapes = shape_class[1:-1].split("),(")
    return [tuple(_size(word, symbols) for word in shape.split(",") if word) for shape in shapes]


def _size(word: str, symbols: Mapping[str, int]) -> int:
    match = _SIZE.match(word.strip())
    if match is None or (match[2] and match[2] not in symbols) or not (match[1] or match[2]):
        raise LookupError(f"the size {word} is not known")
    size = int(match[1] or 1) * (symbols[match[2]] if match[2] else 1)
    return size // int(match[3]) if match[3] else size
