"""The parts of a predicate: typed, frozen, and already checked against the fields it may use."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dayzero.domain.columns import Column


class FieldKind(StrEnum):
    """What a field holds: text, a number (compared as a double), or a moment."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"


class Operator(StrEnum):
    """The comparisons. LIKE is a shell pattern with `*` and `?`, over the whole text, case-sensitive."""

    EQUAL = "="
    UNEQUAL = "!="
    LIKE = "~"
    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="


Value = str | float | datetime
"""What a field is compared with; its type follows from the field's kind (moments are in UTC)."""


@dataclass(frozen=True, slots=True)
class Everything:
    """Matches every row: the empty predicate."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field against one value."""

    field: str
    kind: FieldKind
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Membership:
    """One field against several values: equal to any of them."""

    field: str
    kind: FieldKind
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a term; unknown stays unknown."""

    term: "Predicate"


@dataclass(frozen=True, slots=True)
class And:
    """All terms."""

    terms: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any term."""

    terms: tuple["Predicate", ...]


Predicate = Everything | Comparison | Membership | Not | And | Or
"""A whole predicate."""


def fields_from(columns: Iterable[Column]) -> dict[str, FieldKind]:
    """The fields that a filter over these columns may name."""
    return {column.name: FieldKind(column.kind.value) for column in columns}
