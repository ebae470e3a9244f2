"""A predicate as SQL."""

import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Double, and_, bindparam, cast, func, not_, or_, true

from dayzero.stages.predicates.tree import And, Comparison, FieldKind, Membership, Not, Operator, Or, Predicate


def where(predicate: Predicate, columns: Mapping[str, ColumnElement[Any]]) -> ColumnElement[bool]:
    """The condition that holds for exactly the rows that `stages.predicates.matching.matches` takes.

    `columns` has a column for every field that the predicate was parsed with: text, any number type, or timestamptz.
    """
    if isinstance(predicate, Not):
        return not_(where(predicate.term, columns))
    if isinstance(predicate, And):
        return and_(*(where(term, columns) for term in predicate.terms))
    if isinstance(predicate, Or):
        return or_(*(where(term, columns) for term in predicate.terms))
    if isinstance(predicate, Membership):
        return _column(columns[predicate.field], predicate.kind).in_(predicate.values)
    if isinstance(predicate, Comparison):
        return _comparison(predicate, _column(columns[predicate.field], predicate.kind))
    return true()


def _column(column: ColumnElement[Any], kind: FieldKind) -> ColumnElement[Any]:
    """Numbers as doubles, with NaN (which PostgreSQL sorts above all) as unknown."""
    if kind is not FieldKind.NUMBER:
        return column
    return func.nullif(cast(column, Double), bindparam(None, math.nan, Double), type_=Double)


def _comparison(comparison: Comparison, column: ColumnElement[Any]) -> ColumnElement[bool]:
    value = comparison.value
    match comparison.operator:
        case Operator.EQUAL:
            return column == value
        case Operator.UNEQUAL:
            return column != value
        case Operator.LIKE:
            return column.like(_like_pattern(str(value)), escape="\\")
        case Operator.BELOW:
            return column < value
        case Operator.AT_MOST:
            return column <= value
        case Operator.ABOVE:
            return column > value
        case Operator.AT_LEAST:
            return column >= value


_LIKE = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_", "*": "%", "?": "_"})


def _like_pattern(pattern: str) -> str:
    return pattern.translate(_LIKE)
