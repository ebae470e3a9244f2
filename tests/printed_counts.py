"""Which convention a published parameter count follows: counts are compared as printed, with each convention by its name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from dayzero.domain.architecture import Parameters

_NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d{1,15}(?:\.\d{1,6})?)\s?([TBM](?![A-Za-z]))?")
_UNITS = {"T": 12, "B": 9, "M": 6}


@dataclass(frozen=True, slots=True)
class Printed:
    """A count as somebody printed it: its value, and the value of its last digit."""

    text: str
    value: int
    step: int


def printed_counts(text: str) -> tuple[Printed, ...]:
    """Every count in a text: 671B, 2.4B, 1.6T, or a whole number with commas."""
    found = []
    for number, unit in _NUMBER.findall(text[:1000]):
        if "," in number:
            found.append(Printed(number, int(number.replace(",", "")), 1))
        elif unit:
            exponent = _UNITS[unit]
            decimals = len(number.partition(".")[2])
            found.append(Printed(number + unit, int(Decimal(number) * 10**exponent), 10 ** (exponent - decimals)))
    return tuple(found)


def convention_of(count: Printed, conventions: Mapping[str, int]) -> str | None:
    """The first convention whose count, rounded to the printed digits, is the printed one; None when there is none."""
    for name, elements in conventions.items():
        rounded = (Decimal(elements) / count.step).quantize(Decimal(1), ROUND_HALF_UP) * count.step
        if rounded == count.value:
            return name
    return None


def total_conventions(parameters: Parameters) -> dict[str, int]:
    """Total parameters as publishers count them."""
    found: dict[str, int] = {}
    language = parameters.total_language
    if language is None:
        return found
    embeddings, head = (parameters.by_component.get(name, 0) for name in ("embeddings", "head"))
    found["language model"] = language
    if parameters.total is not None and parameters.total != language:
        found["with towers"] = parameters.total
    if head:
        found["without input embedding"] = language - embeddings
    found["without embeddings and head"] = language - embeddings - head
    if parameters.checkpoint_total is not None and parameters.checkpoint_total not in found.values():
        found["whole checkpoint"] = parameters.checkpoint_total
    return found
