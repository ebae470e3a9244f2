"""The figures of one use that decide whether a kernel fits it, and the constraints on them: `head_dim <= 256`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dayzero.domain.operators import GraphUse, KernelUse
from dayzero.stages.coverage.shape_classes import sizes_of

Figures = Mapping[str, int | float | str]

_CONSTRAINT = re.compile(r"^\s*([a-z_]+)\s*(<=|>=|==|!=|<|>|%|\bin\b)\s*(.+?)\s*$")
_ORDERED: Mapping[str, Callable[[float, float], bool]] = {
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
}
_DIVIDED = ("heads", "intermediate_size", "shared_intermediate_size", "vocabulary_size", "state_heads", "state_conv_channels")
"""Kernel figures that tensor parallelism divides among the ranks."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """A constraint that a use does not meet, with the figure that breaks it."""

    constraint: str
    figure: str
    value: int | float | str


def unmet(constraints: tuple[str, ...], figures: Figures) -> Unmet | None:
    """The first constraint that these figures break, or None.

    A constraint is `figure <= number` (also < >= > == !=), `figure in a, b, …` or `figure % n` (divides evenly). What is no
    constraint of that form, or speaks of a figure that the use has not, decides nothing: it stands as words.
    """
    for text in constraints:
        match = _CONSTRAINT.match(text)
        if match is None or match[1] not in figures:
            continue
        value = figures[match[1]]
        if _meets(value, match[2], match[3]) is False:
            return Unmet(text, match[1], value)
    return None


def _meets(value: int | float | str, relation: str, wanted: str) -> bool | None:
    """Whether the value stands in that relation; None where the constraint cannot be judged on it."""
    if relation == "in":
        return str(value) in {item.strip() for item in wanted.split(",")}
    if relation in ("==", "!="):
        return (str(value) == wanted) is (relation == "==")
    try:
        number = float(wanted)
    except ValueError:
        return None
    if isinstance(value, str):
        return None
    if relation == "%":
        return number != 0 and value % number == 0
    return _ORDERED[relation](value, number)


def rank_figures(kernel: KernelUse, tp: int) -> Figures:
    """A kernel's figures on one of `tp` ranks: heads and inner widths are divided, key-value heads while there are enough."""
    if tp <= 1:
        return kernel.constraints
    divided: dict[str, int | float | str] = {}
    for name, value in kernel.constraints.items():
        if isinstance(value, int) and name in _DIVIDED:
            divided[name] = -(-value // tp)
        elif isinstance(value, int) and name == "kv_heads":
            divided[name] = max(1, value // tp)
        else:
            divided[name] = value
    return divided


def use_figures(use: GraphUse, symbols: Mapping[str, int]) -> Figures:
    """A graph use's figures, by its shapes: rank and last_dim of its first tensor, in_features and out_features of products,
    heads, kv_heads, head_dim and value_head_dim of attention, groups of grouped products."""
    shapes = shapes_of(use.shape_class, symbols)
    if not shapes:
        return {}
    first = shapes[0]
    figures: dict[str, int | float | str] = {"rank": len(first), "phase": use.phase.value}
    if first:
        figures["last_dim"] = first[-1]
    figures.update(_of_attention(shapes) if "attention" in use.name else _of_product(use.name, shapes))
    return figures


def _of_attention(shapes: list[tuple[int, ...]]) -> dict[str, int]:
    if len(shapes) < 3 or any(len(shape) < 3 for shape in shapes[:3]):
        return {}
    query, key, value = shapes[:3]
    return {"heads": query[-3], "kv_heads": key[-3], "head_dim": query[-1], "value_head_dim": value[-1], "queries": query[-2]}


def _of_product(name: str, shapes: list[tuple[int, ...]]) -> dict[str, int]:
    words = name.split(".")
    if len(words) < 2 or words[1] not in ("mm", "bmm", "addmm", "_grouped_mm", "_scaled_mm", "linear", "baddbmm"):
        return {}
    matrices = [shape for shape in shapes if len(shape) >= 2]
    if len(matrices) < 2:
        return {}
    left, right = matrices[-2:] if words[1] == "addmm" else matrices[:2]
    figures = {"in_features": left[-1], "out_features": right[-1]}
    return figures | ({"groups": right[0]} if len(right) == 3 else {})


def shapes_of(shape_class: str, symbols: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The shapes that a shape class stands for; empty where nobody can say."""
    try:
        return sizes_of(shape_class, symbols)
    except LookupError:
        return []
